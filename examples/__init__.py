"""Programs that show what bide does. Each is a package of its own, run from the checkout."""
