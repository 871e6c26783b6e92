def spoil(world, random):
    pass
