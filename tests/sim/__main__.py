from tests.sim.script import make_script
from tests.sim.world import World
import sys,traceback,time,collections
a,b,n=map(int,sys.argv[1:4])
tot=collections.Counter()
t=time.monotonic()
for seed in range(a,b):
    w=World(print if b-a==1 else lambda t:None)
    sc=make_script(seed,n)
    try: w.run(sc)
    except BaseException as e:
        print("SEED",seed,type(e).__name__,str(e)[:300])
        if b-a==1: traceback.print_exc()
        if isinstance(e,KeyboardInterrupt): break
    tot+=w.happened
print(time.monotonic()-t); print(tot)
