"""The kinds of faults that the soak injects. Each is a function of the victim; it returns False if it had no effect."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil

from include.fault_points import FAULT_POINTS
from tests.soak.victim import NEW_KEYS, PARTITIONS, RUN_SECONDS_MAX, Victim
from tests.support.advice import advised, follow
from tests.support.waiting import wait_until

Fault = Callable[[Victim], bool]


def killed_at(point: str, victim: Victim) -> bool:
    if point == "rebuild.set_aside":
        return _ledger_lost(victim, "torn", LAKEMARK_TEST_FAULT=f"{point}=kill")
    if point == "generation.fenced":
        process = victim.start("reset", victim.pipeline.name, "--reason", "soak", LAKEMARK_TEST_FAULT=f"{point}=kill")
        process.communicate(timeout=RUN_SECONDS_MAX)
        victim.command("reset", victim.pipeline.name, "--reason", "soak", code=1)  # ended as it was begun
        return process.returncode == -signal.SIGKILL
    process = victim.run(LAKEMARK_TEST_FAULT=f"{point}=kill")
    said, _ = process.communicate(timeout=RUN_SECONDS_MAX)
    return process.returncode == -signal.SIGKILL or "killed by SIGKILL" in said


def killed_at_random(victim: Victim) -> bool:
    """The command and its job, some time after the batch was planned."""
    process = victim.run()
    _later(victim.chance.uniform(0.5, 7), lambda: _kill_all(process))
    process.communicate(timeout=RUN_SECONDS_MAX)
    return process.returncode == -signal.SIGKILL


def service_killed(name: str, victim: Victim) -> bool:
    process = victim.run()
    pid = victim.stack.service_pid(name)
    _later(victim.chance.uniform(1, 6), partial(_signal, pid, signal.SIGKILL))
    process.communicate(timeout=RUN_SECONDS_MAX)
    wait_until(lambda: victim.stack.service_pid(name) not in (None, pid), 90)
    victim.stack.wait_for(name, lambda text: None)
    return True


def service_frozen(name: str, victim: Victim) -> bool:
    """It stands still for some seconds in the middle of a run."""
    pid = victim.stack.service_pid(name)
    process = victim.run()
    delay = victim.chance.uniform(1, 4)
    _later(delay, partial(_signal, pid, signal.SIGSTOP))
    timer = _later(delay + 3, partial(_signal, pid, signal.SIGCONT))
    process.communicate(timeout=RUN_SECONDS_MAX)
    timer.join()
    return True


def zombie(victim: Victim) -> bool:
    """An attempt is stopped before its MERGE, another one lands, the first goes on."""
    process = victim.run(LAKEMARK_TEST_FAULT="attempt.before_merge=stop")

    def stopped() -> psutil.Process | bool:
        if process.poll() is not None:
            return True
        family = psutil.Process(process.pid).children(recursive=True)
        return next((p for p in family if p.status() == psutil.STATUS_STOPPED), False)

    sleeper = wait_until(stopped, RUN_SECONDS_MAX)
    if sleeper is True:
        return False  # there was nothing to do
    victim.command("run", victim.pipeline.name, code=None)
    if victim.chance.random() < 0.3:
        victim.command("reset", victim.pipeline.name, "--reason", "soak")
    sleeper.send_signal(signal.SIGCONT)
    process.communicate(timeout=RUN_SECONDS_MAX)
    return True


def two_at_once(victim: Victim) -> bool:
    processes = [victim.run(), victim.run()]
    for process in processes:
        process.communicate(timeout=RUN_SECONDS_MAX)
    return True


def reset_in_the_middle(victim: Victim) -> bool:
    process = victim.run()
    state = victim.world.coordinator(victim.pipeline).ledger.state()
    last = max(0, state.committed_through)
    back = victim.chance.choice(["committed", str(max(0, last - 2))]) if state.batches else "committed"
    _wait(victim.chance.uniform(0, 5), process)
    said = victim.command("reset", victim.pipeline.name, "--from", back, "--reason", "soak", code=None)
    process.communicate(timeout=RUN_SECONDS_MAX)
    return "begins" in said


def ledger_lost(how: str, victim: Victim) -> bool:
    return _ledger_lost(victim, how)


def _ledger_lost(victim: Victim, how: str, **environment: str) -> bool:
    victim.command("run", victim.pipeline.name, "--until-caught-up", code=None)  # so that it has something to lose
    path = Path(str(victim.world.coordinator(victim.pipeline).ledger.uri))
    if how == "deleted":
        shutil.rmtree(path)
    else:
        [*_, last] = sorted((path / "_delta_log").glob("*.json"))
        if last.with_suffix(".checkpoint.parquet").exists():
            return False  # it holds what is lost
        last.write_bytes(last.read_bytes()[:-15] if how == "torn" else b"")
    if environment:
        process = victim.start("ledger", "rebuild", victim.pipeline.name, **environment)
        said, _ = process.communicate(timeout=RUN_SECONDS_MAX)
        assert process.returncode == -signal.SIGKILL, said
    victim.command("ledger", "rebuild", victim.pipeline.name)
    return True


def records_expired(victim: Victim) -> bool:
    """Retention takes records that nobody has read; a person gives them up. Their keys are used for nothing else."""
    victim.drain()
    lost = victim.world.produce(victim.topic, [{"id": 10**9 + n, "seq": 0, "name": "x", "op": "u"} for n in range(4)])
    ends: dict[int, tuple[int, int]] = {}
    for record in lost:
        low, high = ends.get(record.partition, (record.offset, record.offset))
        ends[record.partition] = min(low, record.offset), max(high, record.offset)
    if victim.chance.random() < 0.5:  # they are planned already
        victim.command("plan", victim.reader)
    for partition, (_, high) in ends.items():
        victim.world.delete_before(victim.topic, partition, high + 1)
    assert "ledger skip" in victim.command("run", victim.pipeline.name, code=1)
    given_up = [f"--range={victim.topic}-{p}:{low}-{high + 1}" for p, (low, high) in ends.items()]
    victim.command("ledger", "skip", victim.reader, *given_up, "--reason", "soak")
    victim.world.sent.clear()
    return True


def transaction_aborted(victim: Victim) -> bool:
    """Records that must never be seen, and a producer that holds the last stable offset for a while."""
    ghosts = [{"id": n, "seq": 10**12, "name": "ghost", "op": "u"} for n in range(50)]
    with victim.world.open_transaction(victim.topic, ghosts):
        victim.command("run", victim.pipeline.name, code=None)
    return True


def table_maintained(victim: Victim) -> bool:
    """OPTIMIZE and VACUUM at the same time as a run."""
    path = str(victim.world.coordinator(victim.pipeline).tables.target)
    if not (Path(path) / "_delta_log").exists():
        return False
    process = victim.run()
    with victim.world.session() as spark:
        for statement in (f"OPTIMIZE delta.`{path}`", f"VACUUM delta.`{path}`"):
            try:
                spark.sql(statement).collect()
            except Exception as error:  # the run may win a conflict, and that is fine
                assert "oncurrent" in str(error) or "CONCURRENT" in str(error), error
    process.communicate(timeout=RUN_SECONDS_MAX)
    return True


def table_restored(victim: Victim) -> bool:
    """The target is rolled back by two batches, and they are applied again."""
    coordinator = victim.world.coordinator(victim.pipeline)
    state = coordinator.ledger.state()
    if state.committed_through < 2:
        return False
    first = state.committed_through - 1
    version = state.batches[first - 1].commit.table_version
    with victim.world.session() as spark:
        spark.sql(f"RESTORE TABLE delta.`{coordinator.tables.target}` TO VERSION AS OF {version}")
    assert f"--from {first}" in victim.command("run", victim.pipeline.name, code=1)
    victim.command("reset", victim.pipeline.name, "--from", str(first), "--reason", "soak")
    return True


def topic_created_anew(victim: Victim) -> bool:
    """Under the same name, with offsets from 0; a person does what the errors say."""
    victim.drain()
    victim.world.recreate_topic(victim.topic, PARTITIONS)
    values = [
        {"id": key, "seq": 10**9, "name": "anew", "op": "u", **victim.more} for key in range(NEW_KEYS, NEW_KEYS + 9)
    ]
    victim.expected.add(victim.world.produce(victim.topic, values, PARTITIONS))
    met = follow(victim.world, victim.pipeline)
    assert {error["error"] for error in met} == {"TopicRecreated"}, met
    victim.world.sent.clear()
    return True


def backfill_over_purged_deletes(victim: Victim) -> bool:
    """Tombstones are purged; reading again into the table itself is refused; what the error says instead works."""
    victim.drain()
    assert "purged tombstones" in victim.command("maintain", victim.pipeline.name)
    [end, *_] = [
        r.end_offset for r in victim.world.coordinator(victim.pipeline).ledger.state().batches[-1].batch.ranges
    ]
    again = f"--range={victim.topic}-0:0-{max(1, end // 2)}"
    said = victim.command("backfill", victim.pipeline.name, again, "--reason", "soak", code=1)
    assert "rows that are deleted could come back" in said, said
    [command, *_] = advised(said, victim.pipeline)
    victim.command(*command)
    return True


KINDS: dict[str, Fault] = {
    **{f"killed at {point}": partial(killed_at, point) for point in FAULT_POINTS},
    "killed at random": killed_at_random,
    "spark killed": partial(service_killed, "spark"),
    "kafka killed": partial(service_killed, "kafka"),
    "spark frozen": partial(service_frozen, "spark"),
    "kafka frozen": partial(service_frozen, "kafka"),
    "zombie": zombie,
    "two at once": two_at_once,
    "reset in the middle": reset_in_the_middle,
    "ledger deleted": partial(ledger_lost, "deleted"),
    "ledger emptied": partial(ledger_lost, "emptied"),
    "records expired": records_expired,
    "transaction aborted": transaction_aborted,
    "table maintained": table_maintained,
    "table restored": table_restored,
    "topic created anew": topic_created_anew,
    "backfill over purged deletes": backfill_over_purged_deletes,
}


def can_suffer(kind: str, victim: Victim) -> bool:
    """Whether the kind is for this pipeline: not every attempt passes every fault point."""
    match kind:
        case "records expired" | "topic created anew":
            return victim.forgets
        case "backfill over purged deletes":
            return not victim.forgets
        case "killed at attempt.archive_landed":
            return victim.pipeline.archive is not None and victim.pipeline.landing is None
        case "killed at attempt.history_landed":
            return victim.pipeline.target.history_table is not None
        case "killed at attempt.route_landed":
            return bool(victim.pipeline.target.routes)
        case _:
            return True


def _later(seconds: float, act: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()
    return timer


def _wait(seconds: float, process: subprocess.Popen) -> None:
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return


def _signal(pid: int | None, number: signal.Signals) -> None:
    if pid is not None and psutil.pid_exists(pid):
        os.kill(pid, number)


def _kill_all(process: subprocess.Popen) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
