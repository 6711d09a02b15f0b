"""Every check meets every scenario, with either engine. In each, the pipeline has survived all scenarios before it.

`make test` runs two of them with the check that has the most tables, and one with the tables that exist only here, all
by the lane; `make test-all` runs all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from include.installation.stack import Stack
from include.participants.catalog import Catalog
from tests.conftest import world_in
from tests.matrix import dummies
from tests.matrix.checks import CHECKS, Case, Check, written
from tests.matrix.scenarios import SCENARIOS
from tests.support.sink_servers import PostgresServer
from tests.support.world import World

_ALWAYS = {
    ("everything", "killed at part 2"),
    ("everything", "zombie of another program"),
    ("notes", "killed at part 1"),
}


def _meets(check: Check, scenario: str, engine: str) -> bool:
    """A scenario that needs what the check's pipeline, or the engine, does not have is no case."""
    if scenario in ("killed at lane.decided", "zombie of the lane") and engine != "lane":
        return False
    if scenario.startswith("killed at part "):
        return int(scenario.rpartition(" ")[2]) <= check.parts
    return "quality" in check.sections or scenario != "killed at attempt.judged"


_CASES = [
    pytest.param(
        engine,
        check,
        name,
        marks=() if (check.name, name) in _ALWAYS and engine == "lane" else pytest.mark.slow,
        id=f"{engine}-{check.name}-{name}",
    )
    for engine in ("lane", "spark")
    for check in CHECKS
    for name in SCENARIOS
    if _meets(check, name, engine)
]


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest) -> str:
    """What writes all batches of a world."""
    return str(getattr(request, "param", "lane"))


@pytest.fixture(scope="module")
def world(
    engine: str, stack: Stack, postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """Its processes know the tests' own participants, and so does this one."""
    folder = tmp_path_factory.mktemp("matrix")
    here = Path(__file__).parent
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", os.pathsep.join((str(here / "processes"), str(here.parents[1]))))
        kinds = [*dummies.catalog.KINDS]
        patched.setattr(dummies.catalog, "KINDS", kinds)
        dummies.add_to_catalog()
        yield world_in(folder, stack, LAKEMARK_MERGE_ENGINE=engine, LAKEMARK_VAR_PORT=str(postgres.port))


@pytest.fixture(scope="module")
def cases(world: World) -> dict[str, Case]:
    """The world's pipelines so far, by check."""
    return {}


@pytest.fixture
def case(request: pytest.FixtureRequest, world: World, cases: dict[str, Case]) -> Case:
    check: Check = request.getfixturevalue("check")
    if (case := cases.get(check.name)) is None or not case.is_sound:
        number = 0 if case is None else int(case.name.rpartition("_")[2]) + 1
        case = cases[check.name] = Case.of(world, check, number)
    return case


@pytest.mark.parametrize(("engine", "check", "scenario"), _CASES, indirect=["engine"])
def test_the_tables_are_right_whatever_befalls_a_batch(case: Case, check: Check, scenario: str) -> None:
    case.is_sound = False  # until the end, so that a failure costs the next test nothing
    SCENARIOS[scenario](case)
    case.run()
    case.verify()  # with nothing new to read
    case.change()
    case.run()
    case.verify_after_a_restart()
    case.is_sound = True


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_a_check_knows_how_many_tables_it_has_before_the_point(world: World, check: Check) -> None:
    """Else some of them would meet no kill."""
    pipeline = written(world, check, check.full_name(0), "t")
    assert check.parts == len(Catalog.of(pipeline).before)
