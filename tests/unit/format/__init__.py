"""Bytes and values, both ways, and damage."""
