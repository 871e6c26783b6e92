"""What users write: tasks, arguments, times, Apps."""
