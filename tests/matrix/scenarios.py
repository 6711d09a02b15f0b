"""The scenarios: what befalls a batch. Each sends the records of a batch, and leaves the pipeline somewhere on its way.

Whatever it leaves, a plain run must end at the right tables, without a further record.

The upgrade from the version before is no scenario, since this version cannot write the old form: see `tests/upgrade`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from include.checkpoints.listing import checkpoints_in
from include.fault_points import OF_PIPELINES
from include.installation.stack import Stack
from include.participants.catalog import Catalog
from include.participants.participant import Participant
from include.protocol.commit_metadata import CommitMetadata
from spark_jobs.commands.maintenance import Maintenance
from tests.matrix.checks import Case
from tests.support.advice import follow
from tests.support.commits import at_every_commit
from tests.support.jvm_faults import JvmPoint, own_driver
from tests.support.stopped import end, resumed, stopped, was_killed
from tests.support.waiting import wait_until
from tests.support.world import LAKEMARK

Scenario = Callable[[Case], None]
_CARELESS = "spark.databricks.delta.retentionDurationCheck.enabled"


def killed(point: str, case: Case) -> None:
    case.change()
    case.run() if point.startswith("sink.") else None  # then the command only delivers
    _kill_a_run(case, point)


def killed_between_tables(nth: int, case: Case) -> None:
    case.change()
    case.land()  # a landing's batches have no second table
    _kill_a_run(case, "attempt.part_landed", nth)


def killed_while_a_generation_begins(point: str, case: Case) -> None:
    """What is half done, the same command ends as it was begun."""
    case.change()
    reset = ("reset", case.name, "--from", "earliest", "--reason", "matrix")
    done = case.world.lakemark(*reset, LAKEMARK_TEST_FAULT=f"{point}=kill")
    assert was_killed(done.returncode, done.stderr), done.stderr
    assert "finished as it had been" in case.world.lakemark(*reset).stderr


def killed_while_the_ledger_is_rebuilt(case: Case) -> None:
    case.change()
    shutil.rmtree(str(case.world.coordinator(case.pipeline).ledger.uri))
    rebuild = ("ledger", "rebuild", case.name)
    done = case.world.lakemark(*rebuild, LAKEMARK_TEST_FAULT="rebuild.set_aside=kill")
    assert was_killed(done.returncode, done.stderr), done.stderr
    case.rebuild_ledger()


def killed_inside_deltas_commit(point: JvmPoint, case: Case) -> None:
    """The JVM is killed in the commit of the target; the next run is on another one."""
    case.change()
    case.land()
    with tempfile.TemporaryDirectory() as folder:
        own = own_driver(case.world, case.pipeline, Path(folder), point, "KILL")
        assert case.world.lakemark("run", case.name, **own).returncode == 1


def spark_killed(case: Case) -> None:
    """While a batch lands."""
    case.change()
    key, stack = case.planned(), Stack.of(case.world.settings)
    process = case.world.job(case.pipeline, key, LAKEMARK_TEST_FAULT="attempt.part_landed=stop")
    sleeper = stopped(process)
    pid = stack.service_pid("spark")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    resumed(process, sleeper)
    wait_until(lambda: stack.service_pid("spark") not in (None, pid), 120)
    stack.wait_for("spark", print)


def another_program(case: Case) -> None:
    """A first attempt leaves records out, and dies before the point. What it has left in other tables is taken back."""
    case.change()
    case.land()
    case.use_another_program()
    _kill_a_run(case, "attempt.before_merge")
    case.use_its_own_program()


def zombie(point: str, case: Case) -> None:
    """An attempt stands still, others land its batch and the next one, it goes on."""
    case.change()
    process = case.world.job(case.pipeline, case.planned(), LAKEMARK_TEST_FAULT=f"{point}=stop")
    with _ended(process):
        sleeper = stopped(process)
        case.run()
        case.change()
        case.run()
        code, said = resumed(process, sleeper)
        assert (code, '"already_applied"' in said) == (0, True), said


def zombie_of_another_program(case: Case) -> None:
    """It goes on after the batch has landed, with no further record: where it can still write, a repair mends."""
    case.change()
    key = case.planned()
    case.use_another_program()
    process = case.world.job(case.pipeline, key, LAKEMARK_TEST_FAULT="attempt.part_landed=stop")
    with _ended(process):
        sleeper = stopped(process)
        case.use_its_own_program()
        case.run()
        resumed(process, sleeper)


def zombie_of_an_ended_generation(case: Case) -> None:
    case.change()
    process = case.world.job(case.pipeline, case.planned(), LAKEMARK_TEST_FAULT="attempt.part_landed=stop")
    with _ended(process):
        sleeper = stopped(process)
        _done(case, "reset", case.name, "--reason", "matrix")
        code, said = resumed(process, sleeper)
        assert (code, "FencedGeneration" in said) == (12, True), said


def two_at_once(case: Case) -> None:
    case.change()
    runs = [case.world.start(LAKEMARK, "run", case.name) for _ in range(2)]
    for process in runs:
        said, _ = process.communicate(timeout=250)
        assert process.returncode == 0, said


def two_engines_at_once(case: Case) -> None:
    """Two attempts at one batch, by both engines; then two runs, which go on with what the other has begun."""
    case.change()
    key = case.planned()
    attempts = [case.world.job(case.pipeline, key, LAKEMARK_MERGE_ENGINE=engine) for engine in ("lane", "spark")]
    case.change()
    runs = [case.world.start(LAKEMARK, "run", case.name, LAKEMARK_MERGE_ENGINE=e) for e in ("spark", "lane")]
    for process in (*attempts, *runs):
        said, _ = process.communicate(timeout=250)
        assert process.returncode == 0, said


def conflicts(case: Case) -> None:
    """Every table is rewritten between an attempt's decision and its commit there."""
    case.change()
    tables = [p for half in case.pipeline.halves for p in Catalog.of(half).participants]
    seen: set[str] = set()

    def act(committed: Callable[[], None], metadata: CommitMetadata) -> None:
        for participant in tables if metadata.role not in seen else ():
            if participant.role == metadata.role:
                table = f"delta.`{participant.uri(case.world.settings)}`"
                with case.world.session() as spark:
                    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('matrix' = '{case.batches_sent}')").collect()
                    spark.sql(f"OPTIMIZE {table}").collect()
        seen.add(metadata.role)
        committed()

    with pytest.MonkeyPatch.context() as patched:
        at_every_commit(patched, act)
        case.run()
    assert "target" in seen


def maintained(case: Case) -> None:
    """Maintenance with a VACUUM of all old files, while a lost attempt's rows wait to be taken back."""
    another_program(case)
    rules = case.pipeline.maintenance.model_copy(update={"vacuum_after_hours": 0.0, "small_files_max": 1})
    pipeline = case.pipeline.model_copy(update={"maintenance": rules})
    with case.world.session() as spark:
        spark.conf.set(_CARELESS, "false")
        try:
            Maintenance(lambda: spark, case.world.settings, pipeline, "test", lambda fact: None).run()
        finally:
            spark.conf.unset(_CARELESS)


def restored(place: str, case: Case) -> None:
    """Tables are rolled back by hand while a batch is planned. It is noticed, and the advice brings the rows back."""
    case.change()
    case.run()
    case.change()
    case.planned()
    with case.world.session() as spark:
        for participant in (p for p in _tables(case) if p.place == place):
            uri = participant.uri(case.world.settings)
            history = spark.sql(f"DESCRIBE HISTORY delta.`{uri}` LIMIT 1").collect()
            spark.sql(f"RESTORE TABLE delta.`{uri}` TO VERSION AS OF {history[0]['version'] - 1}").collect()
    assert "TargetBehindLedger" in {error["error"] for error in follow(case.world, case.pipeline)}


def lost(place: str, case: Case) -> None:
    """Tables are removed. It is noticed, and the advice fills them again."""
    case.change()
    for participant in (p for p in _tables(case) if p.place == place):
        shutil.rmtree(str(participant.uri(case.world.settings)))
    assert "TargetBehindLedger" in {error["error"] for error in follow(case.world, case.pipeline)}


def reset(case: Case) -> None:
    """All is read again, while a batch is planned."""
    case.change()
    case.planned()
    _done(case, "reset", case.name, "--from", "earliest", "--reason", "matrix")


def gone_back(case: Case) -> None:
    """All tables go back to the first batch, while a batch has landed in every table but the target."""
    case.change()
    case.land()
    _kill_a_run(case, "attempt.before_merge")
    [first, *_] = (checkpoint.name for checkpoint in checkpoints_in(case.world.settings, case.pipeline))
    _done(case, "checkpoint", "restore", case.name, first, "--reason", "matrix")


def rebuilt(case: Case) -> None:
    """The ledger is lost, while a batch has landed in every table but the target."""
    case.change()
    case.land()
    _kill_a_run(case, "attempt.before_merge")
    shutil.rmtree(str(case.world.coordinator(case.pipeline).ledger.uri))
    case.rebuild_ledger()


def backfilled(case: Case) -> None:
    """All that has landed is read again, beside a batch that is planned."""
    case.change()
    key = case.planned()
    _done(case, "backfill", case.name, "--batches", f"0-{key.batch_id - 1}" if key.batch_id else "0")


def _done(case: Case, *command: str) -> None:
    done = case.world.lakemark(*command)
    assert done.returncode == 0, done.stdout + done.stderr


def _kill_a_run(case: Case, point: str, nth: int = 1) -> None:
    done = case.world.lakemark("run", case.name, LAKEMARK_TEST_FAULT=f"{point}=kill@{nth}")
    assert was_killed(done.returncode, done.stderr), (done.returncode, done.stderr)


def _tables(case: Case) -> tuple[Participant, ...]:
    return Catalog.of(case.pipeline).participants


@contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[None]:
    """Ends a process and its children, whatever happens."""
    try:
        yield
    finally:
        end(process)


_BY_COMMAND = ("generation.part_fenced", "generation.fenced", "rebuild.set_aside")
SCENARIOS: dict[str, Scenario] = {
    **{f"killed at {p}": partial(killed, p) for p in OF_PIPELINES if p not in (*_BY_COMMAND, "attempt.part_landed")},
    **{f"killed at part {nth}": partial(killed_between_tables, nth) for nth in range(1, 5)},
    **{f"killed at {p}": partial(killed_while_a_generation_begins, p) for p in _BY_COMMAND[:2]},
    "killed while the ledger is rebuilt": killed_while_the_ledger_is_rebuilt,
    **{
        f"killed inside the commit, {p}": partial(killed_inside_deltas_commit, p)
        for p in ("data_files_written", "at_the_commit", "commit_done")
    },
    "spark killed": spark_killed,
    "another program": another_program,
    "zombie": partial(zombie, "attempt.before_merge"),
    "zombie at its first part": partial(zombie, "attempt.part_landed"),
    "zombie of another program": zombie_of_another_program,
    "zombie of an ended generation": zombie_of_an_ended_generation,
    "zombie of the lane": partial(zombie, "lane.decided"),
    "two at once": two_at_once,
    "two engines at once": two_engines_at_once,
    "conflicts": conflicts,
    "maintained": maintained,
    "point restored": partial(restored, "point"),
    "tables before restored": partial(restored, "before"),
    "point lost": partial(lost, "point"),
    "tables before lost": partial(lost, "before"),
    "reset": reset,
    "gone back": gone_back,
    "rebuilt": rebuilt,
    "backfilled": backfilled,
}
