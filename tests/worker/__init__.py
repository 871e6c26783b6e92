"""The worker: in this process on threads, and as processes of its own."""
