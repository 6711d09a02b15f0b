"""Section `sinks`: systems outside the lake that get what a pipeline's batches commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from include.pipeline_file.section import FILE, NAME, SERVERS, TABLE, Section, only_address
from include.pipeline_file.source import ConnectionId, Security
from include.pipeline_file.variables import FromEnvironment, SecretVariable, Variable
from include.protocol.guarantees import Level

SINKS_MAX = 20
SYSTEMS = ("kafka", "postgresql", "mysql", "files", "python")
HOST = r"\[[0-9A-Fa-f:.%\w]+\]|[\w.\-]+"
# One or two plain names. Statements quote each. A limit of their length that a server has itself, it says.
SQL_TABLE = r"^[A-Za-z_][A-Za-z0-9_$]{0,62}(\.[A-Za-z_][A-Za-z0-9_$]{0,62})?$"

# As Kafka allows names (not `.` and `..`), shorter by what Lakemark adds.
TOPIC = r"^(\.{0,2}[A-Za-z0-9_\-]|\.{3})[A-Za-z0-9._\-]{0,197}$"

FOLDER = r"^(/[^\x00]{1,1000}|s3://[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9](/[A-Za-z0-9_.=\-]+)*)$"
PYTHON_FILE = r"^[a-z][a-z0-9_]{0,62}\.py$"
CLASS = r"^[A-Za-z_][A-Za-z0-9_]{0,62}$"

Mode = Literal["follow", "two_phase", "upsert"]
Begin = Literal["snapshot", "start", "now"]


class Database(Section):
    """A database server, who logs in there, and the table. The password is never in the file: the environment has it,
    or Airflow."""

    host: Variable | None = Field(default=None, description="The server's name or address.")
    port: Annotated[int, Field(ge=1, le=65_535), FromEnvironment()] | None = Field(
        default=None, description="Null: the system's usual one."
    )
    database: Variable | None = Field(default=None, description="The database that the table is in.")
    username: Variable | None = Field(default=None, description="Who logs in.")
    password: SecretVariable | None = Field(default=None, description="`${NAME}`, an environment variable.")
    connection: ConnectionId | None = Field(
        default=None, description="Instead of these five: an Airflow connection, with the database as its schema."
    )
    ca_file: Variable | None = Field(
        default=None, description="PEM file with the certificates to trust; null: no TLS is asked for."
    )
    table: str = Field(pattern=SQL_TABLE, description="TABLE, or SCHEMA.TABLE.")

    _plain = field_validator("host")(only_address(HOST, "a host's name or address"))
    _local = field_validator("ca_file")(only_address(FILE, "the path of a file"))

    @property
    def in_words(self) -> str:
        return self.table

    @model_validator(mode="after")
    def _says_where(self) -> Database:
        if (self.host is None) == (self.connection is None):
            raise PydanticCustomError("database", "either `host` (with database and username) or `connection`")
        if self.host is not None and (self.database is None or self.username is None):
            raise PydanticCustomError("database", "`database` and `username`, beside `host`")
        return self


class MysqlDatabase(Database):
    """A database of MySQL or MariaDB."""

    binary_log: Literal["accepted"] | None = Field(
        default=None,
        description="accepted: with `mode: two_phase`, whoever reads the server's binary log may see rows that are "
        "rolled back later.",
    )


class Topic(Section):
    """A topic of Kafka. Each delivery is one transaction: readers must be read_committed."""

    bootstrap_servers: Variable | None = Field(
        default=None, description="host:port of the brokers; null: those of the source, with its login."
    )
    security: Security | None = Field(default=None, description="How to log in there; null for plain listeners.")
    topic: str = Field(pattern=TOPIC, description="The topic's name.")
    key: Literal["json", "string"] | None = Field(
        default=None,
        description="How a record's key says the key columns. json: fields with these names; string: the only one as "
        "text; null: string for a single column that is text, else json.",
    )
    transaction_seconds: int = Field(
        default=300,
        ge=10,
        le=900,
        description="After so long the broker aborts the transaction of a delivery that died; none may take longer.",
    )

    _plain = field_validator("bootstrap_servers")(only_address(SERVERS, "HOST:PORT, comma separated"))

    @property
    def in_words(self) -> str:
        return self.topic


class Folder(Section):
    """A folder that gets files. A reader takes those that its manifests name, in order (docs/sinks.md)."""

    path: str = Field(
        pattern=FOLDER, description="An absolute path, or s3://BUCKET/PREFIX in the store that the lake is in."
    )
    format: Literal["csv", "json", "parquet"] = Field(default="parquet", description="json: one object per line.")

    @property
    def in_words(self) -> str:
        return f"{self.path} ({self.format})"


class UserClass(Section):
    """A class of the user's own (docs/sinks.md, "A sink of your own")."""

    file: str = Field(pattern=PYTHON_FILE, description="In include/sinks/: NAME.py")
    class_: str = Field(alias="class", pattern=CLASS, description="The class in that file.")
    options: Mapping[str, str | int | float | bool | None] = Field(
        default={}, max_length=100, description="What the class gets; not for secrets."
    )

    @property
    def in_words(self) -> str:
        return f"{self.file}, {self.class_}"


Place = Database | Topic | Folder | UserClass


class Sink(Section):
    """A system that gets what lands in the target, each commit in one transaction of its own (docs/sinks.md)."""

    kafka: Topic | None = Field(default=None, description="A topic of Kafka.")
    postgresql: Database | None = Field(default=None, description="A table of PostgreSQL.")
    mysql: MysqlDatabase | None = Field(default=None, description="A table of MySQL or MariaDB.")
    files: Folder | None = Field(default=None, description="Files in a folder or an object store.")
    python: UserClass | None = Field(default=None, description="A class of your own.")
    what: Literal["rows", "changes", "route"] = Field(
        default="rows",
        description="rows: the target's rows, as they become. changes: each accepted change to the target, in order, "
        "also those that a later one of the same batch replaces; the sink only adds them. route: the rows of a route's "
        "table.",
    )
    route: str | None = Field(default=None, pattern=TABLE, description="With `what: route`: its table, lake://...")
    columns: Mapping[str, str] = Field(
        default={},
        max_length=2_000,
        description="{COLUMN AT THE SINK: COLUMN OF THE TARGET}; empty: all of them, under their own names.",
    )
    types: Mapping[str, str] = Field(
        default={}, max_length=2_000, description="{COLUMN AT THE SINK: its type there}, where the usual does not fit."
    )
    deletes: Literal["delete", "tombstone", "flag"] | None = Field(
        default=None,
        description="What a delete does. delete: the row goes (databases). tombstone: a record without a value "
        "(kafka). flag: the row stays, or a record comes, and `lakemark_deleted` says so. Null: the first of these.",
    )
    guarantee: Level = Field(
        default="exactly_once",
        description="How often each commit takes effect: with its progress in one transaction, before it, or after it.",
    )
    mode: Mode = Field(
        default="follow",
        description="follow: the sink gets what has landed, commit by commit, and no batch waits for it. two_phase: "
        "its transaction is prepared before the target's commit and committed after it, so both move together; a sink "
        "that is away stops the pipeline. upsert: as follow, for tables without transactions: rows by key, then the "
        "progress, so that a repeat changes nothing.",
    )
    stale_after_minutes: float | None = Field(
        default=None,
        gt=0,
        description="When a commit waits longer than this for the sink, an alert is sent; null: none before its task "
        "has failed for good.",
    )
    begin: Begin = Field(
        default="snapshot",
        description="What a sink that has nothing yet gets first. snapshot: the table as it is; start: all commits; "
        "now: nothing, only what comes. With `what: changes` start is the default, and there is no snapshot.",
    )

    @field_validator("columns", "types")
    @classmethod
    def _columns_are_named(cls, named: Mapping[str, str]) -> Mapping[str, str]:
        for name in named:
            if not name or len(name) > 63 or "\x00" in name:
                raise PydanticCustomError("columns", "names of columns, of 1 to 63 characters")
        return named

    @model_validator(mode="after")
    def _one_system(self) -> Sink:
        named = [name for name in SYSTEMS if getattr(self, name) is not None]
        if len(named) != 1:
            found = {"found": " and ".join(named) or "none", "allowed": f"exactly one of {', '.join(SYSTEMS)}"}
            raise PydanticCustomError("system", "{allowed}", found)
        return self

    @property
    def system(self) -> str:
        """The kind of system it is."""
        return next(name for name in SYSTEMS if getattr(self, name) is not None)

    @property
    def place(self) -> Place:
        """Where it is."""
        found: Place = getattr(self, self.system)
        return found

    @property
    def database(self) -> Database:
        """Where it is, of a sink in a database."""
        assert isinstance(self.place, Database), "the caller knows its system"
        return self.place

    @property
    def topic(self) -> Topic:
        """Where it is, of a sink in Kafka."""
        assert self.kafka is not None, "the caller knows its system"
        return self.kafka

    @property
    def begins(self) -> Begin:
        """What it gets first."""
        return "start" if self.what == "changes" and self.begin == "snapshot" else self.begin

    @property
    def level(self) -> Level:
        """What it guarantees."""
        return "at_least_once" if self.mode == "upsert" else self.guarantee

    @property
    def flags_deletes(self) -> bool:
        """Whether a delete leaves a row, or a record with a value."""
        return self.deletes == "flag"


SinkName = Annotated[str, Field(pattern=NAME)]
Sinks = Mapping[SinkName, Sink]
