"""Faults that people make: tables rolled back, replaced, lost, or with rows taken out; a suite changed between two
attempts. Each must be noticed, and what Lakemark says then must lead back to the right tables."""

from __future__ import annotations

import json
import shutil
import signal
from typing import Any

from include.control.coordinator import Coordinator
from tests.soak.crashes import dies_at, stopped
from tests.soak.load import changes
from tests.soak.victim import PARTITIONS, RUN_SECONDS_MAX, Table, Victim

RESTORED = "RESTORE TABLE {0} TO VERSION AS OF {1}"
REPLACED = "CREATE OR REPLACE TABLE {0} USING delta AS SELECT * FROM {0} VERSION AS OF {1}"
_FEW = 150  # records, sent by a fault
_NOTICED = "TargetBehindLedger"


def undone_while_planned(statement: str, role: str, victim: Victim) -> bool:
    """A table is rolled back, or replaced, to before the last batch that has landed, while another one is planned."""
    table = victim.tables[role]
    if table.version is None:
        victim.drain()
        victim.send(_FEW)
    before = table.version
    victim.drain()
    if before is None or table.version == before:
        return False
    _plan_more(victim, table)
    _execute(victim, statement, table, before)
    met = victim.do_as_told()
    assert met[:1] == [_NOTICED], f"{role} was undone, and that was not noticed: {met}"
    return True


def target_lost_after_reset(victim: Victim) -> bool:
    """The target is lost when a generation has begun and nothing of it has landed."""
    victim.drain()
    victim.command("reset", victim.pipeline.name, "--reason", "soak")
    shutil.rmtree(victim.world.on_disk(victim.tables["target"].uri))
    victim.send(_FEW)
    met = victim.do_as_told()
    assert met[:1] == [_NOTICED], f"the target was lost, and that was not noticed: {met}"
    return True


def rows_taken_out(role: str, victim: Victim) -> bool:
    """Rows are deleted by hand; the audit names the table; a person brings them back."""
    table, first = victim.tables[role], victim.expected.events
    victim.send(_FEW)
    victim.drain()
    before = table.version
    if before is None or not _execute(victim, f"DELETE FROM {{0}} WHERE {_some(role, first)}", table, before):
        return False
    audited = victim.world.lakemark("audit", victim.pipeline.name, "--deep", "--json")
    assert audited.returncode == 1, f"rows were taken out of {role}, and that was not found: {audited.stdout}"
    named = [f for f in _findings(audited.stdout) if table.name in f["where"] or f"the {table.name} holds" in f["what"]]
    assert any("another writer" not in f["what"] for f in named), f"rows were taken out of {role}: {audited.stdout}"
    if role in ("quarantine", "archive") or victim.purges or victim.chance.random() < 0.5:
        _execute(victim, RESTORED, table, before)  # it is as it was: a person puts that on record
        assert victim.do_as_told() == []
        victim.command("reset", table.half.name, "--reason", "soak")
    else:
        victim.command("reset", table.half.name, "--from", "earliest", "--reason", "soak")
    return True


def gone_back(victim: Victim, fault: str | None = None) -> bool:
    """All tables and the offsets go back to a batch that has landed, of any generation."""
    victim.drain()
    whole = _whole_ones(victim, "checkpoint", "--last", "30")
    return bool(whole) and _went_back(victim, "checkpoint", victim.chance.choice(whole), fault)


def gone_back_by_name(victim: Victim, fault: str | None = None) -> bool:
    """A savepoint is made, and is rehearsed; all tables and the offsets go back to one that was made in any round."""
    victim.drain()
    if not _whole_ones(victim, "checkpoint", "--last", "1"):
        return False
    told = ["--name", f"s{victim.expected.events}", *(["--copy"] if victim.chance.random() < 0.5 else [])]
    create = ("savepoint", "create", victim.pipeline.name, *told)
    if fault is not None and fault.startswith("savepoint."):
        process = victim.start(*create, LAKEMARK_TEST_FAULT=fault)
        process.communicate(timeout=RUN_SECONDS_MAX)
        assert process.returncode == -signal.SIGKILL, process.returncode
    victim.command(*create)
    name = victim.chance.choice(_whole_ones(victim, "savepoint"))
    tried = victim.command("savepoint", "rehearse", victim.pipeline.name, name, code=None)
    said = "would be restored as it was" if victim.pipeline.merge_every is None else "a pipeline of two halves"
    assert _is_refused(tried) or said in tried, tried
    is_fence = fault is not None and fault.startswith("generation.")
    return _went_back(victim, "savepoint", name, fault if is_fence else None)


def _whole_ones(victim: Victim, kind: str, *more: str) -> list[str]:
    told = victim.command(kind, "list", victim.pipeline.name, *more, "--json")
    known, _ = json.JSONDecoder().raw_decode(told)  # on an object store, the requests come after it
    return [one["name"] for one in known if one["lost"] is None and not one.get("moved_on")]


def _is_refused(said: str) -> bool:
    return "OffsetsExpired" in said or "TopicRecreated" in said or "a backfill is under way" in said


def _went_back(victim: Victim, kind: str, to: str, fault: str | None) -> bool:
    restore = (kind, "restore", victim.pipeline.name, to, "--reason", "soak")
    if fault is not None:
        process = victim.start(*restore, LAKEMARK_TEST_FAULT=fault)
        process.communicate(timeout=RUN_SECONDS_MAX)
        if process.returncode != -signal.SIGKILL:
            return False
    said = victim.command(*restore, code=None)
    if _is_refused(said):
        assert fault is None, said  # what is refused is refused before anything is fenced
        return False
    assert f" begins ({kind} " in said, said
    victim.send(_FEW)
    return True


def suite_changed(victim: Victim) -> bool:
    """The suite is changed between two attempts at one batch: it sets more aside from then on, or less. The first
    attempt is killed, or wakes up when the second one has landed."""
    victim.drain()
    name = f"judged {victim.expected.events}"
    values = changes(victim.chance, _FEW, victim.keys, victim.expected.events, victim.expected.moves)
    judged = [{**change, "name": name, "op": "u", **_whole(change)} for change in values if isinstance(change, dict)]
    is_stricter, wakes_up = victim.chance.random() < 0.5, victim.chance.random() < 0.5
    victim.write_suite(*([] if is_stricter else [name]))
    victim.expected.add(victim.world.produce(victim.topic, judged, PARTITIONS), rejected=is_stricter)
    victim.send(_FEW)
    if victim.pipeline.landing is not None:
        victim.command("run", victim.pipeline.landing.name)
    sleeper = None
    if wakes_up:
        process = victim.run(LAKEMARK_TEST_FAULT="attempt.before_merge=stop")
        sleeper = stopped(process)
        assert sleeper is not None, "the first attempt has ended"  # so nobody knows which suite has judged the batch
    else:
        assert dies_at("attempt.before_merge", victim), "the first attempt was not killed"
    victim.rejected += [name] if is_stricter else []
    victim.write_suite()
    victim.drain()
    if sleeper is not None:
        sleeper.send_signal(signal.SIGCONT)
        process.communicate(timeout=RUN_SECONDS_MAX)
    return True


def _whole(change: dict[str, Any]) -> dict[str, Any]:
    """What a delete that holds its key only lacks."""
    return {"kind": change["kind"] or "a"} if "kind" in change else {}


def _plan_more(victim: Victim, table: Table) -> None:
    """Plans a batch of the half that writes a table."""
    victim.send(_FEW)
    if table.half.landing is not None:
        victim.command("run", table.half.landing.name)
    Coordinator(victim.world.settings, table.half).plan(ignore_merge_every=True)


def _execute(victim: Victim, statement: str, table: Table, version: int) -> bool:
    """Executes a statement on a table. Returns whether rows were affected, if it is a DELETE."""
    with victim.world.session() as spark:
        [row, *_] = spark.sql(statement.format(f"delta.`{table.uri}`", version)).collect() or [None]
    return row is not None and row["num_affected_rows"] > 0 if statement.startswith("DELETE") else True


def _some(role: str, first: int) -> str:
    """A condition for some rows. If the table is one of rows, the source still holds their changes.

    Args:
        first: the number of a change that was sent just now, as its name has it.
    """
    if role in ("archive", "quarantine"):
        return "`offset` % 3 = 0"
    return f"try_cast(substr(name, 2) AS BIGINT) >= {first} AND id % 3 = 0"


def _findings(said: str) -> list[dict[str, Any]]:
    return [finding for report in json.loads(said) for finding in report["findings"]]
