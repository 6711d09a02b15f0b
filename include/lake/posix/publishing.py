"""Gives a file its name when it is whole."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def published(path: Path, content: bytes) -> bool:
    """Gives a file its name when it is whole, by a hard link. False if there is one."""
    scratch = scratch_of(path)
    try:
        with scratch.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(scratch, path)
    except FileExistsError:
        return False
    finally:
        scratch.unlink(missing_ok=True)
    return True


def scratch_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4()}.tmp")
