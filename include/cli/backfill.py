"""`lakemark backfill`: reads offset ranges again, beside the live pipeline, as the backfill DAG does."""

from __future__ import annotations

import argparse
import uuid

from include.cli.output import (
    Commands,
    add_command,
    add_deliver,
    add_ranges,
    argument,
    deliver_of,
    named_pipeline,
    report,
    say,
    who,
)
from include.control.backfill_chunks import Chunk
from include.control.backfill_form import batch_ids, moment
from include.control.backfill_preview import preview_lines
from include.control.backfill_request import BackfillRequest
from include.control.backfills import Backfills
from include.control.coordinator import Coordinator
from include.jobs.report import told
from include.jobs.runner import run_backfill, run_promotion
from include.protocol.backfill import Backfill
from include.settings import Settings


def add_backfill_command(commands: Commands) -> None:
    """Adds `backfill` to the command's subparsers."""
    sub = add_command(commands, "backfill", backfill, "read offset ranges again, beside the live pipeline")
    add_ranges(sub, "offsets of one topic and partition, END exclusive; may be given several times")
    sub.add_argument(
        "--since", type=argument(moment), metavar="TIME", help="by Kafka's timestamps, ISO 8601 (UTC by default)"
    )
    sub.add_argument(
        "--until", type=argument(moment), metavar="TIME", help="exclusive; default: up to the newest record"
    )
    sub.add_argument(
        "--batches", type=argument(batch_ids), metavar="A-B", help="what batches A to B of this generation read"
    )
    sub.add_argument(
        "--into-new-table", action="store_true", help="read everything, into a table that takes the target's place"
    )
    sub.add_argument("--from-archive", action="store_true", help="read the archive, not Kafka; alone: everything in it")
    sub.add_argument("--records-per-chunk", type=int, metavar="N", help="default: the pipeline's records_per_batch_max")
    sub.add_argument("--reason", default="", help="recorded in the ledger")
    add_deliver(sub)
    what = sub.add_mutually_exclusive_group()
    what.add_argument("--dry-run", action="store_true", help="only say what it would read, and how long it may take")
    what.add_argument("--list", action="store_true", help="list all backfills of the pipeline")
    what.add_argument("--resume", type=int, metavar="N", help="run the chunks of backfill N that have not landed")
    what.add_argument("--cancel", type=int, metavar="N", help="cancel backfill N: nothing more of it will land")


def backfill(settings: Settings, options: argparse.Namespace) -> int:
    pipeline = named_pipeline(settings, options.pipeline)
    backfills = Backfills(Coordinator(settings, pipeline))
    if options.list:
        return _list(backfills, options)
    if options.cancel is not None:
        chunks = backfills.cancel(options.cancel, who())
        report(options, [chunk.to_json() for chunk in chunks], map(chunk_line, chunks))
        return 0
    if options.resume is not None:
        return _run(settings, options, backfills, backfills.resume(options.resume))
    request = BackfillRequest(
        ranges=options.ranges,
        since=options.since,
        until=options.until,
        batches=options.batches,
        into="new" if options.into_new_table else "same",
        source="archive" if options.from_archive else "kafka",
        records_per_chunk_max=options.records_per_chunk,
        deliver=deliver_of(options),
    )
    return run_or_preview(settings, options, backfills, request)


def run_from_archive(settings: Settings, name: str, as_json: bool) -> int:
    """`lakemark run --from-archive`: a backfill of the whole archive, into the target itself."""
    options = argparse.Namespace(dry_run=False, reason="run --from-archive", json=as_json)
    backfills = Backfills(Coordinator(settings, named_pipeline(settings, name)))
    return run_or_preview(settings, options, backfills, BackfillRequest(source="archive"))


def run_or_preview(
    settings: Settings, options: argparse.Namespace, backfills: Backfills, request: BackfillRequest
) -> int:
    """Plans the requested backfill and runs it to its end. With `--dry-run` it only says what it would read."""
    if options.dry_run:
        facts = backfills.preview(request)
        report(options, facts, preview_lines(facts))
        return 0
    planned = backfills.plan(request, uuid.uuid4().hex, options.reason, who())
    what, unit = ("backfill", "offsets") if planned.records is None else ("replay", "records")
    say(f"{what} {planned.number}: {planned.records_max:,} {unit} in {len(planned.chunks)} chunks")
    return _run(settings, options, backfills, planned)


def _run(settings: Settings, options: argparse.Namespace, backfills: Backfills, planned: Backfill) -> int:
    """Runs the chunks of a planned backfill that have not landed, to its end."""
    name = planned.pipeline

    def promote() -> None:
        say("the new table takes the target's place ...")
        run_promotion(settings, name, planned.number, who(), log=say)

    run_backfill(settings, name, planned.number, "cli", listen=lambda fact: say(told(fact)), log=say)
    chunks = backfills.finish(planned, promote, who())
    facts = {"backfill": planned.number, "into": planned.into, "chunks": [chunk.to_json() for chunk in chunks]}
    report(options, facts, map(chunk_line, chunks))
    return 0


def _list(backfills: Backfills, options: argparse.Namespace) -> int:
    found, lines = [], []
    for number, record in sorted(backfills.settler.ledger.state().backfills.items()):
        planned = record.backfill
        # A promotion checks that every chunk has landed. Its table is gone then, and with it the chunks' own commits.
        is_whole = record.outcome in ("applied", "swapped")
        landed = (
            len(planned.chunks) if is_whole else sum(chunk.state == "landed" for chunk in backfills.chunks(planned))
        )
        state = record.outcome or "not at its end"
        found.append(
            {"backfill": number, "state": state, "chunks": len(planned.chunks), "landed": landed}
            | {"into": planned.into, "reason": planned.reason, "requested_by": planned.requested_by}
        )
        lines.append(f"{number:>4}  {state:<15} {landed} of {len(planned.chunks)} chunks landed  {planned.reason}")
    report(options, found, lines or ["there is no backfill yet"])
    return 0


def chunk_line(chunk: Chunk) -> str:
    """A chunk's progress, for people."""
    counts = ", ".join(f"{number:,} {name}" for name, number in (chunk.counts or {}).items())
    ranges = " ".join(r.as_argument() for r in chunk.ranges)
    where = f" in version {chunk.table_version}" if chunk.table_version is not None else ""
    return f"chunk {chunk.chunk} {chunk.state}{where}: {ranges}{'; ' + counts if counts else ''}"
