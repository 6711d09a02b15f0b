"""A suite of rules, in the JSON that Great Expectations 1.x writes and reads.

A rule is an expectation. `meta.lakemark` may say more: `on_fail` (quarantine, fail or warn) and `name`. Reading a suite
needs no Great Expectations, which takes seconds to import.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

from include.pipeline_file.users_file import NotRead, read_users_file
from include.protocol.errors import SuiteError
from include.protocol.json_data import JsonMapping

RulePolicy = Literal["quarantine", "fail", "warn"]
POLICIES: tuple[RulePolicy, ...] = get_args(RulePolicy)
_OWN = "lakemark"  # Lakemark's key in an expectation's meta
_CONDITION_ARGUMENTS = ("row_condition", "condition_parser")
_COLUMN_ARGUMENTS = ("column", "column_A", "column_B")


@dataclass(frozen=True)
class Rule:
    """One expectation of a suite."""

    name: str  # in results and in the quarantine; no other rule of the suite has it
    type: str  # of the expectation
    kwargs: JsonMapping
    on_fail: RulePolicy | None  # None: it does not say
    config: JsonMapping  # the whole expectation, as written

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that its arguments name."""
        return columns_of(self.kwargs)

    @property
    def of_all_rows(self) -> Rule:
        """The same rule without its `row_condition`."""
        kwargs = {name: value for name, value in self.kwargs.items() if name not in _CONDITION_ARGUMENTS}
        return replace(self, kwargs=kwargs, config={**self.config, "kwargs": kwargs})

    @property
    def mostly(self) -> float:
        """The share of rows that must be as expected for the rule to hold."""
        return 1.0 if (mostly := self.kwargs.get("mostly")) is None else float(mostly)


@dataclass(frozen=True)
class Suite:
    name: str
    rules: tuple[Rule, ...]
    config: JsonMapping  # as written

    @property
    def fingerprint(self) -> str:
        """A hash of its content: it says which suite has judged."""
        return hashlib.sha256(json.dumps(self.config, sort_keys=True).encode()).hexdigest()[:12]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads a suite's file.

        Raises:
            SuiteError: there is no such file, it is no suite, or two of its rules have the same name.
        """
        try:
            data = json.loads(read_users_file(path, path.parent))
        except FileNotFoundError as error:
            names = sorted(file.stem for file in path.parent.glob("*.json"))
            near = difflib.get_close_matches(path.stem, names) or names
            found = f"no file; in {path.parent} are: {', '.join(near) or 'none yet'}"
            raise suite_error(path, "file", "a suite", found) from error
        except NotRead as error:
            raise suite_error(path, "file", error.allowed, error.found) from error
        except (ValueError, RecursionError) as error:
            raise suite_error(path, "file", "JSON", " ".join(str(error).split())) from error
        expectations = data.get("expectations") if isinstance(data, dict) else None
        if not isinstance(expectations, list):
            raise suite_error(path, "expectations", "a list of expectations, as Great Expectations writes it", "none")
        taken = _Names()
        rules = tuple(_rule(path, number, config, taken) for number, config in enumerate(expectations))
        return cls(path.stem, rules, data)


def columns_of(kwargs: JsonMapping) -> tuple[str, ...]:
    single = [kwargs[name] for name in _COLUMN_ARGUMENTS if isinstance(kwargs.get(name), str)]
    listed = kwargs.get("column_list")
    return (*single, *(listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ()))


def suite_error(path: Path | str, where: str, expected: str, found: str, evidence: str = "") -> SuiteError:
    """The error for a suite that is wrong. Args: evidence: see `LakemarkError`."""
    return SuiteError(
        what="the quality suite is not valid",
        where=f"{path}, {where}",
        expected=expected,
        found=found,
        action="fix the suite and check it with `lakemark validate --spark`; docs/quality.md lists the rules",
        evidence=evidence,
    )


class _Names:
    """The names of a suite's rules: no two are the same."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._copies: Counter[str] = Counter()  # how many rules without a name have this type and these columns

    def takes(self, name: str) -> bool:
        """Takes a name that a rule gives itself; False if another rule has it."""
        if name in self._taken:
            return False
        self._taken.add(name)
        return True

    def of(self, type_: str, kwargs: JsonMapping) -> str:
        """A name for a rule that gives none: its type and columns, and a number if that name is taken."""
        columns = ", ".join(columns_of(kwargs))
        plain = type_.removeprefix("expect_") + (f"({columns})" if columns else "")
        while True:
            self._copies[plain] += 1
            copy = self._copies[plain]
            name = plain if copy == 1 else f"{plain} #{copy}"
            if self.takes(name):
                return name


def _rule(path: Path, number: int, config: Any, names: _Names) -> Rule:
    where = f"expectation {number}"
    if not isinstance(config, dict) or not isinstance(config.get("type"), str):
        raise suite_error(path, where, "an object with type and kwargs", json.dumps(config)[:200])
    kwargs, meta = (_section(path, where, config, name) for name in ("kwargs", "meta"))
    for argument, (allowed, fits) in _ARGUMENTS.items():
        if (given := kwargs.get(argument)) is not None and not fits(given):
            raise suite_error(path, f"{where}, kwargs.{argument}", allowed, json.dumps(given)[:200])
    own = _section(path, f"{where}, meta", meta, _OWN)
    unknown = sorted(set(own) - {"on_fail", "name"})
    if unknown:
        raise suite_error(path, f"{where}, meta.{_OWN}", "on_fail and name", ", ".join(unknown))
    policy = own.get("on_fail")
    if not isinstance(policy, str | None) or policy not in (None, *POLICIES):
        raise suite_error(path, f"{where}, meta.{_OWN}.on_fail", " | ".join(POLICIES), repr(policy))
    name = own.get("name") or names.of(config["type"], kwargs)
    if not isinstance(name, str):
        raise suite_error(path, f"{where}, meta.{_OWN}.name", "text", json.dumps(name)[:200])
    if own.get("name") and not names.takes(name):
        raise suite_error(path, f"{where}, meta.{_OWN}.name", "a name that no other rule has", repr(name))
    return Rule(name, config["type"], kwargs, on_fail=policy, config=config)


def _section(path: Path, where: str, config: JsonMapping, name: str) -> JsonMapping:
    """An object of the suite; empty if it is not there."""
    found = config.get(name) or {}
    if not isinstance(found, dict):
        raise suite_error(path, f"{where}, {name}", "an object", json.dumps(found)[:200])
    return found


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_switch(value: object) -> bool:
    return isinstance(value, bool)


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


# What many rules take, with what it has to be. Each rule checks its own arguments where it becomes SQL.
_ARGUMENTS: dict[str, tuple[str, Callable[[object], bool]]] = {
    **dict.fromkeys((*_COLUMN_ARGUMENTS, "ignore_row_if", "match_on"), ("text", _is_text)),
    **dict.fromkeys(("strict_min", "strict_max", "or_equal"), ("true or false", _is_switch)),
    "column_list": ("a list of columns", _are_texts),
    "mostly": ("a number from 0 to 1", _is_share),
}
