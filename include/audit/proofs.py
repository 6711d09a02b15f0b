"""What an audit has proven of each table, and its record in the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from include.audit.report import AuditReport, Finding
from include.lake.ledger import Ledger
from include.pipeline_file import Pipeline
from include.pipeline_file.tables import Tables
from include.protocol.batch import BatchKey
from include.protocol.errors import LakemarkError
from include.protocol.ledger_state import LedgerState
from include.protocol.proofs import Depth, Look, PipelineAudited, Proofs
from include.settings import Settings


def looks_of(
    position: BatchKey,
    at: str,
    versions: Mapping[str, int | None],
    log: Iterable[Finding],
    rows: Iterable[Finding] = (),
    compared: Collection[str] = (),
) -> Proofs:
    """The looks of one audit. Every finding counts in one of them.

    Args:
        position: the last committed batch. at: when the audit began, ISO 8601 in UTC. versions: of the tables that it
            has looked at; None: there is no table. log, rows: the findings of each depth. compared: the tables whose
            rows were compared.
    """
    found: dict[Depth, Counter[str]] = {"log": Counter(f.table for f in log), "rows": Counter(f.table for f in rows)}
    names: dict[Depth, set[str]] = {"log": {*versions, *found["log"]}, "rows": {*compared, *found["rows"]}}
    return {
        name: {
            depth: Look(*position, at, findings=found[depth][name], version=versions.get(name))
            for depth in names
            if name in names[depth]
        }
        for name in sorted(set().union(*names.values()))
    }


def record(settings: Settings, pipeline: Pipeline, report: AuditReport, started_by: str) -> str | None:
    """Records in the ledger what an audit has seen. Returns why it could not; None: it is recorded.

    An audit is there to be read, also where the ledger is lost, damaged or read-only. So nothing is raised, and no
    ledger is made: a new one would look like that of a pipeline that has never run.
    """

    def decide(state: LedgerState) -> list[PipelineAudited]:
        if state.is_fresh or report.generation is None:
            return []
        return [PipelineAudited(report.generation, report.committed_through, started_by, report.looks)]

    try:
        state = Ledger(Tables.of(settings, pipeline).ledger).append(decide, about=None)
    except LakemarkError as error:
        return f"{error.what}: {error.found}"
    return "the ledger holds no batch" if state.is_fresh else None
