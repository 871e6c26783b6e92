"""Backends held against a plain model, by Hypothesis."""
