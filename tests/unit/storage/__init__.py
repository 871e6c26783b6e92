"""The storage floor: log, index, store, and who is present."""
