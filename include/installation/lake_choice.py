"""Where the lake of `lakemark up` lies: in a folder of the home, or on an S3-compatible store that `up` starts."""

from __future__ import annotations

import json
from typing import Literal, get_args

from include.installation.object_store import BUCKET, ObjectStore
from include.protocol.errors import TerminalError
from include.settings import Settings

LakeChoice = Literal["local", "s3"]
CHOICES: tuple[LakeChoice, ...] = get_args(LakeChoice)
LAKE = f"s3://{BUCKET}/lake"
_KEPT = "up.json"  # in the home: what was chosen, for the next `up`
_OF_AWS = (
    "AWS_ENDPOINT_URL",
    "AWS_PROFILE",
    "AWS_CONFIG_FILE",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
)  # each would lead elsewhere, or with another login


def with_lake(settings: Settings, store: ObjectStore, chosen: LakeChoice | None) -> Settings:
    """The settings of an installation whose lake is chosen. The choice is kept for the next time.

    Args:
        store: the one that `up` would start.
        chosen: None: as last time, and at first local.

    Raises:
        TerminalError: the environment says something else.
    """
    kept = settings.home / _KEPT
    chosen = chosen or _last(settings)
    ours = variables(store)
    if chosen == "s3":
        _verify_agrees(settings, ours)
        environment = {**settings.environment, **ours}
    else:
        environment = {name: text for name, text in settings.environment.items() if ours.get(name) != text}
    kept.write_text(json.dumps({"lake": chosen}))
    return Settings.from_environment(environment)


def variables(store: ObjectStore) -> dict[str, str]:
    """The environment of a lake on this store."""
    return {"LAKEMARK_LAKE": LAKE, **store.environment}


def _last(settings: Settings) -> LakeChoice:
    try:
        kept = json.loads((settings.home / _KEPT).read_text())["lake"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return "local"
    return kept if kept in CHOICES and not settings.environment.get("LAKEMARK_LAKE") else "local"


def _verify_agrees(settings: Settings, ours: dict[str, str]) -> None:
    set_ = settings.environment
    other = [name for name in ours if set_.get(name, ours[name]) != ours[name]] + [n for n in _OF_AWS if set_.get(n)]
    if other:
        raise TerminalError(
            what="the environment leads to another lake than the one that was chosen",
            where="lakemark up --lake s3",
            expected=f"nothing said about it: `up` starts a store of its own, at {ours['AWS_ENDPOINT_URL_S3']}",
            found=f"set: {', '.join(other)}",
            action=f"`unset {' '.join(other)}` in this shell; or, to use a store that is there already, leave --lake "
            "out and set LAKEMARK_LAKE (docs/object-store.md)",
        )
