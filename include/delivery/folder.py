"""Files as a sink: a delivery is written aside, and one small file publishes it.

The folder has two parts. `parts/` holds the files of deliveries, `manifests/` one file for each delivery, in order: it
names the files, and says where the sink stands. A store creates a file under a name once only: who creates the manifest
of a number has delivered it, and any other delivery of that number has lost. Its files are no part of anything, and are
removed once the manifest of their number is there.

Source: the two-phase file sink of Flink (TwoPhaseCommitSinkFunction), with the manifest in place of renames.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from include.delivery.contract import Delivery
from include.delivery.sql_values import json_object, json_value
from include.delivery.trouble import outcome_unknown, overtaken, taken_by, unreachable, unreadable
from include.fault_points import fault_point
from include.lake.damage import on_one_line
from include.lake.sql import sql_name, sql_text
from include.lake.stores import files_at
from include.lake.uri import LakeUri, lake_at
from include.pipeline_file import Pipeline
from include.pipeline_file.schema_ddl import nested
from include.pipeline_file.sink_columns import OPERATION, SinkColumn, sink_columns
from include.protocol.errors import LakemarkError, StoreUnclear, TerminalError
from include.protocol.json_data import JsonObject
from include.protocol.progress import Progress
from include.settings import Settings

_ROWS_MAX = 500_000  # of a file
_PARTS, _MANIFESTS = "parts", "manifests"

Format = Literal["csv", "json", "parquet"]


@dataclass
class FolderSink:
    """See `WriteAheadSink`."""

    where: str
    own: str  # PIPELINE/SINK
    uri: LakeUri
    format: Format
    columns: tuple[SinkColumn, ...]
    is_log: bool = False  # rows are only added
    _number: int = -1  # of the newest manifest

    @classmethod
    def taken(cls, settings: Settings, pipeline: Pipeline, name: str) -> FolderSink:
        """The sink. Nobody else loses it: the next manifest decides.

        Raises:
            RetryableError: the store does not answer. TerminalError: see `verify_places`.
        """
        verify_places(settings, pipeline)
        place = pipeline.sinks[name].files
        assert place is not None, "the caller knows its system"
        where = f"{pipeline.name}, sink {name} (files {place.path})"
        section = pipeline.sinks[name]
        columns, is_log = sink_columns(pipeline, section), section.what == "changes"
        found = cls(where, f"{pipeline.name}/{name}", lake_at(place.path), place.format, columns=columns, is_log=is_log)
        fault_point("sink.taken")
        return found

    def progress(self) -> Progress | None:
        with self._told():
            self._number = max(self._numbers(), default=-1)
            if self._number < 0:
                return None
            try:
                manifest = self._manifest(self._number)
                found, by = Progress.from_json(manifest["progress"]), manifest.get("sink", self.own)
            except (ValueError, TypeError, LookupError) as error:
                raise unreadable(self.where, f"another file, {self._place(self._number)}") from error
        if by != self.own:
            raise taken_by(self.where, by, f"{self.own.partition('/')[0]}.yaml")
        return found

    def deliver(self, delivery: Delivery) -> int:
        number = self._number + 1
        with self._told():
            rows, parts = self._write(delivery, number)
            fault_point("sink.written")
            manifest: JsonObject = {
                "number": number,
                "sink": self.own,
                "progress": delivery.now.to_json(),
                "is_snapshot": delivery.is_snapshot,  # readers begin anew: earlier files are no part of the rows
                "files": parts,
                "published_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            }
            self._publish(number, manifest, delivery)
            fault_point("sink.committed")
            self._number = number
            self._remove_lost(number)
        return rows

    def close(self) -> None:
        """Nothing is held."""

    def _write(self, delivery: Delivery, number: int) -> tuple[int, list[JsonObject]]:
        if (changes := delivery.changes) is None:
            return 0, []
        files_at(self.uri).make_folder(self.uri / _PARTS)
        files_at(self.uri).make_folder(self.uri / _MANIFESTS)
        keys, writes = tuple(column for column in self.columns if column.is_key), "append" if self.is_log else "upsert"
        parts: list[JsonObject] = []
        for operation, columns, batches in (
            (writes, self.columns, changes.rows(self._values(self.columns, writes))),
            ("delete", keys, changes.keys(self._values(keys, "delete"))),
        ):
            for rows in _joined(batches, _ROWS_MAX):
                name = f"{_PARTS}/{number:010}-{uuid.uuid4()}.{self.format}"
                files_at(self.uri).create(self.uri / name, self._content(rows, columns))
                parts.append({"path": name, "rows": rows.num_rows, "operation": operation})
        return sum(int(part["rows"]) for part in parts), parts

    def _values(self, columns: tuple[SinkColumn, ...], operation: str) -> list[str]:
        if self.format == "json":
            return [json_object(columns, {OPERATION: f'"{operation}"'})]
        values = [
            json_value(sql_name(c.name), c.type) if self.format == "csv" and nested(c.type) else sql_name(c.name)
            for c in columns
        ]
        return [*values, sql_text(operation)]

    def _content(self, rows: pa.Table, columns: tuple[SinkColumn, ...]) -> bytes:
        content = io.BytesIO()
        if self.format == "json":
            content.write("".join(f"{line}\n" for line in rows.column(0).to_pylist()).encode())
            return content.getvalue()
        named = rows.rename_columns([*(column.name for column in columns), OPERATION])
        if self.format == "csv":
            csv.write_csv(named, content)
        else:
            pq.write_table(named, content, compression="zstd", store_decimal_as_integer=True)
        return content.getvalue()

    def _publish(self, number: int, manifest: JsonObject, delivery: Delivery) -> None:
        files_at(self.uri).make_folder(self.uri / _MANIFESTS)
        try:
            if files_at(self.uri).publish(self._place(number), json.dumps(manifest).encode()):
                return
        except StoreUnclear as error:
            raise outcome_unknown(self.where, on_one_line(error)) from error
        raise overtaken(self.where, delivery.after, Progress.from_json(self._manifest(number)["progress"]))

    def _remove_lost(self, number: int) -> None:
        """Removes files of deliveries that have lost: of this number and of earlier ones, and in no manifest. A file of
        the next number may be of a delivery that is under way."""
        try:
            named = {part["path"] for of in (number - 1, number) if of >= 0 for part in self._manifest(of)["files"]}
        except (ValueError, TypeError, LookupError):  # somebody else has written one
            return
        for file in files_at(self.uri).list(self.uri / _PARTS):
            of = file.name.partition("-")[0]
            if of.isdigit() and number - 1 <= int(of) <= number and f"{_PARTS}/{file.name}" not in named:
                files_at(self.uri).remove(self.uri / _PARTS / file.name)

    def _numbers(self) -> Iterator[int]:
        for file in files_at(self.uri).list(self.uri / _MANIFESTS):
            if file.name.endswith(".json") and file.name.removesuffix(".json").isdigit():
                yield int(file.name.removesuffix(".json"))

    def _manifest(self, number: int) -> JsonObject:
        with files_at(self.uri).open(self._place(number)) as content:
            found: JsonObject = json.loads(content.read())
        return found

    def _place(self, number: int) -> LakeUri:
        return self.uri / _MANIFESTS / f"{number:010}.json"

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except LakemarkError:
            raise
        except (OSError, ValueError, pa.ArrowException) as error:
            raise unreachable(self.where, on_one_line(error)) from error


def verify_places(settings: Settings, pipeline: Pipeline) -> None:
    """Checks that no sink's files lie in the lake or among the pipeline files: VACUUM would remove them there, and
    readers of tables would find them. Raises TerminalError."""
    for name, sink in pipeline.sinks.items():
        if sink.files is None:
            continue
        place = f"{lake_at(sink.files.path).reached_by('.')}/"
        for what, other in {"the lake": str(settings.lake), "the pipeline files": str(settings.pipelines)}.items():
            if place.startswith(f"{other.rstrip('/')}/"):
                raise TerminalError(
                    what="the files of a sink would lie among others",
                    where=f"{pipeline.name}, sinks.{name}.files.path",
                    expected=f"a folder apart from {what}, {other}",
                    found=sink.files.path,
                    action="name another folder in the pipeline file",
                )


def _joined(batches: Iterable[pa.RecordBatch], rows_max: int) -> Iterator[pa.Table]:
    """The batches as tables of about so many rows."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= rows_max:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)
