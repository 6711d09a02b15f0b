"""The demo's batch with bad records: they are set aside and reported; the good ones are replayed, the bad discarded.

Some records are really bad. Others are good, but a wrong rule sets them aside: flights from New York to Honolulu are
longer than its limit. Their arrivals come in this batch, so the table is not the truth until they are replayed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from include.audit.auditor import audit
from include.control.coordinator import Coordinator
from include.demo import oracle, replay
from include.demo.airflow_api import AirflowApi
from include.demo.runs import failed, run
from include.lake.stores import delta_options
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.batch import Batch
from include.protocol.json_data import JsonObject
from include.quality.evidence import judgements
from include.quality.judge import suite_path
from include.quality.publish import NEWEST, publish
from include.settings import PROJECT_ROOT, Settings

FAR = "HNL"  # 4,963 and 4,983 miles from New York; no other flight of the year is longer than 3,370
TOO_SHORT = 4_900  # miles: the wrong limit
RULE = "a distance that a plane flies"
PLANTED_OF_EACH = 40
_LAST = 150_000  # events of the year that come in this batch
_AFTER_ALL = "2014-06-01T00:00:00Z"  # newer than any event: a planted record would win if it got into the table

Say = Callable[[str], None]


@dataclass(frozen=True)
class BadBatchOutcome:
    """What became of the batch, in numbers of records unless said otherwise."""

    planted: int
    far: int  # good records that the wrong rule sets aside
    batch_id: int
    set_aside: dict[str, int]  # by reason
    broken: dict[str, int]  # rules of the suite that did not hold -> rows that broke them
    rows_wrong_before: int  # rows of the table that differed from the truth while the good records waited
    replayed: int
    discarded: int
    pending: int
    audit_findings: tuple[str, ...]
    data_docs: str  # path

    @property
    def as_told(self) -> bool:
        """Whether every record went to the right place."""
        return (
            sum(self.set_aside.values()) == self.planted + self.far
            and self.rows_wrong_before > 0
            and (self.replayed, self.discarded, self.pending) == (self.far, self.planted, 0)
            and not self.audit_findings
        )

    def to_json(self) -> JsonObject:
        return {**asdict(self), "as_told": self.as_told}


def split(events: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The year's events before this batch, and the events of this batch."""
    arrivals = (events["dest"] == FAR) & (events["status"] == "arrived")
    late = arrivals.to_numpy() | (np.arange(len(events)) >= len(events) - _LAST)
    return events[~late], events[late]


def planted(events: pd.DataFrame) -> list[tuple[str, str]]:
    """Keys and values of bad records: JSON that is cut off, an airport that does not exist, a distance below zero."""
    chosen = events[events["dest"] != FAR].iloc[: 3 * PLANTED_OF_EACH].assign(event_time=_AFTER_ALL)
    bad: list[tuple[str, str]] = []
    for number, (key, value) in enumerate(replay.records(chosen)):
        match number % 3:
            case 0:
                bad.append((key, value[: len(value) // 2]))
            case 1:
                bad.append((key, json.dumps({**json.loads(value), "origin": "JKF"})))
            case _:
                bad.append((key, json.dumps({**json.loads(value), "distance": -1})))
    return bad


def take(
    settings: Settings,
    pipeline: Pipeline,
    airflow: AirflowApi,
    events: pd.DataFrame,
    truth: pd.DataFrame,
    say: Say,
) -> BadBatchOutcome:
    """Sends the batch, lets the wrong suite judge it, corrects the suite, replays and discards.

    Raises:
        TerminalError: a step fails. RetryableError: see AirflowApi.
    """
    coordinator, tables = Coordinator(settings, pipeline), Tables.of(settings, pipeline)
    bad = planted(events)
    far = int((events["dest"] == FAR).sum())
    replay.produce(bad, _servers(pipeline), say)
    replay.produce(replay.records(events), _servers(pipeline), say)
    say(f"sent {len(events):,} more events, and {len(bad)} bad records that the demo has planted among them")

    wrong = _wrong_suite(settings, pipeline)
    say(f"a wrong suite says that no flight is longer than {TOO_SHORT:,} miles: {wrong}")
    _lakemark(settings, "run", pipeline.name, "--until-caught-up", LAKEMARK_EXPECTATIONS=str(wrong.parent))
    committed = coordinator.ledger.state().batches[-1]
    summary = _summary(settings, pipeline)
    for row in summary:
        say(f"  set aside {row['pending']:>5,}  {row['reason']}")
    broken = _broken(tables, committed.batch)
    docs = publish(settings, [pipeline], str(settings.home / "demo" / "data_docs"), newest=NEWEST, say=say)
    say(f"  the suite's verdict, as Data Docs: {docs}")
    before = oracle.compare(truth, oracle.table_rows(str(tables.target), delta_options(tables.target)))
    wrong_rows = max([*before.mismatches.values(), before.keys_missing])
    say(f"  the table lacks these records: {wrong_rows:,} rows differ from the truth")

    say("the suite is corrected; replaying the quarantine from Airflow's backfill form ...")
    run(airflow, f"lakemark__{pipeline.name}__backfill", what="the quarantine", reason="Honolulu is that far")
    _lakemark(settings, "quarantine", "discard", pipeline.name, "--reason", "planted by the demo")
    counts = {name: sum(row[name] for row in _summary(settings, pipeline)) for name in _STATES}
    say("  " + ", ".join(f"{number:,} {name}" for name, number in counts.items()))
    return BadBatchOutcome(
        planted=len(bad),
        far=far,
        batch_id=committed.batch.batch_id,
        set_aside={row["reason"]: row["pending"] for row in summary},
        broken=broken,
        rows_wrong_before=wrong_rows,
        **counts,
        audit_findings=tuple(map(str, audit(settings, pipeline).findings)),
        data_docs=docs,
    )


_STATES = ("replayed", "discarded", "pending")


def _servers(pipeline: Pipeline) -> str:
    return pipeline.source.bootstrap_servers


def _wrong_suite(settings: Settings, pipeline: Pipeline) -> Path:
    """The pipeline's suite with one limit too low, in the demo's own folder."""
    assert pipeline.quality.suite is not None, "the demo's pipeline has one"
    suite = json.loads(suite_path(settings, pipeline.quality.suite).read_text())
    for rule in suite["expectations"]:
        if rule["meta"]["lakemark"]["name"] == RULE:
            rule["kwargs"]["max_value"] = TOO_SHORT
    path = settings.home / "demo" / "expectations" / f"{pipeline.quality.suite}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(suite, indent=2) + "\n")
    return path


def _lakemark(settings: Settings, *words: str, **environment: str) -> str:
    """Runs the command as a user would type it."""
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lakemark"), *words],
        cwd=PROJECT_ROOT,
        env=settings.child_environment(**environment),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise failed(f"lakemark {' '.join(words)}", "exit code 0", done.stdout + done.stderr, "see above")
    return done.stdout


def _summary(settings: Settings, pipeline: Pipeline) -> list[JsonObject]:
    return json.loads(_lakemark(settings, "quarantine", "list", pipeline.name, "--json"))


def _broken(tables: Tables, batch: Batch) -> dict[str, int]:
    """The rules that did not hold for the batch, each with the number of rows that broke it."""
    of_batch = [row for row in judgements(tables.quality) if (row["generation"], row["batch_id"]) == batch.key]
    return {row["rule"]: row["unexpected_count"] for row in of_batch if not row["success"]}
