"""Tests of the programs in ``examples``, the whole of them included."""
