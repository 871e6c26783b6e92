"""The parts of a worker, each by itself."""
