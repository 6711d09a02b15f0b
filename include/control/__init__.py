"""Decides and records in the ledger: plans and settles batches, changes generations, runs backfills, resolves the
quarantine. Imports `sources` and below.
"""
