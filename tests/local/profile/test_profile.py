from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa

from include.profile.drawing import as_svg, as_text
from include.profile.event_log import attempt_events, covered_ms
from include.profile.tags import attempt_tag, phase_in, phase_tag, step_in, step_tag
from include.profile.timeline import timeline

CONNECT = "SparkConnect_SessionTag_User__Session_5_Tag_{}"
SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"


def execution(number: int, at: int, root: int | None = None, description: str = "", phase: str = "merge") -> dict:
    tags = [CONNECT.format(attempt_tag("mine")), CONNECT.format(phase_tag(phase))]
    event = {"Event": f"{SQL}Start", "executionId": number, "time": at, "jobTags": tags}
    return {**event, "rootExecutionId": number if root is None else root, "description": description}


def job(number: int, execution_id: int, began: int, ended: int, whose: str = "mine") -> list[dict]:
    tags = f"{CONNECT.format(attempt_tag(whose))},{CONNECT.format(phase_tag('merge'))}"
    properties = {"spark.job.tags": tags, "spark.sql.execution.id": str(execution_id)}
    metrics = {
        "Executor Run Time": 40,
        "Executor CPU Time": 30_000_000,
        "Disk Bytes Spilled": 0,
        "Input Metrics": {"Bytes Read": 1000},
        "Output Metrics": {"Bytes Written": 10},
        "Shuffle Write Metrics": {"Shuffle Bytes Written": 100},
    }
    start = {"Event": "SparkListenerJobStart", "Job ID": number, "Submission Time": began, "Stage IDs": [number]}
    return [
        {**start, "Properties": properties},
        {"Event": "SparkListenerTaskEnd", "Stage ID": number, "Task Metrics": metrics},
        {"Event": "SparkListenerJobEnd", "Job ID": number, "Completion Time": ended},
    ]


def end(number: int, at: int) -> dict:
    return {"Event": f"{SQL}End", "executionId": number, "time": at}


EVENTS: list[dict[str, Any]] = [
    execution(1, 1000),  # a MERGE, of two parts
    execution(2, 1100, 1, "... MERGE operation - scanning files for matches"),
    *job(7, 2, 1150, 1250),
    end(2, 1300),
    *job(8, 9, 1310, 1390, whose="another"),
    execution(3, 1400, 1, "... MERGE operation - Rewriting 3 files"),
    *job(9, 3, 1500, 1600),
    end(3, 1700),
    end(1, 2000),
]


def write(folder: Path, events: list[dict], name: str = "eventlog_v2_app/events_1_app.zstd") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(event) + "\n" for event in events).encode()
    with pa.output_stream(str(file), compression="zstd" if name.endswith("zstd") else None) as stream:
        stream.write(text)
    return file


def test_tags_are_found_in_what_spark_makes_of_them() -> None:
    tags = " ".join(
        CONNECT.format(tag) for tag in (attempt_tag("a"), phase_tag("decode"), step_tag("decode and reduce"))
    )
    assert (phase_in(tags), step_in(tags)) == ("decode", "decode and reduce")
    assert (phase_in("other"), step_in("other")) == (None, None)


def test_the_steps_of_an_attempt_are_told_with_their_jobs_and_nobody_elses(tmp_path: Path) -> None:
    write(tmp_path, EVENTS)
    drawn = timeline(attempt_events(tmp_path, "mine", 0), 1.0, 2.1, {"merge": 1.0})
    steps = {step.name: step for step in drawn.steps}
    assert list(steps) == ["match", "rewrite", "commit"]
    assert [(s.begins, s.seconds, s.in_jobs_seconds, s.jobs) for s in drawn.steps] == [
        (0.1, 0.2, 0.1, 1),
        (0.4, 0.3, 0.1, 1),
        (0.7, 0.3, 0.0, 0),
    ]
    match = steps["match"]
    assert (match.phase, match.tasks, match.task_seconds, match.cpu_seconds) == ("merge", 1, 0.04, 0.03)
    assert (match.read_bytes, match.written_bytes, match.shuffled_bytes) == (1000, 10, 100)
    assert drawn.jobs == 2


def test_a_job_that_adaptive_execution_starts_without_tags_is_its_executions(tmp_path: Path) -> None:
    begun, *rest = job(7, 2, 1150, 1250)
    begun["Properties"]["spark.job.tags"] = "spark-session-5-execution-root-id-1"
    write(tmp_path, [*EVENTS[:2], begun, *rest, *EVENTS[5:]])
    [match, *_] = timeline(attempt_events(tmp_path, "mine", 0), 1.0, 2.1, {}).steps
    assert (match.name, match.phase, match.jobs, match.in_jobs_seconds, match.cpu_seconds) == (
        "match",
        "merge",
        1,
        0.1,
        0.03,
    )


def test_two_applications_have_the_same_numbers(tmp_path: Path) -> None:
    others = [execution(1, 5000), *job(7, 1, 5000, 6000), end(1, 7000), end(2, 7000)]
    for event in others[:2]:
        event |= json.loads(json.dumps(event).replace("attempt-mine", "attempt-another"))
    for name in ("before", "later"):
        write(tmp_path, others, f"eventlog_v2_{name}/events_1_{name}.zstd")
    write(tmp_path, EVENTS, "eventlog_v2_between/events_1_between.zstd")
    found = attempt_events(tmp_path, "mine", 0)
    assert found.executions[2].ended == 1300
    assert found.jobs[7].ended == 1250


def test_a_log_that_rolls_is_read_in_order_and_one_that_is_being_written_as_far_as_it_goes(tmp_path: Path) -> None:
    write(tmp_path, EVENTS[:6], "eventlog_v2_app/events_2_app.zstd")
    write(tmp_path, [], "eventlog_v2_app/events_1_app.zstd")
    last = write(tmp_path, EVENTS[6:], "eventlog_v2_app/events_10_app.zstd")
    (tmp_path / "eventlog_v2_app" / "appstatus_app.inprogress").write_text("")
    whole = attempt_events(tmp_path, "mine", 0)
    assert whole.executions[1].ended == 2000
    last.write_bytes(last.read_bytes()[:-20])  # half of what is compressed
    cut = attempt_events(tmp_path, "mine", 0)
    assert 7 in cut.jobs
    assert cut.executions[2].ended == 1300
    write(tmp_path, EVENTS, "plain/app-1")
    assert attempt_events(tmp_path / "plain", "mine", 0).jobs.keys() == {7, 9}
    assert attempt_events(tmp_path, "nobody", 0).jobs == {}


def test_spans_that_overlap_count_once() -> None:
    assert covered_ms([(0, 10), (5, 15), (20, 30), (21, 22)]) == 25
    assert covered_ms([]) == 0


def test_a_timeline_is_drawn(tmp_path: Path) -> None:
    write(tmp_path, EVENTS)
    drawn = timeline(attempt_events(tmp_path, "mine", 0), 1.0, 2.1, {"merge": 1.0, "settle": 0.05})
    text = list(as_text(drawn))
    assert [line.split()[1] for line in text[1:4]] == ["match", "rewrite", "commit"]
    assert "2 Spark jobs" in text[-1]
    assert "settle 0.05" in text[-2]
    picture = ElementTree.fromstring(as_svg(drawn, "a <title>"))
    words = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert words[0] == "a <title>"
    assert "merge: rewrite" in words
