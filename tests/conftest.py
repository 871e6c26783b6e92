"""Has pytest explain the suite's own assertions."""

import pytest

pytest.register_assert_rewrite("bide.testing")
