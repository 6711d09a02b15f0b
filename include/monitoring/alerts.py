"""Alerts when a pipeline fails for good, or its table gets stale: the file that `LAKEMARK_ALERTS` names.

- class: airflow.providers.smtp.notifications.smtp.SmtpNotifier
  arguments: {to: data@example.com, subject: "{{ lakemark.title }}", html_content: "{{ lakemark.text }}"}

Each entry is a notifier of Airflow's, with the arguments that Airflow documents. Texts are Jinja templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from include.pipeline_file.users_file import NotRead, read_users_file
from include.pipeline_file.yaml_errors import yaml_problem
from include.pipeline_file.yaml_text import read_yaml
from include.protocol.errors import TerminalError
from include.protocol.json_data import JsonObject

Kind = Literal["failed", "stale", "fresh again"]


@dataclass(frozen=True)
class Alert:
    """The object that a notifier's templates know as `lakemark`."""

    kind: Kind
    pipeline: str
    text: str  # what happened, and what to do

    @property
    def title(self) -> str:
        return f"Lakemark: {self.pipeline} {'is ' if self.kind != 'failed' else ''}{self.kind}"


class NotifierEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    class_: str = Field(alias="class", pattern=r"^[A-Za-z_][\w.]*\.[A-Za-z_]\w*$")
    arguments: JsonObject = {}


def load_notifiers(path: Path | None) -> list[NotifierEntry]:
    """The entries of the file; none if there is no file.

    Raises:
        TerminalError: the file is not valid.
    """
    if path is None:
        return []
    try:
        return TypeAdapter(list[NotifierEntry]).validate_python(read_yaml(read_users_file(path, path.parent)) or [])
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise _wrong(path, f"{place}: {first['msg']}") from None  # its text shows the file's, logins too
    except yaml.YAMLError as error:
        raise _wrong(path, f"not YAML: {yaml_problem(error)}") from None
    except NotRead as error:
        raise _wrong(path, str(error)) from error
    except OSError as error:
        raise _wrong(path, error.strerror or "no such file") from error


def _wrong(path: Path, found: str) -> TerminalError:
    return TerminalError(
        what="the file of alerts is not valid, so no alert is sent",
        where=f"{path} (LAKEMARK_ALERTS)",
        expected="a list of {class: path of a notifier of Airflow's, arguments: {...}}",
        found=found,
        action="fix the file",
    )


def staleness_alerts(before: Mapping[str, str], now: Mapping[str, str]) -> list[Alert]:
    """Alerts for what has changed since the last look. Args: why a table, or a sink, is stale, by its name."""
    fresh = [Alert("fresh again", name, "what had waited too long has arrived") for name in before if name not in now]
    return [Alert("stale", name, why) for name, why in now.items() if name not in before] + fresh
