"""The user's face: an App, its tasks, and what becomes of their jobs."""
