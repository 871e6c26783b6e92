"""A machine in memory: one seed drives its clock, its disk and every process on it."""
