"""The worker: reserves due jobs, runs them, settles them."""
