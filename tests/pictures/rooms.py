"""Draws the rooms of the code and the arrows between them, from the imports: `make rooms`.

A room is a folder of `include/` or `spark_jobs/`, or a loose module there; `dags/` and `plugins/` are one room each. A
room's floor is one above the highest floor that it imports from. It draws only the arrows that no other path implies.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "images" / "rooms.svg"
PACKAGES = ("include", "spark_jobs", "dags", "plugins")
_COLOURS = {"include": "#dcebf5", "spark_jobs": "#f7e6d0", "dags": "#e3efda", "plugins": "#e3efda"}
_WIDTH, _HEIGHT, _GAP, _RISE = 150, 34, 18, 84

Arrows = Mapping[str, frozenset[str]]  # by room: the rooms that it imports from


@dataclass(frozen=True)
class House:
    """The rooms of a checkout."""

    arrows: Arrows
    loose: int  # modules that lie in no room
    circles: tuple[frozenset[str], ...]  # rooms that import each other

    @classmethod
    def of(cls, packages: tuple[str, ...] = PACKAGES) -> House:
        graph = grimp.build_graph(*packages, cache_dir=None)
        arrows: dict[str, set[str]] = defaultdict(set)
        folders = {module for module in graph.modules if graph.find_children(module)}
        for module in graph.modules:
            room = _room(module)
            arrows[room] |= {_room(m) for m in graph.find_modules_directly_imported_by(module)} - {room}
        empty = {package for package in packages if package in arrows and not arrows[package] and package in folders}
        rooms = {room: frozenset(to - empty) for room, to in arrows.items() if room not in empty - {"dags", "plugins"}}
        loose = sum("." in room and room not in folders for room in rooms)
        return cls(rooms, loose, tuple(_circles(rooms)))

    def floors(self) -> dict[str, int]:
        """By room, from 1 up; rooms of one circle share a floor."""
        found: dict[str, int] = {}

        def floor(room: str) -> int:
            if room not in found:
                together = next((c for c in self.circles if room in c), frozenset({room}))
                below = {to for member in together for to in self.arrows[member]} - together
                height = 1 + max((floor(to) for to in below), default=0)
                found.update(dict.fromkeys(together, height))
            return found[room]

        for room in self.arrows:
            floor(room)
        return found

    def drawn(self) -> list[tuple[str, str]]:
        """Arrows that no other way implies."""
        reach = {room: _reached(self.arrows, room) for room in self.arrows}
        return sorted(
            (room, to)
            for room, targets in self.arrows.items()
            for to in targets
            if not any(to in reach[other] for other in targets - {to} if room not in reach[other])
        )

    def figures(self) -> str:
        floors = self.floors()
        return (
            f"{len(self.arrows)} rooms, {self.loose} of them loose modules; {sum(map(len, self.arrows.values()))} "
            f"arrows; {max(floors.values())} floors; {len(self.circles)} circles"
        )

    def svg(self) -> str:
        floors = self.floors()
        rows = [sorted(room for room, at in floors.items() if at == n) for n in range(max(floors.values()), 0, -1)]
        width = max(len(row) for row in rows) * (_WIDTH + _GAP) + _GAP
        place: dict[str, tuple[float, float]] = {}
        for n, row in enumerate(rows):
            left = (width - len(row) * (_WIDTH + _GAP) + _GAP) / 2
            place |= {room: (left + i * (_WIDTH + _GAP), 10 + n * _RISE) for i, room in enumerate(row)}
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{len(rows) * _RISE}" '
            'font-family="sans-serif" font-size="12">',
            '<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0 8 4 0 8z" fill="#888"/></marker></defs>',
        ]
        for room, to in self.drawn():
            (x, y), (u, v) = place[room], place[to]
            lines.append(
                f'<path d="M{x + _WIDTH / 2:g} {y + _HEIGHT:g} L{u + _WIDTH / 2:g} {v:g}" stroke="#aaa" fill="none" '
                'marker-end="url(#a)"/>'
            )
        for room, (x, y) in sorted(place.items()):
            colour = _COLOURS[room.split(".")[0]]
            lines.append(
                f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="5" fill="{colour}" stroke="#789"/>'
                f'<text x="{x + _WIDTH / 2:g}" y="{y + 21:g}" text-anchor="middle">{room.replace(".", "/")}</text>'
            )
        return "\n".join([*lines, "</svg>", ""])


def _room(module: str) -> str:
    parts = module.split(".")
    return parts[0] if parts[0] in ("dags", "plugins") else ".".join(parts[:2])


def _reached(arrows: Arrows, start: str) -> frozenset[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for to in arrows[waiting.pop()] - seen:
            seen.add(to)
            waiting.append(to)
    return frozenset(seen)


def _circles(arrows: Arrows) -> set[frozenset[str]]:
    reach = {room: _reached(arrows, room) for room in arrows}
    mutual = ({other for other in arrows if other in reach[room] and room in reach[other]} for room in arrows)
    return {frozenset(together) for together in mutual if together}


def main() -> None:
    house = House.of()
    PICTURE.write_text(house.svg())
    print(house.figures())
    print(f"drawn: {PICTURE.relative_to(ROOT)}")
    for circle in house.circles:
        sys.exit(f"these rooms import each other: {', '.join(sorted(circle))}")


if __name__ == "__main__":
    main()
