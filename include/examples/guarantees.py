"""The same stream at most once, at least once and exactly once, under the same kill: what each loses or doubles."""

from __future__ import annotations

from include.examples.lab import Lab
from include.examples.payments import Payment, Payments, Verdict
from include.protocol.json_data import JsonObject

IN = "payments_guaranteed"
LEVELS = ("at_most_once", "at_least_once", "exactly_once")


def run(lab: Lab) -> bool:
    """Returns whether each keeps what its name says, and no more."""
    pipelines = [f"payments_{level}" for level in LEVELS]
    lab.fresh_topics(IN, *pipelines, gone=[f"{name}.lakemark-progress" for name in pipelines])
    payments = Payments()
    for name in pipelines:
        lab.pipeline(name)
        lab.lakemark("sinks", "create", name, "--run")
    for fault in ("", "sink.committed", ""):
        lab.send(IN, (one._asdict() for one in payments.more()), key="account")
        for name in pipelines:
            lab.lakemark("run", name, fault=fault, why="after the first transaction of its delivery")
    verdicts = {level: _verdict(lab, payments, name) for level, name in zip(LEVELS, pipelines, strict=True)}
    lab.say(f"sent {len(payments.sent)} payments")
    for level, verdict in verdicts.items():
        lab.say(f"{level.replace('_', ' ')}: {verdict.in_words}")
    at_most, at_least, exactly = verdicts.values()
    return (
        exactly.is_each_once
        and at_most.lost > 0
        and at_most.doubled == at_most.foreign == 0
        and at_least.doubled > 0
        and at_least.lost == at_least.foreign == 0
    )


def _verdict(lab: Lab, payments: Payments, topic: str) -> Verdict:
    seen: list[JsonObject]
    with lab.reader(topic, "read_committed") as seen:
        last = payments.sent[-1]
        lab.wait_for(f"the last payment in {topic}", lambda: last in map(Payment.of, [*seen]))
    return Verdict.on(payments.sent, map(Payment.of, seen))
