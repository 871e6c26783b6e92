"""The bytes of every released format, only ever added to."""
