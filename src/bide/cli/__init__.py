"""The command line: argv and environment in, objects out. Nothing else reads the environment."""
