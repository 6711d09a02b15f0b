"""`lakemark quarantine list | show | replay | discard`: records that were set aside."""

from __future__ import annotations

import argparse

from include.cli.backfill import run_or_preview
from include.cli.output import Commands, add_command, add_ranges, add_reason, named_pipeline, report, who
from include.control.backfill_request import BackfillRequest
from include.control.backfills import Backfills
from include.control.coordinator import Coordinator
from include.control.quarantine import Chosen, Quarantine, record_json, record_line
from include.settings import Settings


def add_quarantine_command(commands: Commands) -> None:
    """Adds `quarantine` to the command's subparsers."""
    quarantine = commands.add_parser("quarantine", help="records that were set aside: look, replay, discard")
    actions = quarantine.add_subparsers(required=True, metavar="ACTION")
    add_command(actions, "list", list_reasons, "how many records are pending, and what became of the others, by reason")
    show_ = add_command(actions, "show", show, "pending records, the oldest first")
    show_.add_argument("--limit", type=int, default=20, metavar="N", help="show at most N (20)")
    replay_ = add_command(actions, "replay", replay, "judge pending records again and merge the good ones")
    replay_.add_argument("--records-per-chunk", type=int, metavar="N", help="default: the pipeline's batch size")
    replay_.add_argument("--dry-run", action="store_true", help="only say how many, and how long it may take")
    replay_.add_argument("--reason", default="", help="recorded in the ledger")
    discard_ = add_command(actions, "discard", discard, "mark pending records as not wanted; the quarantine keeps them")
    add_reason(discard_, "recorded with each of them")
    for sub in (show_, replay_, discard_):
        sub.add_argument("--rule", metavar="NAME", help="only records that broke this rule")
        add_ranges(sub, "only records of these offsets, END exclusive")


def list_reasons(settings: Settings, options: argparse.Namespace) -> int:
    found = Quarantine.of(_coordinator(settings, options), with_bytes=False).summary()
    lines = [
        f"{row['pending']:>9,} pending  {row['replayed']:>9,} replayed  {row['discarded']:>9,} discarded  "
        f"{row['applied']:>9,} applied since  {row['reason']}"
        for row in found
    ]
    report(options, found, lines or ["nothing has been quarantined yet"])
    return 0


def show(settings: Settings, options: argparse.Namespace) -> int:
    found = Quarantine.of(_coordinator(settings, options)).pending(_chosen(options), options.limit)
    report(options, [record_json(row) for row in found], map(record_line, found) if found else ["no record is pending"])
    return 0


def replay(settings: Settings, options: argparse.Namespace) -> int:
    request = BackfillRequest(
        ranges=options.ranges,
        source="quarantine",
        rule=options.rule,
        records_per_chunk_max=options.records_per_chunk,
    )
    return run_or_preview(settings, options, Backfills(_coordinator(settings, options)), request)


def discard(settings: Settings, options: argparse.Namespace) -> int:
    found = Quarantine.of(_coordinator(settings, options), with_bytes=False).discard(
        _chosen(options), options.reason, who()
    )
    none = f"no pending record matches; `lakemark quarantine show {options.pipeline}` shows what each of them broke"
    report(options, {"discarded": found}, [f"{found:,} records discarded" if found else none])
    return 0


def _coordinator(settings: Settings, options: argparse.Namespace) -> Coordinator:
    return Coordinator(settings, named_pipeline(settings, options.pipeline))


def _chosen(options: argparse.Namespace) -> Chosen:
    return Chosen(options.ranges, options.rule)
