"""Processes of Lakemark live for seconds: they load no library that they do not need, and end as they should."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake

from include.lake.arrow import parquet_file

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


def test_a_file_of_python_is_read_in_the_callers_own_thread() -> None:
    """A thread of Arrow's that drops a buffer while the interpreter ends aborts the process."""
    content, readers = io.BytesIO(), set()
    pq.write_table(pa.table({name: range(50_000) for name in "abc"}), content, row_group_size=10_000)

    class Watched(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            readers.add(threading.get_ident())
            return super().read(size)

    rows = parquet_file(Watched(content.getvalue())).read(use_threads=False)
    assert (rows.num_rows, readers) == (50_000, {threading.get_ident()})
    pq.read_metadata(Watched(content.getvalue()))
    assert readers == {threading.get_ident()}
    pq.ParquetFile(Watched(content.getvalue())).read(use_threads=False)
    assert len(readers) > 1, "by default, others read too: else this test shows nothing"
