"""The backends that come with bide."""
