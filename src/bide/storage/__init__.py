"""The embedded engine: disk, log, index, store, presence of workers."""
