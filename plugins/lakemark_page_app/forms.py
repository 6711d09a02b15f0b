"""What the page's forms send, of which a preview is asked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from include.control.sink_form import CHOICES
from include.savepoints.form import HELP


class Form(BaseModel):
    """The fields of the backfill DAG's form that a preview needs."""

    model_config = ConfigDict(strict=True)
    what: Literal["offset ranges", "a time span", "batches", "the quarantine", "all of the archive"]
    ranges: list[str] | None = None
    since: str | None = None
    until: str | None = None
    batches: str | None = None
    rule: str | None = None
    source: Literal["kafka", "archive"] = "kafka"
    records_per_chunk: Annotated[int, Field(ge=1)] | None = None
    sinks: Literal[tuple(CHOICES)] | None = None  # type: ignore[valid-type]  # the form's own choices

    @field_validator("*")
    @classmethod
    def _is_text(cls, value: object) -> object:
        """JSON may hold half of a surrogate pair, which no program after this one takes. Raises ValueError."""
        for text in value if isinstance(value, list) else (value,):
            if isinstance(text, str) and any("\ud800" <= c <= "\udfff" for c in text):
                raise ValueError("half of a surrogate pair")
        return value


class SavepointForm(BaseModel):
    """The fields of the savepoint DAG's form."""

    model_config = ConfigDict(strict=True)
    what: Literal[tuple(HELP)]  # type: ignore[valid-type]  # the form's own choices
    savepoint: Annotated[str, Field(max_length=63)] | None = None
    checkpoint: Annotated[str, Field(pattern=r"^(\d+/)?(\d+|start)$")] | None = None
    is_copy: Annotated[bool, Field(alias="copy")] = False
    keep_file: bool = False
    sinks: Literal[tuple(CHOICES)] | None = None  # type: ignore[valid-type]  # the form's own choices
    reason: str | None = None
