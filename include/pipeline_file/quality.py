"""Section `quality`: what is demanded of a batch, and of the table (docs/quality.md)."""

from __future__ import annotations

from typing import Literal

from croniter import croniter
from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from include.pipeline_file.section import NAME, Section


class TableChecks(Section):
    """Rules about the target itself, at one version of it."""

    suite: str = Field(pattern=NAME, description="include/expectations/NAME.json")
    schedule: str | None = Field(default=None, description="Cron; null: only by hand.")

    @field_validator("schedule")
    @classmethod
    def _is_cron(cls, text: str | None) -> str | None:
        if text is not None and not croniter.is_valid(text):
            raise PydanticCustomError("cron", "a cron expression like `0 6 * * *`, or null")
        return text


class Quality(Section):
    """What is demanded of a batch before it lands (docs/quality.md)."""

    suite: str | None = Field(
        default=None, pattern=NAME, description="Rules: include/expectations/NAME.json, of Great Expectations."
    )
    on_fail: Literal["quarantine", "fail", "warn"] = Field(
        default="quarantine", description="What follows from a rule that does not say it itself."
    )
    quarantine_max_percent: float | None = Field(
        default=None, ge=0, le=100, description="The batch fails if more of its records would be quarantined."
    )
    quarantine_max_records: int | None = Field(default=None, ge=0, description="The same as a number.")
    table: TableChecks | None = Field(default=None, description="Checks of the target itself, on a schedule.")
