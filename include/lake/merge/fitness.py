"""Which tables this code may write. What is not known to be safe goes by Spark."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from include.lake.merge.snapshot import Snapshot
from include.lake.merge.unfit import UnfitError
from include.protocol.json_data import JsonMapping

_FEATURES = {
    *("appendOnly", "invariants", "deletionVectors", "clustering", "domainMetadata", "timestampNtz"),
    *("vacuumProtocolCheck", "variantType"),  # deltalake names the latter for every table
}
_WRITER_VERSIONS = {2, 7}  # "appendOnly" and "invariants" alone; what the list of features says
_SWITCHES = {  # properties that demand more of every commit
    "delta.enableChangeDataFeed": "a change data feed",
    "delta.enableRowTracking": "row tracking",
    "delta.enableInCommitTimestamps": "in-commit timestamps",
}


def verify_fit(table: Snapshot, only_appends: bool = False) -> None:
    """Raises UnfitError: it says what the table has. Args: only_appends: no row that it has is to be replaced."""
    features = set(table.protocol.get("writerFeatures") or ())
    properties = table.metadata.get("configuration") or {}
    if not only_appends:
        _verify_may_replace(features, properties)
    if table.protocol.get("minWriterVersion") not in _WRITER_VERSIONS:
        raise UnfitError(f"the writer version {table.protocol.get('minWriterVersion')}")
    if unknown := sorted(features - _FEATURES):
        raise UnfitError(f"the table feature{'s' if len(unknown) > 1 else ''} {', '.join(unknown)}")
    for name, words in _SWITCHES.items():
        if _is_on(properties, name):
            raise UnfitError(words)
    if properties.get("delta.columnMapping.mode", "none").lower() != "none":
        raise UnfitError("column mapping")
    if any(name.startswith("delta.constraints.") for name in properties):
        raise UnfitError("a CHECK constraint")
    if table.metadata.get("partitionColumns"):
        raise UnfitError("partitions")
    for column in json.loads(table.metadata["schemaString"])["fields"]:
        if column["name"].lower() == "file_row_number":
            raise UnfitError(f"the column {column['name']}, whose name DuckDB needs")
        if column["metadata"].keys() - {"comment"}:
            raise UnfitError(f"the column {column['name']}, which the table computes, or checks, or fills")
        type_ = json.dumps(column["type"])
        if '"variant"' in type_:
            raise UnfitError(f"the column {column['name']}, which is a variant")
        if '"void"' in type_:
            raise UnfitError(f"the column {column['name']}, which has no type")
    for path, _ in table.files:
        if path.startswith("/") or urlsplit(path).scheme:
            raise UnfitError("files under absolute paths")


def verify_may_remove(table: Snapshot) -> None:
    """Raises UnfitError: rows may only be added to the table."""
    _verify_not_append_only(table.metadata.get("configuration") or {})


def _is_on(properties: JsonMapping, name: str) -> bool:
    """Whether a switch is on. Delta takes the word in any case."""
    return str(properties.get(name, "false")).lower() == "true"


def _verify_may_replace(features: set[str], properties: JsonMapping) -> None:
    if "deletionVectors" not in features:
        raise UnfitError("no deletion vectors")
    if not _is_on(properties, "delta.enableDeletionVectors"):
        raise UnfitError("deletion vectors that are switched off")
    _verify_not_append_only(properties)


def _verify_not_append_only(properties: JsonMapping) -> None:
    if _is_on(properties, "delta.appendOnly"):
        raise UnfitError("the property delta.appendOnly")
