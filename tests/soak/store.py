"""Faults of an object store, and of the network before it."""

from __future__ import annotations

from tests.soak.victim import RUN_SECONDS_MAX, Victim
from tests.support.lossy_store import Fault

_SHARE = 0.04  # of all requests
_COMMITS = r"PUT .*/_delta_log/\d{20}\.json"


def deals_faults(victim: Victim) -> bool:
    """All kinds of them, while a run works."""
    victim.proxy.deals(victim.chance.randrange(10**6), _SHARE)
    return _run(victim)


def breaks_commits(fault: Fault, victim: Victim) -> bool:
    """What happens to the first requests of every commit, of any writer."""
    victim.proxy.breaks(_COMMITS, fault, victim.chance.randint(1, 2))
    return _run(victim)


def _run(victim: Victim) -> bool:
    before = victim.proxy.dealt.total()
    process = victim.run()
    try:
        process.communicate(timeout=RUN_SECONDS_MAX)  # no command hangs, whatever becomes of it
    finally:
        victim.proxy.is_good()
    return victim.proxy.dealt.total() > before
