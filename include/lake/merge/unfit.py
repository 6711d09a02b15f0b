"""Says why a table, or a batch for it, goes by Spark."""

from __future__ import annotations


class UnfitError(Exception):
    """This code must not write the table, or not this batch; Spark does. The message says why, as a noun phrase."""


class NoLogError(UnfitError):
    """There is no log: it is no table, or not yet one."""
