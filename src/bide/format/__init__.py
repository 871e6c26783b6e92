"""Bytes <-> values, one file for each byte format. Pure."""
