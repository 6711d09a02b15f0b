"""Faults of what Kafka and the lake hold: ledgers and records lost, topics made anew, tables maintained or restored."""

from __future__ import annotations

import shutil
import signal

from tests.soak.victim import NEW_KEYS, PARTITIONS, RUN_SECONDS_MAX, Victim
from tests.support.advice import advised, follow


def ledger_lost(how: str, victim: Victim, **environment: str) -> bool:
    victim.command("run", victim.pipeline.name, "--until-caught-up", code=None)  # so that it has something to lose
    path = victim.world.on_disk(victim.world.coordinator(victim.pipeline).ledger.uri)
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
    for sink in victim.pipeline.sinks:  # whether it was paused is lost, so it is
        victim.command("sinks", "resume", victim.pipeline.name, sink, "--reason", "soak")
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
    victim.is_whole = victim.is_whole and victim.pipeline.landing is not None  # its archive has what Kafka has dropped
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
    if victim.tables["target"].version is None:
        return False
    path = str(victim.world.coordinator(victim.pipeline).tables.target)
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
    victim.is_whole = False
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
