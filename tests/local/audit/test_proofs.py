"""What an audit proves is in the ledger, and `status` says it. Real Delta files, no Kafka, no Spark."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import include.monitoring.status
from include.audit.auditor import audit
from include.audit.proofs import looks_of
from include.audit.report import Finding
from include.cli.command import main
from include.control.coordinator import Coordinator
from include.lake.table_log import TableLog
from include.lake.uri import LakeUri
from include.monitoring.proofs import in_words
from include.monitoring.tables import proofs_and_repairs
from include.protocol.batch import Batch, BatchKey
from include.protocol.counts import SourceCounts
from include.protocol.json_data import JsonObject
from include.protocol.ledger_events import BatchCommitted, BatchPlanned
from include.protocol.participants import NOWHERE, Position
from include.protocol.proofs import Look
from include.sources.kafka import KafkaSource
from tests.support.batches import batch, committed, landed, source
from tests.support.damage import emptied
from tests.support.hand_made import commit, coordinator_of, known_to_commands, make_target, stray

COUNTS = SourceCounts(read=10, quarantined=0, filtered=1, superseded=4, changes=5)


@pytest.fixture
def p(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    """A pipeline `p` with two batches."""
    coordinator = known_to_commands(coordinator_of(tmp_path), tmp_path, monkeypatch)
    monkeypatch.setattr(KafkaSource, "extent", lambda self: source({("t", 0): (0, 20)}))
    monkeypatch.setattr(include.monitoring.status, "verify_answers", lambda *_: None)
    target = make_target(coordinator)
    for n in range(2):
        land(target, n, COUNTS)
        coordinator.ledger.append(lambda state, n=n: [BatchPlanned(batch(n)), done(n)])
    return coordinator


def done(n: int) -> BatchCommitted:
    return replace(committed(batch(n)), counts=None, positions={"quarantine": NOWHERE})


def land(target: Path, n: int, counts: SourceCounts) -> None:
    good = landed(batch(n))
    metadata = replace(good.metadata, counts=counts)
    commit(target, n + 1, metadata.dumps(), {batch(n).app_id: n})


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main([*arguments]) == code
    return re.sub(r"\b\d+ s ago", "just now", capsys.readouterr().out)


def test_an_audit_is_kept_and_status_says_what_it_proved(p: Coordinator, capsys: pytest.CaptureFixture[str]) -> None:
    assert "  quarantine, target: never proven: `lakemark audit p`\n" in said(capsys, "status", "p")
    report = audit(p.settings, p.pipeline)
    assert report.findings == ()
    assert p.ledger.state().proofs == {}  # asked as a library, it only reads
    told = said(capsys, "audit", "p")
    assert "does not keep" not in told
    assert p.ledger.rows()[-1]["event"] == "audited"
    assert "2 tables by log, no findings, by " in said(capsys, "ledger", "show", "p", "--last", "1")
    assert "  quarantine, target: proven by log just now, up to batch 1\n" in said(capsys, "status", "p")
    [facts] = json.loads(said(capsys, "status", "p", "--json"))
    look = p.ledger.recent().proofs["target"]["log"]
    assert (look.batch_id, look.version, look.findings) == (1, 2, 0)
    assert facts["proofs"]["target"]["outcome"] == "proven"
    assert facts["proofs"]["target"]["log"]["version"] == 2
    assert facts["proofs"]["target"]["rows"] is None


def test_findings_are_no_proof_and_count_against_their_table(p: Coordinator, capsys: pytest.CaptureFixture) -> None:
    land(Path(str(p.tables.target)), 1, replace(COUNTS, quarantined=1, superseded=3))  # which is not there
    [report] = json.loads(said(capsys, "audit", "p", "--json", code=1))
    assert report["not_recorded"] is None
    assert [finding["table"] for finding in report["findings"]] == ["quarantine"]
    assert found(p) == {"quarantine": 1, "target": 0}
    told = said(capsys, "status", "p")
    assert "  quarantine: 1 finding by log just now, up to batch 1\n" in told
    assert "  target: proven by log just now, up to batch 1\n" in told


def lost(p: Coordinator, patched: pytest.MonkeyPatch) -> None:
    shutil.rmtree(str(p.ledger.uri))


def damaged(p: Coordinator, patched: pytest.MonkeyPatch) -> None:
    emptied(log_of(p.ledger.uri))


def read_only(p: Coordinator, patched: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **more: object) -> None:
        raise OSError(30, "Read-only file system")

    patched.setattr("include.lake.ledger.land", refuse)


def log_of(uri: LakeUri) -> list[Path]:
    return sorted(Path(str(uri)).glob("_delta_log/*.json"))


@pytest.mark.parametrize(
    ("break_it", "code", "finding", "why"),
    [
        (lost, 1, "the target holds batches that the ledger does not know", "the ledger holds no batch"),
        (damaged, 1, "1 findings", "a table cannot be read"),
        (read_only, 0, "no findings", "the ledger could not be written: OSError: [Errno 30] Read-only file system"),
    ],
)
def test_an_audit_whose_ledger_takes_nothing_reports_all_the_same(
    p: Coordinator,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    break_it: Callable[[Coordinator, pytest.MonkeyPatch], None],
    code: int,
    finding: str,
    why: str,
) -> None:
    break_it(p, monkeypatch)
    before = log_of(p.ledger.uri)
    told = said(capsys, "audit", "p", code=code)
    assert finding in told
    [line] = [line for line in told.splitlines() if "the ledger does not keep what this audit has seen" in line]
    assert why in line
    assert log_of(p.ledger.uri) == before  # none is made where one was lost: it would look like a new pipeline's


def test_a_target_that_cannot_be_read_is_no_longer_proven(p: Coordinator, capsys: pytest.CaptureFixture) -> None:
    said(capsys, "audit", "p")
    emptied(log_of(p.tables.target))
    said(capsys, "audit", "p", code=1)
    assert found(p) == {"quarantine": 0, "target": 1}


def found(p: Coordinator) -> dict[str, int]:
    """How many findings the ledger keeps, by table."""
    return {name: looks["log"].findings for name, looks in p.ledger.state().proofs.items()}


def test_every_finding_counts_at_its_table_in_its_depth() -> None:
    """`--deep` could not recompute the history, and looks at no row of the archive."""

    def finding(table: str) -> Finding:
        return Finding("what", "where", "action", table)

    versions = {"archive": 1, "quarantine": None, "history": 2, "route": 4, "target": 3}
    rows = [finding("target"), finding("target"), finding("quarantine")]
    compared = ["quarantine", "route", "target"]
    looks = looks_of(BatchKey(1, 4), "now", versions, log=[finding("history")], rows=rows, compared=compared)
    assert {name: {depth: look.findings for depth, look in of.items()} for name, of in looks.items()} == {
        "archive": {"log": 0},
        "quarantine": {"log": 0, "rows": 1},
        "history": {"log": 1},
        "route": {"log": 0, "rows": 0},
        "target": {"log": 0, "rows": 2},
    }
    assert looks["target"]["rows"] == Look(1, 4, "now", findings=2, version=3)


def test_a_repair_is_told_with_the_proofs_while_it_is_due(p: Coordinator) -> None:
    def told() -> JsonObject:
        return proofs_and_repairs(p.settings, p.pipeline)

    assert (told()["mends"], told()["problem"]) == ([], None)
    stray(p.tables.quarantine, batch(1))
    assert (told()["mends"], told()["proofs"]["quarantine"]["outcome"]) == (["quarantine"], "never proven")
    assert {finding.table for finding in audit(p.settings, p.pipeline).findings} == {"quarantine"}
    mend = Batch("p", 1, 2, (), {"t": "id-t"}, "cluster", mends=("quarantine",))
    p.ledger.append(lambda state: [BatchPlanned(mend)])
    assert told()["mends"] == ["quarantine"]
    p.ledger.append(lambda state: [replace(committed(mend), positions={"quarantine": head(p)})])
    assert told()["mends"] == []
    emptied(log_of(p.tables.quarantine))
    assert "cannot be read" in told()["problem"]


def head(p: Coordinator) -> Position:
    log = TableLog.open(p.tables.quarantine)
    assert log is not None
    return log.position("p", 1)


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def look(batch_id: int, findings: int = 0, generation: int = 2, **age: int) -> Look:
    return Look(generation, batch_id, (NOON - timedelta(**age)).isoformat(), findings)


@pytest.mark.parametrize(
    ("looks", "words"),
    [
        ({}, "never proven"),
        ({"log": look(14, minutes=5)}, "proven by log 5 min ago, up to batch 14"),
        ({"log": look(12, hours=3), "rows": look(12, hours=3)}, "proven by rows 3 h ago, up to batch 12"),
        (
            {"log": look(14, minutes=5), "rows": look(12, hours=3)},
            "proven by rows 3 h ago, up to batch 12; by log 5 min ago, up to batch 14",
        ),
        (
            {"log": look(14, minutes=5), "rows": look(12, 2, hours=3)},
            "2 findings by rows 3 h ago, up to batch 12; proven by log 5 min ago, up to batch 14",
        ),
        (
            {"log": look(12, 1, hours=3), "rows": look(12, hours=3)},
            "proven by rows 3 h ago, up to batch 12; 1 finding by log 3 h ago, up to batch 12",
        ),
        ({"log": look(7, generation=1, days=3)}, "proven by log 3 d ago, up to batch 7 of generation 1"),
        ({"log": look(-1, seconds=4)}, "proven by log 4 s ago, before the first batch"),
    ],
)
def test_what_is_said_of_a_table(looks: dict, words: str) -> None:
    assert in_words(looks, generation=2, now=NOON) == words
