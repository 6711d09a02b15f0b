"""The field of forms that asks what sinks outside the lake get: the same question as `--deliver` of the commands."""

from __future__ import annotations

from include.protocol.deliveries import REFUSE, SKIP
from include.protocol.json_data import JsonMapping

ALL = "what changes"
CHOICES = {ALL: None, "nothing": SKIP, "nothing until somebody decides": REFUSE}


def deliver_of(form: JsonMapping) -> str | None:
    """What a person has chosen, as `GenerationStarted` has it. A pipeline without sinks has no such field."""
    return CHOICES[form.get("sinks") or ALL]
