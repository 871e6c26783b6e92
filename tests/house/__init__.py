"""Tests that read the source and keep the house tidy."""
