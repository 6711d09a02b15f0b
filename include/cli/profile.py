"""`lakemark profile PIPELINE`: where the time of a batch went, by step and Spark job."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from include.cli.output import Commands, add_command, named_pipeline, report
from include.control.coordinator import Coordinator
from include.installation.spark_server import events_folder
from include.lake.log_tail import newest_infos
from include.pipeline_file import Pipeline
from include.profile.drawing import as_svg, as_text
from include.profile.event_log import attempt_events
from include.profile.timeline import timeline
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonObject
from include.settings import Settings

# The metrics of Delta's MERGE that say what it had to do.
_METRICS = (
    "numSourceRows",
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "numTargetFilesAdded",
    "numTargetFilesRemoved",
    "numTargetDeletionVectorsAdded",
    "numTargetDeletionVectorsUpdated",
    "materializeSourceTimeMs",
    "scanTimeMs",
    "rewriteTimeMs",
    "executionTimeMs",
)


def add_profile_command(commands: Commands) -> None:
    """Adds `profile` to the command's subparsers."""
    sub = add_command(commands, "profile", profile, "where a batch's time went, by step and Spark job")
    sub.add_argument("--batch", type=int, metavar="N", help="a batch of this generation; default: the newest")
    sub.add_argument("--svg", type=Path, metavar="FILE", help="also draw the timeline into this file")
    sub.add_argument(
        "--events", type=Path, metavar="FOLDER", help="Spark's event log; default: the log of `lakemark up`'s server"
    )


def profile(settings: Settings, options: argparse.Namespace) -> int:
    pipeline = named_pipeline(settings, options.pipeline)
    rows = _rows_of_batch(settings, pipeline, options.batch)
    started, ended = _last_attempt(pipeline, rows)
    attempt_id, began = started["attempt_id"], _seconds(started)
    folder = options.events or events_folder(settings.home)
    events = attempt_events(folder, attempt_id, began)
    if not events.jobs:
        raise TerminalError(
            what="Spark's event log has no job of this attempt",
            where=f"{folder}, attempt {attempt_id}",
            expected="the log of the Spark that ran it (spark.eventLog.enabled), plain or zstd",
            found="no job of it; the server of `lakemark up` keeps the newest 256 MB",
            action="run a batch and profile that one; or name the folder of another Spark's log: --events FOLDER",
        )
    phases = {**ended["details"]["phase_seconds"], **dict(_settle(rows))}
    drawn = timeline(events, began, _seconds(ended), phases)
    title = f"{pipeline.name} generation {started['generation']} batch {started['batch_id']}, attempt {attempt_id[:8]}"
    if options.svg:
        options.svg.write_text(as_svg(drawn, title))
    metrics = _metrics(settings, pipeline, rows)
    facts = {
        "pipeline": pipeline.name,
        "generation": started["generation"],
        "batch_id": started["batch_id"],
        "attempt_id": attempt_id,
        "started_by": started["details"]["started_by"],
        **drawn.to_json(),
        "merge_metrics": metrics,
        "engines": (engines := ended["details"].get("engines") or {}),
    }
    told = ", ".join(f"{name} {value:,}" for name, value in metrics.items())
    written = [f"{table} by {engine}" for table, engine in engines.items()]
    report(options, facts, [title, *as_text(drawn), *written, *([f"Delta: {told}"] if metrics else [])])
    return 0


def _rows_of_batch(settings: Settings, pipeline: Pipeline, batch_id: int | None) -> list[JsonObject]:
    ledger = Coordinator(settings, pipeline).ledger
    state = ledger.recent()
    wanted = state.committed_through if batch_id is None else batch_id
    return [row for row in ledger.rows() if (row["generation"], row["batch_id"]) == (state.generation, wanted)]


def _last_attempt(pipeline: Pipeline, rows: list[JsonObject]) -> tuple[JsonObject, JsonObject]:
    """The ledger's rows for the start and the end of the last attempt that did something."""
    started = {row["attempt_id"]: row for row in rows if row["event"] == "attempt_started"}
    ended = [row for row in rows if row["event"] == "attempt_ended" and row["details"]["phase_seconds"]]
    if not ended:
        raise TerminalError(
            what="there is no attempt to profile",
            where=pipeline.name,
            expected="a batch with an attempt that has ended",
            found=f"{len(started)} attempts, none of which has ended",
            action=f"name another batch with --batch (`lakemark status {pipeline.name} --batches 20` lists them), "
            f"or run one first: `lakemark run {pipeline.name}`",
        )
    return started[ended[-1]["attempt_id"]], ended[-1]


def _settle(rows: list[JsonObject]) -> Iterator[tuple[str, float]]:
    for row in rows:
        if row["event"] == "committed" and row["details"]["settle_seconds"] is not None:
            yield "settle", row["details"]["settle_seconds"]


def _metrics(settings: Settings, pipeline: Pipeline, rows: list[JsonObject]) -> dict[str, int]:
    """Delta's counts of the batch's MERGE, if the target's log still has them."""
    versions = [row["details"]["table_version"] for row in rows if row["event"] == "committed"]
    if not versions or versions[0] is None:
        return {}
    infos = newest_infos(Coordinator(settings, pipeline).tables.target, versions[0], limit=1)
    found = next(infos, {}).get("operationMetrics") or {}
    return {name: int(found[name]) for name in _METRICS if name in found}


def _seconds(row: JsonObject) -> float:
    at: datetime = row["recorded_at"]
    return at.timestamp()
