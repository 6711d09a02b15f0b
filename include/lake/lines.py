"""Lines that one process writes, one after the other, while another one reads them. Each kind of store is one class."""

from __future__ import annotations

from typing import Protocol


class Lines(Protocol):
    """Lines of text without line breaks, under one URI. OSError: the store refuses, or does not answer."""

    def add(self, line: str) -> None:
        """Adds a line. Only one process does."""
        ...

    def new(self) -> list[str]:
        """The lines since this object's last call; none if there is nothing (yet)."""
        ...

    def remove(self) -> None:
        """Removes all lines. Does nothing if there are none."""
        ...
