"""The unmerged view for users' own Spark code: its name and its place never change."""

from __future__ import annotations

from spark_jobs.commands.unmerged import as_if_merged as fresh_rows

__all__ = ["fresh_rows"]
