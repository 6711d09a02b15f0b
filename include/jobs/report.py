"""What a job reports in lines of JSON: shown to people, and in the end its results or its error.

A job reports in lines that are for nothing else, its journal (`include.lake.lines`). What it and its child processes
print is only a log: the text of a record or of an error, or a user's code, may print what looks like a report.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator

from include.lake.stores import add_requests
from include.pipeline_file import LANDING
from include.protocol.batch import Batch
from include.protocol.errors import OutcomeUnknownError, error_from_facts
from include.protocol.json_data import JsonObject

Listen = Callable[[JsonObject], None]
_LAST_LINES = 30


class JobReport:
    """Collects what a job reports and logs, line by line.

    Args:
        about: the pipeline, and what the job does. listen: gets every line of its journal, as data. log: gets every
            line of its output.
    """

    def __init__(self, about: str, listen: Listen, log: Callable[[str], None]) -> None:
        self._about, self._listen, self._log = about, listen, log
        self._results: list[JsonObject] = []
        self._failure: JsonObject | None = None
        self._last: deque[str] = deque(maxlen=_LAST_LINES)

    def logged(self, line: str) -> None:
        """Takes a line of the job's output."""
        self._last.append(line.rstrip())
        self._log(line.rstrip())

    def said(self, line: str) -> None:
        """Takes a line of the job's journal."""
        self.took(json.loads(line))

    def took(self, fact: JsonObject) -> None:
        """Takes a line of the job's journal, as data."""
        if "requests" in fact:
            add_requests(fact["requests"])
            return
        self._listen(fact)
        if "result" in fact:
            self._results.append(fact["result"])
        elif "error" in fact:
            self._failure = fact

    @property
    def so_far(self) -> list[JsonObject]:
        """Every result that it has reported."""
        return self._results

    def results(self, ending: str | None) -> list[JsonObject]:
        """Every result of a job that has ended.

        Args:
            ending: how it failed; None if it did not, or has reported how.

        Raises:
            RetryableError, TerminalError: as the job reported. OutcomeUnknownError: it ended without a report, at an
            unknown place (I6).
        """
        if self._failure is not None:
            raise error_from_facts(self._failure)
        if ending is None:
            return self._results
        raise OutcomeUnknownError(
            what="the job ended without a report",
            where=self._about,
            expected="results, or an error that says what happened",
            found=f"{ending}; its last lines: {' | '.join(self._last) or 'none'}",
            action="nothing by hand: the next attempt settles it from the target's log first",
        )


def told(fact: JsonObject) -> str:
    """A line of a job's journal as text for people."""
    match fact:
        case {"progress": "planned", "batch": batch}:
            return f"{_landing(batch)}batch {batch['batch_id']}: {Batch.from_json(batch).width:,} offsets"
        case {"progress": "conflict"}:
            return "another writer of the table was faster; merging again ..."
        case {"progress": "memory"}:
            return "too little memory for the fastest join; merging again by sorting ..."
        case {"progress": phase, "why": why}:
            return f"{phase}: {why}"
        case {"progress": phase}:
            return f"{phase} ..."
        case {"result": {"maintained": _} as report}:
            return "; ".join(maintenance_lines(report))
        case {"result": {"checked": _} as report}:
            return check_line(report)
        case {"result": result}:
            counts = ", ".join(f"{number:,} {name}" for name, number in (result["counts"] or {}).items())
            seconds = ", ".join(f"{name} {s:.1f} s" for name, s in result["phase_seconds"].items())
            what = f"{_landing(result)}batch {result['batch_id']}"
            if result["generation"] < 0:
                what = f"backfill {-result['generation']} chunk {result['batch_id']}"
            return "; ".join(filter(None, (f"{what} {result['outcome']}", counts, seconds)))
        case _:
            return f"{fact.get('error')}: {fact.get('what')}"


def _landing(fact: JsonObject) -> str:
    return "landing's " if fact["pipeline"].endswith(LANDING) else ""


def maintenance_lines(report: JsonObject) -> Iterator[str]:
    """The report of maintenance as lines for people."""
    for role, table in report["tables"].items():
        before, after = table["before"], table["after"]
        yield (
            f"{report['maintained']} {role}: {', '.join(table['did']) or 'nothing due'}; "
            f"files {before['files']:,} to {after['files']:,}, on disk {_size(before['disk_bytes'])} to "
            f"{_size(after['disk_bytes'])}, hidden rows {before['deleted']:,} to {after['deleted']:,}"
        )
    for role, kept in report["kept"].items():
        yield (
            f"{report['maintained']} {role}: checkpoints keep {kept['versions']:,} versions, which need "
            f"{_size(kept['bytes'])} in {kept['files']:,} files that the newest does not"
        )
    yield from (f"removed {path}" for path in report["removed"])
    if report["keeps_versions"]:
        yield (
            "the bucket keeps versions: what was removed costs until a lifecycle rule removes it "
            "(NoncurrentVersionExpiration, docs/object-store.md)"
        )


def check_line(report: JsonObject) -> str:
    """The report of a table's check as a line for people."""
    broken = "; ".join(f"{rule}: {rows:,} rows" if rows else rule for rule, rows in report["broken"].items())
    return (
        f"{report['checked']} version {report['table_version']}: {report['outcome']}, "
        f"{report['rules'] - len(report['broken'])} of {report['rules']} rules hold{'; ' + broken if broken else ''}"
    )


def _size(number: float) -> str:
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.1f} GB"
