"""Says what a pipeline file makes of a table as it was: whether its rows can be gone on with."""

from __future__ import annotations

from typing import Literal, NamedTuple

from include.participants.participant import Participant
from include.pipeline_file import IS_CURRENT, LINEAGE, VALID_FROM, VALID_TO
from include.pipeline_file.schema_change import KEYS, ORDER, columns_to_add, types_in, verify_keys, verify_order
from include.pipeline_file.table_spec import TableSpec
from include.protocol.errors import SchemaChanged
from include.protocol.json_data import JsonMapping, JsonObject

# keep: it is as the file declares it. migrate: the next batch adds columns. rebuild: it begins without rows.
# leave: the file no longer names it, and it stays as it is. impossible: rows of such a table cannot be gone on with.
Kind = Literal["keep", "migrate", "rebuild", "leave", "impossible"]
_OF_HISTORY = {VALID_FROM, VALID_TO, IS_CURRENT}


class Verdict(NamedTuple):
    """What becomes of one table."""

    table: str  # the participant's name
    kind: Kind
    because: str

    def __str__(self) -> str:
        return f"{self.table}: {self.kind}: {self.because}"

    def to_json(self) -> JsonObject:
        return self._asdict()


def verdict(participant: Participant, metadata: JsonMapping | None, is_known: bool = True) -> Verdict:
    """What a pipeline file makes of a table.

    Args:
        participant: as the file declares it. metadata: Delta's, of the table as it was; None: no batch had written it
            yet. is_known: whether the pipeline had such a table.
    """
    name, spec = participant.name, participant.spec
    if not is_known:
        return Verdict(name, "rebuild", "there was no such table: it begins without rows, and gets those from there on")
    if metadata is None:
        return Verdict(name, "keep", "no batch had written it yet")
    if not isinstance(spec, TableSpec):
        return Verdict(name, "keep", "records are only added to it")
    try:
        return _of_columns(name, spec, metadata)
    except SchemaChanged as error:
        return Verdict(name, "impossible", f"{error.where}: {error.expected}; {error.found}")


def _of_columns(name: str, spec: TableSpec, metadata: JsonMapping) -> Verdict:
    """Raises SchemaChanged: they do not fit together."""
    told, found = metadata.get("configuration") or {}, types_in(metadata["schemaString"])
    was_history, is_history = VALID_FROM in found, spec.kind == "scd2"
    if was_history != is_history:
        held, wants = ("history", "one row per key") if was_history else ("one row per key", "history")
        return Verdict(name, "impossible", f"it held {held}, and the file wants {wants}")
    verify_keys(spec.anew, spec.name, spec.keys, told.get(KEYS))
    verify_order(spec.anew, spec.name, [field.name for field in spec.order], told.get(ORDER))
    own = {LINEAGE, *(_OF_HISTORY if was_history else ())}
    plain = {column: type_ for column, type_ in found.items() if column not in own}
    added = columns_to_add(spec.anew, spec.name, spec.columns, found=plain, policy=spec.on_schema_change)
    if added:
        columns = ", ".join(map(str, added))
        return Verdict(name, "migrate", f"the next batch adds {columns}; rows that are there have nothing in it")
    return Verdict(name, "keep", "it is as the file declares it")
