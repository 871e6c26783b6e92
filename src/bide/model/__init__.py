"""Values and decisions. Pure: no clock, no I/O, no threads, no randomness."""
