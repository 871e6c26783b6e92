"""Unit tests: they mirror the source, one file for each module."""
