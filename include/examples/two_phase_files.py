"""A sink of the user's own with two phases: files that are written aside, and published with the lake's commit."""

from __future__ import annotations

import json
from collections.abc import Iterator

from include.examples.lab import Lab
from include.examples.payments import Payment, Payments, Verdict

PIPELINE, IN = "payments_files", "payments_to_files"


def run(lab: Lab) -> bool:
    """Returns whether the published files have each payment once, and nothing is left."""
    lab.pipeline(PIPELINE)
    lab.fresh_topics(IN)
    payments = Payments()
    for fault, why in (
        ("", ""),
        ("sink.prepared", "between its prepare and the lake's commit"),
        ("sink.landed", "between the lake's commit and its own"),
    ):
        lab.send(IN, (one._asdict() for one in payments.more()), key="account")
        lab.lakemark("run", PIPELINE, fault=fault, why=why)
        if fault:
            lab.say(lab.lakemark("sinks", "pending", PIPELINE).rstrip())
            lab.lakemark("run", PIPELINE)
    verdict = Verdict.on(payments.sent, _published(lab))
    left = lab.lakemark("sinks", "pending", PIPELINE).strip()
    lab.say(f"sent {len(payments.sent)} payments; in the published files: {verdict.in_words}; {left}")
    return verdict.is_each_once and left == "no transaction is pending"


def _published(lab: Lab) -> Iterator[Payment]:
    folder = lab.folder / "export" / PIPELINE / "export"
    for manifest in sorted((folder / "published").iterdir()):
        part = folder / "parts" / json.loads(manifest.read_text())["file"]
        yield from (Payment.of(json.loads(line)) for line in part.read_text().splitlines())
