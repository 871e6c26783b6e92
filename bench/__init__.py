"""How fast bide is, as ratios in one run: ``python -m bench``.

Every figure is taken several times, in rounds that go through all of them,
so that a machine that slows down slows all. What each is compared with
runs in the same round: the disk's own rate, or `bench.raw_engine`.
"""
