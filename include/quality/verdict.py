"""What a suite says about a batch or a table, and what follows. Pure.

Results have the shape of Great Expectations' own, so that its reports can show them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from include.protocol.errors import QualityGate
from include.protocol.json_data import JsonMapping, JsonObject, JsonValue
from include.quality.suite import Rule, RulePolicy, Suite

Outcome = Literal["passed", "warned", "quarantined", "failed"]  # the worst result of any rule
SAMPLES_MAX = 20  # values of broken rows that a result keeps: Great Expectations' own default
_TOLD_MAX = 50  # broken rules that a commit's metadata names


@dataclass(frozen=True)
class RuleResult:
    rule: Rule
    policy: RulePolicy
    success: bool
    result: JsonMapping  # as Great Expectations has it under `result`

    @property
    def unexpected(self) -> int:
        """Rows that break it; 0 for a rule that is not about rows."""
        return self.result.get("unexpected_count") or 0

    @property
    def figures(self) -> str:
        """For people: what was found, without a value of a record. A largest value, or a sum, may be one."""
        if "unexpected_count" in self.result:
            return f"{self.unexpected:,} of {self.result['element_count']:,} rows break it"
        return "it does not hold"

    @property
    def values(self) -> str:
        """What it saw in records; empty if it keeps nothing."""
        if "unexpected_count" in self.result:
            samples = self.result["partial_unexpected_list"]
            return f"{self.rule.name}: like {json.dumps(samples[0], default=str)}" if samples else ""
        return f"{self.rule.name}: observed {json.dumps(self.result.get('observed_value'), default=str)}"


@dataclass(frozen=True)
class Verdict:
    suite: Suite
    results: tuple[RuleResult, ...]

    @property
    def failed(self) -> list[RuleResult]:
        """Rules that do not hold and whose policy is `fail`."""
        return [r for r in self.results if not r.success and r.policy == "fail"]

    @property
    def outcome(self) -> Outcome:
        broken = {r.policy for r in self.results if not r.success}
        if "fail" in broken:
            return "failed"
        if any(r.unexpected for r in self.results if r.policy == "quarantine"):
            return "quarantined"
        return "warned" if broken else "passed"

    @property
    def breaks_all(self) -> bool:
        """Whether some rule is broken by every row that it can judge, as by a suite that cannot be right."""
        about_rows = (r.result for r in self.results if r.unexpected)
        return any(r["unexpected_count"] >= r["element_count"] - (r.get("missing_count") or 0) for r in about_rows)

    def to_json(self) -> JsonObject:
        """The short form for a commit's metadata: the suite, the outcome, and the rules that rows broke."""
        broken = {r.rule.name: r.unexpected for r in self.results if not r.success or r.unexpected}
        return {
            "suite": self.suite.name,
            "fingerprint": self.suite.fingerprint,
            "outcome": self.outcome,
            "rules": len(self.results),
            "broken": dict(list(broken.items())[:_TOLD_MAX]),
        }


def result_of_rows(rule: Rule, policy: RulePolicy, elements: int, missing: int | None, unexpected: int) -> RuleResult:
    """The result of a rule about rows. Samples are added later (`with_samples`).

    Args:
        elements: rows that it is about. missing: how many of these it cannot judge; None if it judges all.
    """
    judged = elements - (missing or 0)
    percent = unexpected / judged * 100 if judged else None
    result: JsonObject = {"element_count": elements, "unexpected_count": unexpected, "unexpected_percent": percent}
    result["partial_unexpected_list"] = []
    if missing is not None:
        result |= {
            "missing_count": missing,
            "missing_percent": missing / elements * 100 if elements else None,
            "unexpected_percent_total": unexpected / elements * 100 if elements else None,
            "unexpected_percent_nonmissing": percent,
        }
    success = not judged or (judged - unexpected) / judged >= rule.mostly
    return RuleResult(rule, policy, success, result)


def with_samples(result: RuleResult, samples: Sequence[JsonValue]) -> RuleResult:
    shown = {**result.result, "partial_unexpected_list": list(samples[:SAMPLES_MAX])}
    return RuleResult(result.rule, result.policy, result.success, shown)


def result_of_figure(
    rule: Rule, policy: RulePolicy, observed: JsonValue, holds: bool | None, **more: JsonValue
) -> RuleResult:
    """The result of a rule about one figure. No figure (of no rows) breaks the rule, as in Great Expectations."""
    return RuleResult(rule, policy, bool(holds), {"observed_value": observed, **more})


@dataclass(frozen=True)
class Ceiling:
    """How much of a batch may be quarantined, for whatever reason. If there is more, nothing of the batch lands."""

    percent: float | None
    records: int | None

    def is_exceeded(self, quarantined: int, read: int) -> bool:
        too_many = self.records is not None and quarantined > self.records
        return too_many or (self.percent is not None and read > 0 and quarantined / read * 100 > self.percent)

    def __str__(self) -> str:
        percent = f"{self.percent:g} %" if self.percent is not None else None
        records = f"{self.records:,} records" if self.records is not None else None
        return " and ".join(filter(None, (percent, records)))


def verify_gate(where: str, verdict: Verdict | None, ceiling: Ceiling, quarantined: int, read: int) -> None:
    """Lets a batch land, or raises an error.

    Raises:
        QualityGate: a rule whose policy is `fail` does not hold, or more is quarantined than the ceiling allows.
    """
    if verdict and verdict.failed:
        raise _shut(
            where,
            f"suite {verdict.suite.name} to hold where its policy is `fail`",
            _figures(verdict.failed),
            _values(verdict.failed),
        )
    if ceiling.is_exceeded(quarantined, read):
        broken = [r for r in verdict.results if r.unexpected and r.policy == "quarantine"] if verdict else []
        found = f"{quarantined:,} of {read:,} ({quarantined / read * 100:.3g} %)"
        expected = f"at most {ceiling} in the quarantine"
        raise _shut(where, expected, "; ".join(filter(None, (found, _figures(broken)))), _values(broken))


def verify_table(where: str, verdict: Verdict) -> None:
    """Raises an error if the table does not pass its checks.

    Raises:
        QualityGate: a rule whose policy is `fail` does not hold.
    """
    if verdict.failed:
        raise QualityGate(
            what="the table does not pass its checks",
            where=where,
            expected=f"suite {verdict.suite.name} to hold",
            found=_figures(verdict.failed),
            action="nothing was changed; look at the rows (`lakemark quality show NAME`), fix the source or the rule",
            evidence=_values(verdict.failed),
        )


def _figures(results: Sequence[RuleResult]) -> str:
    return "; ".join(f"{r.rule.name}: {r.figures}" for r in results)


def _values(results: Sequence[RuleResult]) -> str:
    return "; ".join(filter(None, (r.values for r in results)))


def _shut(where: str, expected: str, found: str, values: str) -> QualityGate:
    return QualityGate(
        what="the batch is not good enough; nothing of it has landed, and it stays planned",
        where=where,
        expected=expected,
        found=found,
        action="fix the source, the pipeline file or the suite, then clear the merge task with what follows it, or "
        "`lakemark run NAME`: the same offsets are read and judged again; the task's log has values that broke it",
        evidence=values,
    )
