"""bide's tests, one package for each kind."""
