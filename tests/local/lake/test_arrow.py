"""Processes of Lakemark live for seconds, so they must not spend one on a library that they do not need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

READS = """
import sys
from include.lake.delta_tables import open_table, query, rows_at_most
from include.lake.uri import LakeUri
uri = LakeUri(sys.argv[1])
assert query(open_table(uri), "select * from t") == [{"n": 1}]
assert rows_at_most(uri) == 1
print([name for name in ("pandas", "pyspark") if name in sys.modules])
"""


def test_to_read_a_table_needs_no_pandas(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"n": [1]}))
    read = subprocess.run(
        [sys.executable, "-c", READS, str(tmp_path / "t")], capture_output=True, text=True, check=True
    )
    assert read.stdout == "[]\n"
