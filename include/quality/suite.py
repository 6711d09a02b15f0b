"""A suite of rules, in the JSON that Great Expectations 1.x writes and reads.

A rule is an expectation. `meta.lakemark` may say more: `on_fail` (quarantine, fail or warn) and `name`. Reading a suite
needs no Great Expectations, which takes seconds to import.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

from include.pipeline_file.users_file import NotRead, read_users_file
from include.protocol.errors import SuiteError
from include.protocol.json_data import JsonMapping

RulePolicy = Literal["quarantine", "fail", "warn"]
POLICIES: tuple[RulePolicy, ...] = get_args(RulePolicy)
_OWN = "lakemark"  # Lakemark's key in an expectation's meta
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
        rules: list[Rule] = []
        for number, config in enumerate(expectations):
            rules.append(_rule(path, number, config, {rule.name for rule in rules}))
        return cls(path.stem, tuple(rules), data)


def columns_of(kwargs: JsonMapping) -> tuple[str, ...]:
    single = [kwargs[name] for name in _COLUMN_ARGUMENTS if isinstance(kwargs.get(name), str)]
    listed = kwargs.get("column_list")
    return (*single, *(listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ()))


def suite_error(path: Path | str, where: str, expected: str, found: str) -> SuiteError:
    return SuiteError(
        what="the quality suite is not valid",
        where=f"{path}, {where}",
        expected=expected,
        found=found,
        action="fix the suite and check it with `lakemark validate`; docs/quality.md lists the rules",
    )


def _rule(path: Path, number: int, config: Any, taken: set[str]) -> Rule:
    where = f"expectation {number}"
    if not isinstance(config, dict) or not isinstance(config.get("type"), str):
        raise suite_error(path, where, "an object with type and kwargs", json.dumps(config)[:200])
    kwargs, meta = (_section(path, where, config, name) for name in ("kwargs", "meta"))
    own = _section(path, f"{where}, meta", meta, _OWN)
    unknown = sorted(set(own) - {"on_fail", "name"})
    if unknown:
        raise suite_error(path, f"{where}, meta.{_OWN}", "on_fail and name", ", ".join(unknown))
    policy = own.get("on_fail")
    if not isinstance(policy, str | None) or policy not in (None, *POLICIES):
        raise suite_error(path, f"{where}, meta.{_OWN}.on_fail", " | ".join(POLICIES), repr(policy))
    name = own.get("name") or _name(config["type"], kwargs, taken)
    if not isinstance(name, str):
        raise suite_error(path, f"{where}, meta.{_OWN}.name", "text", json.dumps(name)[:200])
    if name in taken:
        raise suite_error(path, f"{where}, meta.{_OWN}.name", "a name that no other rule has", repr(name))
    return Rule(name, config["type"], kwargs, on_fail=policy, config=config)


def _section(path: Path, where: str, config: JsonMapping, name: str) -> JsonMapping:
    """An object of the suite; empty if it is not there."""
    found = config.get(name) or {}
    if not isinstance(found, dict):
        raise suite_error(path, f"{where}, {name}", "an object", json.dumps(found)[:200])
    return found


def _name(type_: str, kwargs: JsonMapping, taken: set[str]) -> str:
    """A rule's name if it gives none: its type and columns, and a number if that name is taken."""
    columns = ", ".join(columns_of(kwargs))
    name = type_.removeprefix("expect_") + (f"({columns})" if columns else "")
    copies = (f"{name} #{n}" for n in range(2, len(taken) + 3))
    return name if name not in taken else next(copy for copy in copies if copy not in taken)
