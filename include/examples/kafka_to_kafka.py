"""From Kafka to Kafka: a reader who is read_committed sees each payment once, one who is not sees aborted ones, too."""

from __future__ import annotations

from include.examples.lab import Lab
from include.examples.payments import Payment, Payments, Verdict

PIPELINE, IN, OUT = "payments_onward", "payments_in", "payments_out"


def run(lab: Lab) -> bool:
    """Returns whether the committed reader has seen each payment once."""
    lab.pipeline(PIPELINE)
    lab.fresh_topics(IN, OUT, gone=[f"{OUT}.lakemark-progress"])
    lab.lakemark("sinks", "create", PIPELINE, "--run")
    payments = Payments()
    with lab.reader(OUT, "read_committed") as committed, lab.reader(OUT, "read_uncommitted") as uncommitted:
        for fault, why in (
            ("", ""),
            ("sink.written", "when its records were sent, and not committed"),
            ("sink.committed", "when its transaction was committed, before it knew"),
        ):
            lab.send(IN, (one._asdict() for one in payments.more()), key="account")
            lab.lakemark("run", PIPELINE, fault=fault, why=why)
        lab.lakemark("sinks", "deliver", PIPELINE)
        lab.wait_for("all payments at the committed reader", lambda: len(committed) >= len(payments.sent))
    right, other = (Verdict.on(payments.sent, map(Payment.of, seen)) for seen in (committed, uncommitted))
    lab.say(f"sent {len(payments.sent)} payments")
    lab.say(f"a reader who is read_committed saw {len(committed)}: {right.in_words}")
    lab.say(f"one who is read_uncommitted saw {len(uncommitted)}: {other.in_words}")
    return right.is_each_once and other.doubled > 0
