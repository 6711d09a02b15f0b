"""Whom to tell when a pipeline fails for good, or its table gets stale: the file that `LAKEMARK_ALERTS` names.

- class: airflow.providers.smtp.notifications.smtp.SmtpNotifier
  arguments: {to: data@example.com, subject: "{{ lakemark.title }}", html_content: "{{ lakemark.text }}"}

Each entry is a notifier of Airflow's, with its arguments as they are documented there; text is a Jinja template.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from include.pipeline_file.yaml_errors import yaml_problem
from include.protocol.errors import TerminalError

Kind = Literal["failed", "stale", "fresh again"]


@dataclass(frozen=True)
class Alert:
    """What a notifier's templates know as `lakemark`."""

    kind: Kind
    pipeline: str
    text: str  # what happened, and what to do

    @property
    def title(self) -> str:
        return f"Lakemark: {self.pipeline} {'is ' if self.kind != 'failed' else ''}{self.kind}"


class NotifierEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    class_: str = Field(alias="class", pattern=r"^[A-Za-z_][\w.]*\.[A-Za-z_]\w*$")
    arguments: dict[str, Any] = {}


def load_notifiers(path: Path | None) -> list[NotifierEntry]:
    """The entries of the file; none without one.

    Raises:
        TerminalError: the file is not what it should be.
    """
    if path is None:
        return []
    try:
        return TypeAdapter(list[NotifierEntry]).validate_python(yaml.safe_load(path.read_text()) or [])
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise _wrong(path, f"{place}: {first['msg']}") from None  # whose text has the file's, logins too
    except yaml.YAMLError as error:
        raise _wrong(path, f"no YAML: {yaml_problem(error)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(path, " ".join(str(error).split())) from error


def _wrong(path: Path, found: str) -> TerminalError:
    return TerminalError(
        what="the file of alerts is not valid, so nobody is told",
        where=f"{path} (LAKEMARK_ALERTS)",
        expected="a list of {class: path of a notifier of Airflow's, arguments: {...}}",
        found=found,
        action="mend the file",
    )


def staleness_alerts(before: Mapping[str, str], now: Mapping[str, str]) -> list[Alert]:
    """What has changed since the last look. Args: what is stale, and why, by pipeline."""
    fresh = [
        Alert("fresh again", name, "what had waited too long is in the table") for name in before if name not in now
    ]
    return [Alert("stale", name, why) for name, why in now.items() if name not in before] + fresh
