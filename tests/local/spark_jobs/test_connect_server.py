from __future__ import annotations

import os
from pathlib import Path

from include.installation import spark_server
from spark_jobs.commands.connect_server import keep_newest


def test_the_event_log_keeps_its_newest_files_and_the_one_that_is_written(tmp_path: Path) -> None:
    sizes = {"a/events_1_a": 10, "a/events_2_a": 10, "b/events_1_b": 10, "b/events_2_b": 50}
    for age, (name, size) in enumerate(sizes.items()):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"x" * size)
        os.utime(file, (1000 + age, 1000 + age))
    (tmp_path / "a" / "appstatus_a").write_text("")
    keep_newest(tmp_path, 65)
    assert sorted(f.relative_to(tmp_path).as_posix() for f in tmp_path.rglob("events_*")) == [
        "b/events_1_b",
        "b/events_2_b",
    ]
    assert not (tmp_path / "a").exists()
    keep_newest(tmp_path, 5)  # less than one file
    assert [f.name for f in tmp_path.rglob("events_*")] == ["events_2_b"]


def test_the_server_starts_from_a_file_that_is_there() -> None:
    assert spark_server._MAIN.is_file()
