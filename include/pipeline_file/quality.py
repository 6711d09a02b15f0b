"""Section `quality`: rules for batches and for the table (docs/quality.md)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from include.pipeline_file.schedule import is_cron
from include.pipeline_file.section import NAME, Section


class TableChecks(Section):
    """Rules about the target itself, at one of its versions."""

    suite: str = Field(pattern=NAME, description="include/expectations/NAME.json")
    schedule: str | None = Field(default=None, description="Cron; null: only by hand.")

    @field_validator("schedule")
    @classmethod
    def _is_cron(cls, text: str | None) -> str | None:
        if text is not None and not is_cron(text):
            raise PydanticCustomError("cron", "a cron expression like `0 6 * * *`, or null")
        return text


class Quality(Section):
    """What a batch must fulfil before it lands (docs/quality.md)."""

    suite: str | None = Field(
        default=None, pattern=NAME, description="Rules of Great Expectations: include/expectations/NAME.json."
    )
    on_fail: Literal["quarantine", "fail", "warn"] = Field(
        default="quarantine", description="The policy of rules that set none."
    )
    quarantine_max_percent: float | None = Field(
        default=None, ge=0, le=100, description="The batch fails if more of its records would be quarantined."
    )
    quarantine_max_records: int | None = Field(default=None, ge=0, description="The same, as a number of records.")
    table: TableChecks | None = Field(default=None, description="Checks of the target itself, on a schedule.")
