"""Every backend, held against the one suite."""
