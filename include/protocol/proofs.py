"""What audits have seen of a pipeline's tables: how deep they looked, when, and up to which batch. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from include.protocol.json_data import JsonMapping, JsonObject

# `log`: markers, counts, continuity and foreign writers. `rows`: what the table should hold was computed anew from the
# source's records, and compared. The two are separate checks, so a look by log takes no finding in the rows back.
Depth = Literal["log", "rows"]
Outcome = Literal["findings", "never proven", "proven"]  # worst first


@dataclass(frozen=True)
class Look:
    """One look of an audit at one table. Without findings it is a proof."""

    generation: int
    batch_id: int  # the last batch that was committed then; -1: none of this generation was
    at: str  # when the audit began: ISO 8601, UTC
    findings: int
    version: int | None = None  # the table's; None: there was no table, or it could not be opened


Looks = Mapping[Depth, Look]  # the newest ones at one table
Proofs = Mapping[str, Looks]  # by the participant's name


@dataclass(frozen=True)
class PipelineAudited:
    """An event of the ledger: what `lakemark audit` has seen. It moves nothing, so it may follow any event: nothing
    waits for an audit."""

    generation: int
    batch_id: int  # the last batch that was committed when the audit began; -1: none of this generation was
    started_by: str
    looks: Proofs


def joined(before: Proofs, newer: Proofs) -> dict[str, Looks]:
    """The newest look at every table in every depth."""
    return {**before, **{name: {**before.get(name, {}), **looks} for name, looks in newer.items()}}


def findings_of(looks: Looks) -> int:
    """How many findings the newest looks at one table have."""
    return sum(look.findings for look in looks.values())


def outcome(looks: Looks) -> Outcome:
    """What the newest looks at one table say together."""
    if findings_of(looks):
        return "findings"
    return "proven" if looks else "never proven"


def proofs_to_json(proofs: Proofs) -> JsonObject:
    return {
        name: {depth: asdict(look) for depth, look in sorted(looks.items())} for name, looks in sorted(proofs.items())
    }


def proofs_from_json(data: JsonMapping) -> dict[str, Looks]:
    """The inverse."""
    return {name: {depth: Look(**look) for depth, look in looks.items()} for name, looks in data.items()}
