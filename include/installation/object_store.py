"""The S3-compatible store of `lakemark up --lake s3`: a real server, s3proxy over a folder, on the loopback address.

It is for trials and tests. It checks signatures and conditions, and creates atomically; but it calls no fsync, so that
a loss of power may lose what it has acknowledged.
"""

from __future__ import annotations

import secrets
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path

from include.installation.jars import jar_paths
from include.installation.java import Java

BUCKET = "lakemark"
REGION = "us-east-1"
_LOGIN = "lakemark"
_HEAP = "-Xmx256m"


@dataclass(frozen=True)
class ObjectStore:
    java: Java
    jars: Path
    data: Path  # folder for the objects, the configuration and the login; survives restarts
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def login(self) -> Path:
        """The file with its login, as all libraries of AWS read it (`AWS_SHARED_CREDENTIALS_FILE`)."""
        return self.data / "credentials"

    @property
    def environment(self) -> dict[str, str]:
        """What brings every library of AWS here. It holds no secret."""
        return {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_SHARED_CREDENTIALS_FILE": str(self.login),
        }

    def command(self) -> list[str]:
        """The command that runs the server in the foreground. Call `prepare` first."""
        quiet = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlogback.configurationFile={self._logging}"]
        class_path = ":".join(map(str, jar_paths(self.jars, "s3")))
        server = ["org.gaul.s3proxy.Main", "--properties", str(self._properties)]
        return [str(self.java.binary), _HEAP, *quiet, "-cp", class_path, *server]

    def prepare(self, *buckets: str) -> None:
        """Writes the configuration, and makes the login once. Args: buckets: made beside `BUCKET`."""
        for bucket in (BUCKET, *buckets):
            (self._objects / bucket).mkdir(parents=True, exist_ok=True)
        properties = {
            "s3proxy.endpoint": self.url,
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": _LOGIN,
            "s3proxy.credential": self._secret(),
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(self._objects),
            "jclouds.identity": "unused",
            "jclouds.credential": "unused",
        }
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self._logging.write_text('<configuration><root level="OFF"/></configuration>')

    def _secret(self) -> str:
        login = ConfigParser(interpolation=None)
        login.read(self.login)
        if "default" not in login:
            login["default"] = {"aws_access_key_id": _LOGIN, "aws_secret_access_key": secrets.token_urlsafe(24)}
            with self.login.open("w") as file:
                login.write(file)
        return login["default"]["aws_secret_access_key"]

    @property
    def _objects(self) -> Path:
        return self.data / "objects"

    @property
    def _properties(self) -> Path:
        return self.data / "s3proxy.conf"

    @property
    def _logging(self) -> Path:
        return self.data / "logback.xml"
