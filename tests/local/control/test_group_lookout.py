"""The watch over a group: which pipelines are due, whatever is wrong with the others. No Kafka: it is made up."""

from __future__ import annotations

from pathlib import Path
from threading import Event, get_ident

import pytest
import yaml

from include.control.group_lookout import GroupLookout
from include.pipeline_file import Source
from include.protocol.errors import RetryableError, TerminalError
from include.protocol.planning import SourceExtent
from include.settings import Settings
from include.sources.shared_brokers import SharedBrokers
from tests.support.batches import source
from tests.support.waiting import wait_until


@pytest.fixture
def lookout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GroupLookout:
    """Every topic has ten records, but that of `ill`, whose brokers do not answer."""
    for module, name in (("group_lookout", "_FILES_SECONDS"), ("pipeline_watch", "TROUBLE_SECONDS")):
        monkeypatch.setattr(f"include.control.{module}.{name}", -1.0)

    def extent(self: SharedBrokers, asked: Source) -> SourceExtent:
        if asked.topics == ("ill",):
            raise RetryableError(what="w", where="x", expected="y", found="z", action="wait")
        return source({("t", 0): (0, 10)})

    monkeypatch.setattr(SharedBrokers, "extent", extent)
    (tmp_path / "pipelines").mkdir()
    settings = {"LAKEMARK_HOME": str(tmp_path / "home"), "LAKEMARK_PIPELINES": str(tmp_path / "pipelines")}
    return GroupLookout(Settings.from_environment(settings), "g")


def member(lookout: GroupLookout, name: str, table: str | None = None, group: str | None = "g") -> None:
    data = {
        "name": name,
        "schedule": "continuous",
        "group": group,
        "source": {"bootstrap_servers": "127.0.0.1:1", "topics": [name], "schema": "id BIGINT"},
        "change": {"keys": ["id"]},
        "target": {"table": table or f"lake://silver/{name}"},
    }
    (lookout.settings.pipelines / f"{name}.yaml").write_text(yaml.safe_dump(data))


def test_those_that_are_due_are_named_whatever_is_wrong_with_another(lookout: GroupLookout) -> None:
    for name in ("well", "ill"):
        member(lookout, name)
    member(lookout, "elsewhere", group=None)
    assert wait_until(lookout.look).keys() == {"well"}
    assert lookout.look() == {}  # its run has been asked for


def test_nobody_waits_for_brokers_that_may_not_answer(lookout: GroupLookout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that have not answered yet, and those that have not the last time."""
    member(lookout, "well")
    member(lookout, "ill")
    answers, asked = [Event(), Event()], []

    def slow(self: SharedBrokers, source_: Source) -> SourceExtent:
        if source_.topics == ("ill",):
            asked.append(get_ident())
            assert answers[len(asked) - 1].wait(60)
            if len(asked) == 1:
                raise RetryableError(what="w", where="x", expected="y", found="z", action="wait")
        return source({("t", 0): (0, 10)})

    monkeypatch.setattr(SharedBrokers, "extent", slow)
    assert wait_until(lookout.look).keys() == {"well"}
    for answer in answers:
        for _ in range(3):
            assert lookout.look() == {}  # at once
        answer.set()
        if answer is answers[0]:
            wait_until(lambda: lookout.look() == {} and len(asked) == 2)
    assert wait_until(lookout.look).keys() == {"ill"}
    assert get_ident() not in asked


def test_nobody_waits_for_brokers_that_refuse_a_login_either(
    lookout: GroupLookout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person must act, so it is due, and says why. To be refused takes ten seconds."""
    member(lookout, "ill")
    asked = []

    def refused(self: SharedBrokers, source_: Source) -> SourceExtent:
        asked.append(get_ident())
        raise TerminalError(what="the login is refused", where="x", expected="y", found="z", action="correct it")

    monkeypatch.setattr(SharedBrokers, "extent", refused)
    [start] = wait_until(lookout.look).values()
    assert "the login is refused" in str(start.problem)
    wait_until(lambda: lookout.look() == {} and len(asked) > 1)
    assert get_ident() not in asked


def test_files_come_change_and_go(lookout: GroupLookout) -> None:
    member(lookout, "one")
    assert wait_until(lookout.look).keys() == {"one"}
    member(lookout, "two")
    assert wait_until(lookout.look).keys() == {"two"}
    (lookout.settings.pipelines / "one.yaml").unlink()
    member(lookout, "two", table="lake://silver/other")
    assert wait_until(lookout.look).keys() == {"two"}  # another file: it is watched anew


def test_a_look_at_a_file_that_has_changed_since_does_not_count(
    lookout: GroupLookout, monkeypatch: pytest.MonkeyPatch
) -> None:
    member(lookout, "one")
    answers, asked = Event(), []

    def extent(self: SharedBrokers, source_: Source) -> SourceExtent:
        asked.append(source_)
        if len(asked) > 1:
            return source({("t", 0): (0, 7)})
        assert answers.wait(60)
        return source({("t", 0): (0, 10)})

    monkeypatch.setattr(SharedBrokers, "extent", extent)
    wait_until(lambda: lookout.look() == {} and asked)
    [before] = lookout._members.values()
    assert before.begun is not None
    answers.set()
    wait_until(before.begun.done)
    member(lookout, "one", table="lake://silver/other")
    [start] = wait_until(lookout.look).values()
    assert start.records == 7


def test_a_file_that_another_one_makes_valid_is_watched(lookout: GroupLookout) -> None:
    """Its own file does not change."""
    member(lookout, "first", table="lake://silver/shared")
    member(lookout, "second", table="lake://silver/shared")
    assert [lookout.look() for _ in range(3)] == [{}] * 3
    member(lookout, "second")
    seen: set[str] = set()
    wait_until(lambda: seen.update(lookout.look()) or seen == {"first", "second"})
