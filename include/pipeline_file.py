"""The pipeline file: one YAML file per pipeline, checked in full before anything runs.

`Pipeline.model_json_schema()` is the schema for editors. What later versions will understand (other formats,
histories ...) is refused by name here, never ignored.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import yaml
from croniter import croniter
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from include.debezium import POSITIONS
from include.protocol.errors import PipelineFileError
from include.schedule import ALLOWED, TABLE, Schedule
from include.schema_ddl import Column, SchemaError, parse_ddl, type_at

NAME = r"^[a-z][a-z0-9_]{0,62}$"
KAFKA_TIMESTAMP = "kafka.timestamp"
LINEAGE = "_lakemark"  # the struct column that Lakemark adds to every row


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


_METADATA = {
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "key": "STRING",
    "headers": "ARRAY<STRUCT<key: STRING, value: STRING>>",  # in Kafka's order; a name may come more than once
}


def _metadata_type(of: str) -> str | None:
    """Of one of Kafka's own fields, or of the last header of a name; None if it is neither."""
    return "STRING" if re.fullmatch(r"headers\..+", of) else _METADATA.get(of)


class Limits(_Section):
    records_per_batch_max: int = Field(
        default=500_000, ge=1, description="The most offsets that one batch spans, over all partitions."
    )


class Security(_Section):
    """How to log in at the brokers. The password is never written into the file: it comes from the environment."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(description="As Kafka names it.")
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(default=None, description="Of SASL.")
    username: str | None = Field(default=None, description="Of SASL.")
    password: SecretStr | None = Field(default=None, description="Of SASL: `${NAME}`, a variable of the environment.")
    ca_file: str | None = Field(default=None, description="PEM file with the certificates to trust.")

    @model_validator(mode="after")
    def _sasl_is_complete(self) -> Security:
        sasl = {"mechanism": self.mechanism, "username": self.username, "password": self.password}
        missing = [name for name, value in sasl.items() if value is None]
        if self.protocol.startswith("SASL") and missing:
            context = {"field": f"source.security.{missing[0]}", "allowed": "a value, for SASL", "found": "nothing"}
            raise PydanticCustomError("column", "{allowed}", context)
        return self


class Debezium(_Section):
    """What the numbers of an envelope mean whose records bring no schema along. With a schema, the schema says it."""

    timestamps: Literal["millis", "micros", "nanos"] = Field(
        default="micros", description="Since 1970; PostgreSQL's default is micros, MySQL's DATETIME(0) has millis."
    )
    decimals: Literal["precise", "string"] = Field(
        default="precise", description="The connector's decimal.handling.mode; `string` reads `double`, too."
    )


class Source(_Section):
    bootstrap_servers: str = Field(min_length=1, description="host:port of the brokers, comma separated.")
    security: Security | None = Field(default=None, description="How to log in; null for plain listeners.")
    topics: tuple[str, ...] = Field(min_length=1, description="Topics that are read as one source.")
    format: Literal["json", "debezium-json"] = Field(default="json", description="How a record's value is encoded.")
    debezium: Debezium = Field(default=Debezium(), description="Of format debezium-json.")
    key: Literal["json", "string"] | None = Field(
        default=None,
        description="How a record's key is encoded, for key columns that its value lacks: json, fields of these names; "
        "string, the only key column; null: keys are in the value.",
    )
    metadata: Mapping[str, str] = Field(
        default={},
        description="More columns, of Kafka's own: {COLUMN: topic | partition | offset | timestamp | key | "
        "headers | headers.NAME}.",
    )
    schema_: str = Field(
        alias="schema", description="Columns of the value as Spark DDL: `id BIGINT, name STRING, at TIMESTAMP`."
    )
    start: Literal["earliest", "latest"] = Field(default="earliest", description="Where the first batch of all begins.")
    filter: str | None = Field(
        default=None, description="SQL condition on the columns; records for which it is not true are left out."
    )
    limits: Limits = Limits()

    @field_validator("topics")
    @classmethod
    def _topics_differ(cls, topics: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(topics)) != len(topics):
            raise PydanticCustomError("topics", "every topic once")
        return topics

    @field_validator("schema_")
    @classmethod
    def _schema_parses(cls, ddl: str) -> str:
        try:
            columns = parse_ddl(ddl)
        except SchemaError as error:
            raise PydanticCustomError("schema", "{problem}", {"problem": str(error)}) from error
        if any(column.name.lower().startswith(LINEAGE) for column in columns):
            raise PydanticCustomError("schema", f"columns of other names than {LINEAGE}..., which are Lakemark's own")
        return ddl

    @field_validator("metadata")
    @classmethod
    def _metadata_is_kafkas(cls, metadata: Mapping[str, str]) -> Mapping[str, str]:
        for name, of in metadata.items():
            if _metadata_type(of) is None:
                allowed = ", ".join((*_METADATA, "headers.NAME"))
                context = {"field": f"source.metadata.{name}", "allowed": f"one of {allowed}", "found": of}
                raise PydanticCustomError("column", "{allowed}", context)
        return metadata

    @model_validator(mode="after")
    def _names_are_free(self) -> Source:
        taken = {column.name.lower() for column in self.value_columns}
        for name in self.metadata:
            if name.lower() in taken or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
                allowed = "a name of letters, digits and _ that source.schema has not"
                context = {"field": "source.metadata", "allowed": allowed, "found": name}
                raise PydanticCustomError("column", "{allowed}", context)
        return self

    @property
    def wants_headers(self) -> bool:
        return any(of.split(".")[0] == "headers" for of in self.metadata.values())

    @property
    def value_columns(self) -> tuple[Column, ...]:
        """Those that a record's value (or its key) holds."""
        return parse_ddl(self.schema_)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Of the target: the value's, and Kafka's own that were asked for."""
        return (*self.value_columns, *(Column(n, _metadata_type(of) or "") for n, of in self.metadata.items()))


class Change(_Section):
    keys: tuple[str, ...] = Field(min_length=1, description="Columns that identify a row.")
    order_by: tuple[str, ...] = Field(
        default=(),
        description="What orders the changes of a key, oldest first: columns, fields of structs (`meta.lsn`), "
        "kafka.timestamp, and positions of Debezium (`source.lsn`, `source.file`, `source.pos`, `source.row`, "
        "`source.ts_ms`, `ts_ms`); ties go by topic, partition and offset, which decide alone when this is empty.",
    )
    delete_when: str | None = Field(
        default=None, description="SQL condition on the columns; a change for which it is true deletes its key."
    )
    tombstones: Literal["quarantine", "ignore", "delete"] | None = Field(
        default=None,
        description="Of records without a value: delete their key's row, leave them out, or set them aside. Unless "
        "set, Debezium's are left out (the delete came before them), all others are set aside.",
    )
    truncates: Literal["fail", "ignore"] = Field(
        default="fail", description="Debezium's truncate events: nothing lands and a person decides, or left out."
    )
    on_schema_change: Literal["add_columns", "fail"] = Field(
        default="add_columns", description="When the file declares columns that the table lacks."
    )
    history: Literal["scd1"] = Field(default="scd1", description="scd1: one row per key, the newest change.")


class Target(_Section):
    table: str = Field(pattern=TABLE, description="lake://layer/table")
    cluster_by: tuple[str, ...] = Field(
        default=(), max_length=4, description="Columns of liquid clustering (Delta allows at most 4)."
    )

    @field_validator("table")
    @classmethod
    def _no_climbing(cls, table: str) -> str:
        parts = table.removeprefix("lake://").split("/")
        if {"", ".", ".."} & set(parts) or parts[0] == "_lakemark":
            raise PydanticCustomError("table", "a table inside the lake and outside lake://_lakemark/")
        return table


class TableChecks(_Section):
    """Rules about the target itself, at one version of it."""

    suite: str = Field(pattern=NAME, description="include/expectations/NAME.json")
    schedule: str | None = Field(default=None, description="Cron; null: only by hand.")

    @field_validator("schedule")
    @classmethod
    def _is_cron(cls, text: str | None) -> str | None:
        if text is not None and not croniter.is_valid(text):
            raise PydanticCustomError("cron", "a cron expression like `0 6 * * *`, or null")
        return text


class Quality(_Section):
    """What is demanded of a batch before it lands (docs/quality.md)."""

    suite: str | None = Field(
        default=None, pattern=NAME, description="Rules: include/expectations/NAME.json, of Great Expectations."
    )
    on_fail: Literal["quarantine", "fail", "warn"] = Field(
        default="quarantine", description="What follows from a rule that does not say it itself."
    )
    quarantine_max_percent: float | None = Field(
        default=None, ge=0, le=100, description="The batch fails if more of its records would be quarantined."
    )
    quarantine_max_records: int | None = Field(default=None, ge=0, description="The same as a number.")
    table: TableChecks | None = Field(default=None, description="Checks of the target itself, on a schedule.")


class Upkeep(_Section):
    """When maintenance does what. It runs by itself every night (docs/airflow.md)."""

    small_files_max: int = Field(
        default=20, ge=1, description="Files are rewritten into larger ones when more than so many are below 32 MB."
    )
    vacuum_after_hours: float = Field(
        default=168.0, ge=168, description="Files that no version newer than this needs are removed."
    )
    purge_tombstones_after_days: float | None = Field(
        default=None,
        gt=0,
        description="Tombstones of deletes that were committed so long ago are removed; null: none is. An older change "
        "of such a key that comes later makes its row again.",
    )
    keep_judgements_days: float | None = Field(
        default=365, gt=0, description="What suites said so long ago is removed; null: it is kept for ever."
    )


class OrderField(NamedTuple):
    """A part of the change order."""

    name: str  # as the pipeline file has it; also the field of `_lakemark.change_order`
    type: str  # Spark DDL
    of: Literal["value", "kafka", "position"]


class Pipeline(_Section):
    name: str = Field(pattern=NAME, description="The same as the file's name without .yaml.")
    description: str = Field(default="", description="For people; shown in Airflow.")
    schedule: Schedule = Field(default=None, description=ALLOWED)
    stale_after_minutes: float | None = Field(
        default=None,
        gt=0,
        description="The table is stale, and an alert is sent, when a record waits longer than this.",
    )
    source: Source
    change: Change
    target: Target
    quality: Quality = Quality()
    maintenance: Upkeep = Upkeep()

    @field_validator("name")
    @classmethod
    def _leaves_dag_names_alone(cls, name: str) -> str:
        if "__" in name:
            raise PydanticCustomError("name", "a name without two underscores in a row: `__` parts the names of DAGs")
        return name

    @model_validator(mode="after")
    def _columns_exist(self) -> Pipeline:
        columns = [column.name for column in self.source.columns]
        named = {
            "change.keys": self.change.keys,
            "target.cluster_by": self.target.cluster_by,
        }
        for field, names in named.items():
            for name in names:
                if name not in columns:
                    context = {"field": field, "allowed": f"a column of source.schema: {', '.join(columns)}"}
                    raise PydanticCustomError("column", "{allowed}", {**context, "found": name})
            _refuse_doubles(field, names)
        return self

    @model_validator(mode="after")
    def _order_exists(self) -> Pipeline:
        for name in self.change.order_by:
            if self._order_field(name) is None:
                positions = [KAFKA_TIMESTAMP, *(POSITIONS if self.source.format == "debezium-json" else ())]
                known = ", ".join((*(column.name for column in self.source.columns), *positions))
                context = {"field": "change.order_by", "allowed": f"a column of source.schema or a position: {known}"}
                raise PydanticCustomError("column", "{allowed}", {**context, "found": name})
        _refuse_doubles("change.order_by", self.change.order_by)
        return self

    @model_validator(mode="after")
    def _tombstones_have_key_and_order(self) -> Pipeline:
        """A tombstone has a key and Kafka's own fields, and nothing else."""
        problem = None
        if self.source.key == "string" and len(self.change.keys) != 1:
            problem = (
                "source.key",
                "json: a key that is a string gives one column",
                f"{len(self.change.keys)} key columns",
            )
        elif self.tombstones == "delete" and self.source.key is None:
            problem = "change.tombstones", "source.key: a tombstone's key is in Kafka's key only", "no source.key"
        elif self.tombstones == "delete" and set(self.change.order_by) - {KAFKA_TIMESTAMP}:
            allowed = (
                f"quarantine | ignore; or order_by: [{KAFKA_TIMESTAMP}] or none: a tombstone has no columns to order by"
            )
            problem = "change.tombstones", allowed, f"order_by: {', '.join(self.change.order_by)}"
        if problem is not None:
            raise PydanticCustomError(
                "column", "{allowed}", dict(zip(("field", "allowed", "found"), problem, strict=True))
            )
        return self

    @property
    def tombstones(self) -> Literal["quarantine", "ignore", "delete"]:
        """What becomes of records without a value."""
        return self.change.tombstones or ("ignore" if self.source.format == "debezium-json" else "quarantine")

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is allowed, and may not be what was meant."""
        if self.change.order_by:
            return ()
        return (
            "change.order_by is empty: offsets alone order the changes of a key. When a topic gets more partitions, "
            "keys move to others, whose offsets do not compare: an older change may then win. Name a column or "
            f"position that orders changes (or {KAFKA_TIMESTAMP}), unless partitions are never added",
        )

    @property
    def has_deletes(self) -> bool:
        """Whether rows may be hidden: readers then leave out `_lakemark.deleted`."""
        return bool(self.change.delete_when) or self.source.format == "debezium-json" or self.tombstones == "delete"

    @property
    def order(self) -> tuple[OrderField, ...]:
        """What orders changes before topic, partition and offset do."""
        return tuple(field for name in self.change.order_by if (field := self._order_field(name)))

    def _order_field(self, name: str) -> OrderField | None:
        if (type_ := type_at(self.source.columns, name)) is not None:
            return OrderField(name, type_, "value")
        if name == KAFKA_TIMESTAMP:
            return OrderField(name, "TIMESTAMP", "kafka")
        if self.source.format == "debezium-json" and name in POSITIONS:
            return OrderField(name, POSITIONS[name], "position")
        return None


def _refuse_doubles(field: str, names: tuple[str, ...]) -> None:
    if len(set(names)) != len(names):
        context = {"field": field, "allowed": "every column once", "found": ", ".join(names)}
        raise PydanticCustomError("column", "{allowed}", context)


def load_pipeline(path: Path, environment: Mapping[str, str]) -> Pipeline:
    """Reads and checks one pipeline file.

    `${NAME}` in any string is replaced from `environment`; `${NAME:-default}` has a default, as in a shell.

    Raises:
        PipelineFileError: names file, field, what is allowed there and what was found; every problem of the file.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise _invalid(path, [("file", "a readable text file", str(error))]) from error
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise _invalid(path, [("file", "valid YAML", " ".join(str(error).split()))]) from error
    if not isinstance(data, dict):
        raise _invalid(path, [("file", "a mapping with name, source, change, target", type(data).__name__)])
    problems: list[tuple[str, str, str]] = _written_secrets(data)
    data = _interpolated(data, environment, "", problems)
    try:
        pipeline = Pipeline.model_validate(data)
    except ValidationError as error:
        problems += [_problem(details) for details in error.errors()]
        raise _invalid(path, problems) from error
    if pipeline.name != path.stem:
        problems.append(("name", f"{path.stem}, as the file is called {path.name}", pipeline.name))
    if problems:
        raise _invalid(path, problems)
    return pipeline


def pipeline_files(folder: Path, name: str = "*") -> list[Path]:
    return sorted(folder.glob(f"{name}.yaml"))


def load_pipelines(
    folder: Path, environment: Mapping[str, str], name: str = "*"
) -> tuple[list[Pipeline], list[PipelineFileError]]:
    """Every file of the folder, or the one of that name: the valid pipelines, and what is wrong with the others."""
    pipelines, errors = [], []
    for path in pipeline_files(folder, name):
        try:
            pipelines.append(load_pipeline(path, environment))
        except PipelineFileError as error:
            errors.append(error)
    return pipelines, errors


def find_pipeline(name: str, folder: Path, environment: Mapping[str, str]) -> Pipeline:
    """The pipeline of that name; raises PipelineFileError, with the nearest names if there is none."""
    path = folder / f"{name}.yaml"
    if not re.fullmatch(NAME, name) or not path.exists():
        names = [file.stem for file in pipeline_files(folder)]
        near = difflib.get_close_matches(name, names) or names
        raise _invalid(path, [("file", f"one of the pipelines in {folder}: {', '.join(near) or 'none yet'}", name)])
    return load_pipeline(path, environment)


def variables_of(path: Path) -> set[str]:
    """The variables of the environment that a pipeline's file names."""
    return {match[1] for match in _VARIABLE.finditer(path.read_text())}


def _written_secrets(data: dict[str, Any]) -> list[tuple[str, str, str]]:
    """A password that stands in the file itself, where version control would keep it."""
    source = data.get("source")
    security = source.get("security") if isinstance(source, dict) else None
    password = security.get("password") if isinstance(security, dict) else None
    if password is None or (isinstance(password, str) and re.fullmatch(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}", password)):
        return []
    return [("source.security.password", "${NAME}, a variable of the environment", _NOT_SHOWN)]


_NOT_SHOWN = "something else, which is not shown"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def _interpolated(value: Any, environment: Mapping[str, str], at: str, problems: list[tuple[str, str, str]]) -> Any:
    def replacement(match: re.Match[str]) -> str:
        name, default = match.groups()
        found = environment.get(name, default)
        if found is None:
            problems.append((at, f"the environment variable {name} set, or a default: ${{{name}:-...}}", "not set"))
            return match.group()
        return found

    match value:
        case str():
            return _VARIABLE.sub(replacement, value)
        case dict():
            return {key: _interpolated(v, environment, f"{at}.{key}".lstrip("."), problems) for key, v in value.items()}
        case list():
            return [_interpolated(v, environment, f"{at}.{n}", problems) for n, v in enumerate(value)]
        case _:
            return value


def _problem(details: Any) -> tuple[str, str, str]:
    """(field, allowed, found) of one of pydantic's findings."""
    context = details.get("ctx", {})
    field = context.get("field") or ".".join(map(str, details["loc"])) or "file"
    found = context.get("found", details["input"])
    match details["type"]:
        case "extra_forbidden":
            known = _fields_at(details["loc"][:-1])
            near = difflib.get_close_matches(str(details["loc"][-1]), known, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            return field, f"one of {', '.join(known)}{hint}", "an unknown field"
        case "missing":
            return field, "a value; the field is required", "nothing"
        case "literal_error":
            return field, str(context["expected"]), repr(found)
        case "string_pattern_mismatch":
            return field, f"text that matches {context['pattern']}", repr(found)
        case _:
            allowed = details["msg"].removeprefix("Input should be ")
            secret = isinstance(found, dict) or field.endswith("password")
            return field, allowed, _NOT_SHOWN if secret else repr(found)


def _fields_at(location: tuple[Any, ...]) -> list[str]:
    model: Any = Pipeline
    for part in location:
        info = next(f for n, f in model.model_fields.items() if (f.alias or n) == part)
        model = next((t for t in get_args(info.annotation) if t is not type(None)), info.annotation)
    return [field.alias or name for name, field in model.model_fields.items()]


def _invalid(path: Path, problems: list[tuple[str, str, str]]) -> PipelineFileError:
    first_field, first_allowed, first_found = problems[0]
    more = "".join(f"; also {field}: allowed {allowed}, found {found}" for field, allowed, found in problems[1:])
    return PipelineFileError(
        what="the pipeline file is not valid",
        where=f"{path}, field {first_field}",
        expected=first_allowed,
        found=first_found + more,
        action=f"mend the file and check it with `lakemark validate {path.stem}`",
    )
