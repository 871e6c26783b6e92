"""A run of a script: processes on one machine, and an oracle that knows what each may see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from bide.errors import BideError, StoreClosed, StoreError, StoreFailed, StoreFull
from bide.model import commands as c
from bide.model.job import Lease, OwnerId
from bide.storage.checkpoint import newest_checkpoint
from bide.storage.log_files import START, Position
from bide.storage.recovery import position_of, rebuild
from bide.storage.tables import Environment, MemoryTables
from tests.sim.damage import spoil
from tests.sim.disk import Killed, PowerCut, ProcessDisk
from tests.sim.files import File
from tests.sim.judge import differences
from tests.sim.machine import PATH, Machine, SimDirectory
from tests.sim.oracle import Oracle, plain_answer
from tests.sim.process import (
    QUEUES,
    Process,
    make_change,
    make_outcome,
    make_put,
)
from tests.sim.script import PROCESS_COUNT, Step
from tests.unit.storage.histories import dump

START_MS = 1_767_225_600_000
DAY_MS = 86_400_000
CHECK_INTERVAL = 20
"""Steps from one look at everything to the next."""


@dataclass(frozen=True)
class Ended:
    """A lease that is over, as far as its worker knows."""

    lease: Lease


class World:
    """Everything, at one moment of a run."""

    def __init__(self, tell: Callable[[str], None] = lambda text: None) -> None:
        self.tell = tell
        self.machine = Machine()
        self.machine.make_store()
        self.oracle = Oracle()
        self.now_ms = START_MS
        self.processes: list[Process | None] = [None] * PROCESS_COUNT
        self.boards: dict[int, frozenset[tuple[int, int]]] = {}
        """What dead workers had started."""
        self.ended: list[Lease] = []
        self.happened: Counter[str] = Counter()
        self.observer = ProcessDisk(self.machine.disk)
        self._is_off = False
        self._is_unsettled = False  # the power was cut, and nobody has opened the store since
        self._floor: int | None = None  # up to where a damaged log must be there still
        self._running: list[tuple[Step, Process]] = []

    # ------------------------------------------------------------ steps

    def run(self, script: Sequence[Step]) -> None:
        """Do all of it; at the end the power is cut, and all must be there.

        Raises:
            AssertionError: A promise was broken.
        """
        for count, step in enumerate(script, start=1):
            self.step(step)
            if count % CHECK_INTERVAL == 0:
                self.check()
        self.machine.disk.is_full = False
        self.crash(Random(len(script)))
        self.settle()
        self.check()

    def step(self, step: Step) -> None:
        random = Random(step.seed)
        self.happened[step.kind] += 1
        process = self.process(step.process)
        self.tell(str(step))
        self._running.append((step, process))
        process.disk.arm(step.fault, random)
        try:
            try:
                getattr(self, f"_do_{step.kind}")(process, random)
            except StoreError as error:
                self.refused(step.process, error, random)
        except (Killed, PowerCut):
            if not self._is_off:
                self.happened["killed in a call"] += 1
                self.bury(step.process)
            elif len(self._running) > 1:
                raise PowerCut from None  # it ends the step around this one, too
            else:
                self.happened["power cut in a call"] += 1
                self.crash(random)
        finally:
            self._running.pop()
            for fault in process.disk.faults:
                self.tell(f"      {fault}")
                self.happened[fault.split(" disk call")[0]] += 1
            process.disk.arm(None, random)
        if not self._running:
            self.check_end()

    def on_call(self, number: int) -> None:
        """A process is about to call the disk: another one may be quicker."""
        step, _ = self._running[-1]
        if step.meanwhile is None or step.meanwhile_at != number or len(self._running) > 1:
            return
        locks = (PATH / "lock", PATH / "users")
        if self.machine.transactions or any(map(self.machine.is_held_alone, locks)):
            return  # who holds these keeps all others waiting
        self.happened["at the same time"] += 1
        self.step(step.meanwhile)

    def process(self, number: int) -> Process:
        process = self.processes[number]
        if process is None:
            process = self.processes[number] = self._start()
        return process

    def _start(self) -> Process:
        def on_call(number: int) -> None:
            if self._running and self._running[-1][1] is process:
                self.on_call(number)

        disk = ProcessDisk(self.machine.disk, on_call=on_call, power_off=self.power_off)
        process = Process(self.machine, disk, on_opened=self.opened, on_recovered=self.recovered)
        return process

    # ------------------------------------------------------------ ends

    def bury(self, number: int) -> None:
        """A process is dead, in whatever it did."""
        self.tell(f"      process {number} has ended")
        process = self.processes[number]
        self.processes[number] = None
        if process is not None:
            process.disk.die()
            self.ended += process.leases.values()
            if process.owner is not None:
                self.boards[process.owner] = frozenset(process.started)

    def refused(self, number: int, error: StoreError, random: Random) -> None:
        """A call has failed: is there a reason?"""
        process = self.processes[number]
        assert process is not None
        self.happened[type(error).__name__] += 1
        self.tell(f"      {type(error).__name__}: {error}")
        reasons = [*process.disk.faults]
        if self.machine.disk.is_full:
            reasons.append("disk full")
        if isinstance(error, StoreFailed) and self._is_suspect:
            reasons.append("a sync has failed before")
        if isinstance(error, StoreClosed) and process.store._broken is not None:
            reasons.append("it was broken")
        if not reasons or not isinstance(error, StoreFull | StoreFailed | StoreClosed):
            raise error
        if isinstance(error, StoreFull):
            if process.store.is_closed:  # closing it was what failed
                self.bury(number)
            return
        if process.is_open and random.random() < 0.5:
            return  # it goes on, as far as it can
        self.end_process(number, is_killed=random.random() < 0.5)
        if self._is_suspect and random.random() < 0.5:
            self.happened["all stopped to mend it"] += 1
            for other in range(PROCESS_COUNT):
                if not any(running is self.processes[other] for _, running in self._running):
                    self.end_process(other, is_killed=random.random() < 0.5)

    def end_process(self, number: int, *, is_killed: bool) -> None:
        process = self.processes[number]
        if process is not None and not is_killed:
            process.disk.arm(None, Random(0))
            try:
                self.close(process)
            except StoreError:
                assert self._is_suspect or process.store._broken is not None
        self.bury(number)

    def close(self, process: Process) -> None:
        process.store.close()
        if process.store._broken is None:
            self.oracle.persisted(process.store.end)

    def power_off(self) -> None:
        self._is_off = True
        for process in self.processes:
            if process is not None:
                process.disk.die()

    def crash(self, random: Random) -> None:
        """The machine goes down, and comes up again."""
        self.tell("      the power is cut")
        self.power_off()
        for number in range(PROCESS_COUNT):
            self.bury(number)
        self.machine.disk.root.cut(random)
        self.machine.restart()
        # A board is no more than a page in memory.
        self.boards = {
            owner: board for owner, board in self.boards.items() if random.random() < 0.5
        }
        self.ended.clear()
        self._is_off = False
        self._is_unsettled = True

    # ------------------------------------------------------------ what must be true

    def opened(self, environment: Environment, position: Position) -> None:
        """A store was opened: after a power cut, with an index that was closed in time, maybe."""
        if self._is_unsettled:
            self.recovered(environment, position)
            self.happened["index good over a power cut"] += 1

    def recovered(self, environment: Environment, position: Position) -> None:
        """The index was made anew: it must be what was true at some moment, late enough."""
        oracle = self.oracle
        floor = oracle.durable_end if self._is_unsettled else oracle.end
        if self._floor is not None:
            floor = min(floor, self._floor)
        reasons: list[list[str]] = []
        for model in oracle.candidates(position.end, floor):
            found = differences(model, environment)
            if not found:
                break
            reasons.append(found)
        else:
            raise AssertionError(
                f"the log ends at {position.end}; it must hold all up to {floor}"
                f" (durable {oracle.durable_end}, acknowledged {oracle.end}): {reasons}"
            )
        self.tell(f"      recovered up to {position.end}, of {oracle.durable_end} {oracle.end}")
        self.happened["recovered"] += 1
        self.happened["something lost that was not durable"] += position.end < oracle.end
        self.happened["unanswered, and there"] += position.end > oracle.end
        oracle.recovered(model, position.end)
        self._is_unsettled = False
        self.check_law(environment, position)

    def check(self) -> None:
        """Look at everything."""
        environment = self.index()
        if environment is not None:
            found = differences(self.oracle.model, environment)
            assert not found, found
            self.check_law(environment, position_of(environment))

    def check_end(self) -> None:
        """Nothing was carried out but what was answered."""
        environment = self.index()
        if environment is not None:
            end = position_of(environment).end
            assert end == self.oracle.end, f"the index ends at {end}, not at {self.oracle.end}"

    def index(self) -> Environment | None:
        """The index in force; None from a power cut until one is."""
        directory = SimDirectory(self.machine, self.observer)
        state = directory.read_state()
        if self._is_unsettled or not directory.is_index_good(state):
            return None
        return directory._follow(state)[1]

    def check_law(self, environment: Environment, position: Position) -> None:
        """What a checkpoint and the log behind it make is the index."""
        directory = SimDirectory(self.machine, self.observer)
        state = directory.read_state()
        checkpoint = newest_checkpoint(self.observer, directory.log_path(state.log))
        tables, start = MemoryTables(), START
        if checkpoint is not None:
            tables, start = MemoryTables.load(checkpoint.image()), checkpoint.position
            checkpoint.close()
        end = rebuild(directory.log(state.log), tables, position, start=start)
        assert end == position, f"the log ends at {end}, the index at {position}"
        assert dump(tables) == dump(environment), "the log does not make the index"
        assert not self.observer.open_count, "a file was left open"

    def settle(self, floor: int | None = None) -> None:
        """Have somebody open the store, and nothing go wrong meanwhile.

        Args:
            floor: Up to where the log may have lost what was durable.
        """
        self._floor = floor
        try:
            with self.process(0).store.view():
                pass
        finally:
            self._floor = None

    @property
    def _is_suspect(self) -> bool:
        return "suspect" in self.machine.disk.folder(PATH).names

    # ------------------------------------------------------------ what processes do

    def commit(self, process: Process, commands: Sequence[c.Command], random: Random) -> list[Any]:
        """Carry out *commands*, compare the answers, and sync as it comes."""
        sync = random.choice(["always", "always", "interval", "never"])
        try:
            answers, end = process.store.commit(commands, self.now_ms)
        except BaseException:
            self.oracle.doubted(commands, self.now_ms)
            raise
        assert process.store._parts is not None
        position = position_of(process.store._parts.environment)
        expected = self.oracle.committed(commands, self.now_ms, position.end)
        self.tell(f"      {[type(one).__name__ for one in commands]} {position}, {sync}")
        found = [plain_answer(answer) for answer in answers]
        assert found == expected, f"{commands}: answered {found}, not {expected}"
        if sync == "always":
            self.persist(process, end)
        return answers

    def persist(self, process: Process, end: int) -> None:
        process.store.persist(end, "always")
        self.oracle.persisted(end)
        self.tell(f"      synced up to {end}")

    def _do_put(self, process: Process, random: Random) -> None:
        name = f"{self.oracle.moment_count}.{random.getrandbits(32):x}"
        self.commit(process, [make_put(random, self.now_ms, name)], random)

    def _do_work(self, process: Process, random: Random) -> None:
        """Settle some, and reserve."""
        if process.owner is None:
            token = f"{random.getrandbits(64):x}"
            command = c.Register(token, "host", 1, QUEUES)
            [owner] = self.commit(process, [command], random)
            process.owner = owner
        held = list(process.leases.values())
        ending = random.sample(held, random.randrange(len(held) + 1))
        settlements = [
            c.Settlement(one.job.id, one.attempt, make_outcome(random, self.now_ms))
            for one in ending
        ]
        queues = tuple(random.sample(QUEUES, random.randrange(1, 4)))
        commands: list[c.Command] = [
            c.Settle(process.owner, tuple(settlements)),
            c.Reserve(process.owner, queues, random.randrange(1, 6)),
        ]
        for lease in ending:  # whatever becomes of the call, this worker is done with them
            del process.leases[lease.job.id]
        self.ended += ending
        try:
            answers = self.commit(process, commands, random)
        except StoreFull:
            process.leases |= {lease.job.id: lease for lease in ending}
            raise
        leases = answers[1]
        if isinstance(leases, BideError):
            process.owner = None  # it was taken for dead
            return
        for lease in leases:
            assert lease.job.due_ms <= self.now_ms, f"job {lease.job.id} runs before it is due"
            assert lease.attempt <= lease.job.max_retries + 1
            process.leases[lease.job.id] = lease
            if random.random() < 0.5:
                process.started.add((lease.job.id, lease.attempt))

    def _do_change(self, process: Process, random: Random) -> None:
        command = make_change(random, self.now_ms, self.oracle.model.next_id)
        self.commit(process, [command], random)

    def _do_late(self, process: Process, random: Random) -> None:
        """A worker says what has become of a lease that it has lost."""
        if self.ended:
            lease = random.choice(self.ended)
            outcome = make_outcome(random, self.now_ms)
            settlement = c.Settlement(lease.job.id, lease.attempt, outcome)
            self.commit(process, [c.Settle(lease.owner, (settlement,))], random)

    def _do_expire(self, process: Process, random: Random) -> None:
        """Take back what a dead worker held."""
        living = {other.owner for other in self.processes if other is not None}
        dead = sorted(self.oracle.model.owners - living)
        if dead:
            owner = OwnerId(random.choice(dead))
            started = self.boards.get(owner, frozenset())
            command = c.Expire(owner, started, "its worker died", random.choice([2, 256]))
            self.commit(process, [command], random)

    def _do_tick(self, process: Process, random: Random) -> None:
        """What the thread behind ``sync="interval"`` does."""
        if process.is_open:
            self.persist(process, process.store.end)

    # ------------------------------------------------------------ what befalls them

    def _do_clock(self, process: Process, random: Random) -> None:
        self.machine.disk.is_full = False  # somebody has made room meanwhile
        self.now_ms += random.choice(
            [*[1, 1_000, 60_000, 3_600_000] * 4, -DAY_MS, DAY_MS, 365 * DAY_MS]
        )

    def _do_kill(self, process: Process, random: Random) -> None:
        raise Killed

    def _do_stop(self, process: Process, random: Random) -> None:
        self.close(process)
        self.bury(self.processes.index(process))

    def _do_stop_all(self, process: Process, random: Random) -> None:
        for number in range(PROCESS_COUNT):
            if self.processes[number] is not process:
                self.end_process(number, is_killed=random.random() < 0.2)
        self._do_stop(process, random)

    def _do_upkeep(self, process: Process, random: Random) -> None:
        process.upkeep.run(compact=random.random() < 0.3)

    def _do_power(self, process: Process, random: Random) -> None:
        self.power_off()
        raise PowerCut

    def _do_damage(self, process: Process, random: Random) -> None:
        """The power is cut, and something that was on the disk is not what it was."""
        self.machine.disk.is_full = False
        self.crash(random)
        spoil(self, random)

    def _do_full(self, process: Process, random: Random) -> None:
        self.machine.disk.is_full = True

    def _do_write_back(self, process: Process, random: Random) -> None:
        """The kernel writes pages by itself, and fails. Nobody is told yet."""
        directory = SimDirectory(self.machine, self.observer)
        folder = self.machine.disk.folder(directory.log_path(directory.read_state().log))
        files = [node for node in folder.names.values() if isinstance(node, File) and node.is_dirty]
        if files:
            random.choice(files).fail_sync(random)
