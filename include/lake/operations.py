"""The operations that commits of our own name, and that somebody looks for."""

from __future__ import annotations

BROUGHT_BACK = "LAKEMARK RESTORE"  # a table is made what it was: what came in between is no part of it any more
CLONED = "CLONE"  # a table begins with the files of another one, as Delta's CLONE makes it
