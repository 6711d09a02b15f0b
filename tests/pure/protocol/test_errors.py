from __future__ import annotations

import json
import pickle
from collections.abc import Iterator

import pytest

from include.protocol.errors import (
    ERRORS_BY_NAME,
    LakemarkError,
    OutcomeUnknownError,
    TerminalError,
    error_from_facts,
)

PARTS = {"what": "w", "where": "x", "expected": "y", "found": "z", "action": "a"}


def classes(base: type[LakemarkError] = LakemarkError) -> Iterator[type[LakemarkError]]:
    for cls in base.__subclasses__():
        yield from (cls, *classes(cls))


@pytest.mark.parametrize("cls", list(classes()), ids=lambda c: c.__name__)
def test_an_error_crosses_processes_as_itself(cls: type) -> None:
    error = cls(**PARTS)
    for copy in (error_from_facts(json.loads(json.dumps(error.facts()))), pickle.loads(pickle.dumps(error))):
        assert type(copy) is cls
        assert str(copy) == str(error) == "w (x): expected y; found z. What to do: a"


def test_an_error_of_an_unknown_name_is_what_its_kind_says() -> None:
    assert type(error_from_facts({**PARTS, "error": "Newer", "kind": "terminal"})) is TerminalError
    assert type(error_from_facts({**PARTS, "error": "Newer", "kind": "newer"})) is OutcomeUnknownError
    assert type(error_from_facts({**PARTS, "error": "Newer"})) is OutcomeUnknownError


def test_every_class_has_its_exit_code() -> None:
    kinds = {cls.kind: cls.exit_code for cls in ERRORS_BY_NAME.values()}
    assert kinds == {"retryable": 10, "outcome_unknown": 11, "terminal": 12}
    assert issubclass(ERRORS_BY_NAME["RangeGap"], TerminalError)
