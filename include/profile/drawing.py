"""Draws a timeline as text, and as SVG for a browser."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from include.profile.timeline import Step, Timeline

_WIDTH = 44  # characters of a bar's lane
_ROW, _LEFT, _LANE, _RIGHT = 22, 210, 620, 250  # pixels
_COLOURS = {"read": "#4c8c6b", "decode": "#c98b2b", "judge": "#8a6bb1", "merge": "#2a6f97"}


def as_text(timeline: Timeline) -> Iterator[str]:
    yield f"{'':25} {'seconds':>7} {'in jobs':>7} {'jobs':>4} {'tasks':>5} {'CPU s':>6} {'read':>9} {'shuffled':>9}"
    for step in timeline.steps:
        sizes = f"{_size(step.read_bytes):>9} {_size(step.shuffled_bytes):>9}"
        yield (
            f"{_name(step):25} {step.seconds:7.2f} {step.in_jobs_seconds:7.2f} {step.jobs:4} {step.tasks:5} "
            f"{step.cpu_seconds:6.2f} {sizes}  {_bar(step, timeline)}"
        )
    phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in timeline.phase_seconds.items())
    task_seconds = sum(step.task_seconds for step in timeline.steps)
    in_jobs = sum(step.in_jobs_seconds for step in timeline.steps)
    yield f"phases: {phases}"
    yield (
        f"attempt {timeline.seconds:.2f} s: {timeline.jobs} Spark jobs took {in_jobs:.2f} s of it "
        f"({task_seconds:.2f} s in tasks); the rest is planning, compiling, commits"
    )


def as_svg(timeline: Timeline, title: str) -> str:
    """One row per step: the light bar is the step's time, the dark part is the time in which Spark jobs ran."""
    height = _ROW * (len(timeline.steps) + 3)
    whole = max(timeline.seconds, 0.001)
    rows = [f'<text x="8" y="{_ROW - 6}" font-weight="bold">{escape(title)}</text>']
    for place, step in enumerate(timeline.steps):
        y = _ROW * (place + 1)
        x, width = _LEFT + _LANE * step.begins / whole, max(2.0, _LANE * step.seconds / whole)
        busy = width * min(1.0, step.in_jobs_seconds / step.seconds) if step.seconds else 0
        colour = _COLOURS.get(step.phase, "#5f6b76")
        told = f"{step.seconds:.2f} s, {step.jobs} jobs, {step.cpu_seconds:.2f} s of CPU"
        rows += [
            f'<text x="8" y="{y + 15}">{escape(_name(step))}</text>',
            f'<rect x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 6}" fill="{colour}" opacity="0.35"/>',
            f'<rect x="{x:.1f}" y="{y + 3}" width="{busy:.1f}" height="{_ROW - 6}" fill="{colour}"/>',
            f'<text x="{_LEFT + _LANE + 10}" y="{y + 15}" fill="#555">{told}</text>',
        ]
    base = _ROW * (len(timeline.steps) + 1) + 4
    for tick in range(6):
        x = _LEFT + _LANE * tick / 5
        rows.append(f'<line x1="{x}" y1="{_ROW}" x2="{x}" y2="{base}" stroke="#ddd"/>')
        rows.append(f'<text x="{x}" y="{base + 16}" text-anchor="middle" fill="#555">{whole * tick / 5:.1f} s</text>')
    width = _LEFT + _LANE + _RIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12"><rect width="{width}" height="{height}" fill="white"/>'
        + "".join(rows)
        + "</svg>\n"
    )


def _name(step: Step) -> str:
    return step.name if step.name == step.phase else f"{step.phase}: {step.name}"


def _bar(step: Step, timeline: Timeline) -> str:
    """A step's bar: `─` while it was running, `█` for the share of that time in which a job ran."""
    whole = max(timeline.seconds, 0.001)
    begins = min(_WIDTH - 1, int(_WIDTH * max(0.0, step.begins) / whole))
    length = max(1, min(_WIDTH - begins, round(_WIDTH * step.seconds / whole)))
    busy = round(length * min(1.0, step.in_jobs_seconds / step.seconds)) if step.seconds else 0
    return "▏" + " " * begins + "█" * busy + "─" * (length - busy)


def _size(number: int) -> str:
    size = float(number)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
