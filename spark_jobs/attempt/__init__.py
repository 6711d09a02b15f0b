"""Applies one batch: guard, read, decode, write the tables beside the target, MERGE. Imports `tables` and below."""
