"""When a pipeline runs: the `schedule` of a pipeline file."""

from __future__ import annotations

import re
from typing import Annotated, Any

from croniter import croniter
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema, field_validator
from pydantic_core import PydanticCustomError

from include.pipeline_file.in_words import problem_of
from include.pipeline_file.section import HOURS_MAX, TABLE, refuse_climbing, refused_all

ALLOWED = (
    "a cron expression of five fields, `continuous`, `on_data`, `{on_data: {records: N, seconds: T}}`, "
    "`{tables: [lake://layer/table, ...]}`, or null"
)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False)


class OnData(_Part):
    """A run starts when enough data waits in Kafka. Until then nothing runs, and no worker is occupied."""

    records: int = Field(default=10_000, ge=1, description="Start when this many offsets are not committed yet,")
    seconds: float = Field(default=10.0, ge=0, le=HOURS_MAX, description="or when any of them has waited for so long.")

    def __str__(self) -> str:
        return f"as soon as {self.records:,} records wait in Kafka, or any has waited for {self.seconds:g} s"


class OnTables(_Part):
    """A run starts when each of these tables (Airflow assets) has a new version since the last run."""

    tables: tuple[str, ...] = Field(min_length=1, repr=False, description="lake://layer/table of other pipelines")

    @field_validator("tables")
    @classmethod
    def _are_tables(cls, tables: tuple[str, ...]) -> tuple[str, ...]:
        for table in tables:
            if not re.fullmatch(TABLE, table):
                raise PydanticCustomError("tables", "tables like lake://silver/orders")
            refuse_climbing(table)
        return tables

    def __str__(self) -> str:
        return f"when {' and '.join(self.tables)} {'has' if len(self.tables) == 1 else 'have'} a new version"


_CRON_FIELDS, _CRON_MAX = 5, 1_000
CONTINUOUS = OnData(records=1, seconds=0.0)


def is_cron(text: str) -> bool:
    """Whether the text is a cron expression that Airflow takes, and that names a time at all (not 31 February)."""
    if len(text) > _CRON_MAX or not (text.startswith("@") or len(text.split()) == _CRON_FIELDS):
        return False
    try:
        croniter(text).get_next()
    except (ValueError, LookupError, ArithmeticError):
        return False
    return True


def _parsed(schedule: Any) -> Any:
    """Reads the forms of a schedule. `continuous` and `on_data` stand for thresholds; other text must be cron."""
    match schedule:
        case None | OnData() | OnTables():
            return schedule
        case "continuous":
            return CONTINUOUS
        case "on_data":
            return OnData()
        case str() if is_cron(schedule):
            return schedule
        case {"on_data": thresholds, **others} if not others:
            return _read(OnData, {} if thresholds is None else thresholds, "schedule.on_data")
        case {"tables": _, **others} if not others:
            return _read(OnTables, schedule, "schedule")
    raise PydanticCustomError("schedule", ALLOWED)


def _read(part: type[_Part], data: Any, at: str) -> _Part:
    """Checks a part that has its own form. An error names the field by its place in the file."""
    try:
        return part.model_validate(data)
    except ValidationError as error:
        found = [problem_of(details, part) for details in error.errors()]
        problems = [problem._replace(field=f"{at}.{problem.field}") for problem in found]
        raise refused_all("schedule", problems) from error


_FORMS = [
    {"type": "string", "description": "cron, `continuous` or `on_data`"},
    {"type": "null"},
    {
        "type": "object",
        "properties": {"on_data": OnData.model_json_schema()},
        "required": ["on_data"],
        "additionalProperties": False,
    },
    OnTables.model_json_schema(),
]
Schedule = Annotated[str | OnData | OnTables | None, BeforeValidator(_parsed), WithJsonSchema({"anyOf": _FORMS})]


def in_words(schedule: str | OnData | OnTables | None) -> str:
    """The schedule as part of a sentence."""
    match schedule:
        case None:
            return "only when it is triggered"
        case str():
            return f"cron `{schedule}`"
        case _ if schedule == CONTINUOUS:
            return "all the time: the next run starts as soon as anything waits in Kafka"
        case _:
            return str(schedule)
