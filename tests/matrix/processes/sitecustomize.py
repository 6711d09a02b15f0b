"""Loaded by every Python process that has this folder on its path: its catalog has the tests' participants, too."""

from tests.matrix import dummies

dummies.add_to_catalog()
