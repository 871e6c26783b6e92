"""Where jobs are kept: the seam (`bide.backends.port`) and what fills it."""
