"""A real S3-compatible server, s3proxy over a folder, which checks every signature."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import requests

from include.installation.jars import jar_paths
from include.installation.java import find_java
from include.installation.stack import free_port
from include.settings import Settings
from tests.support.waiting import wait_until

IDENTITY, SECRET = "lakemark", "a-secret-of-tests"


@dataclass(frozen=True)
class S3Server:
    url: str

    @property
    def environment(self) -> dict[str, str]:
        """What makes boto3 come here."""
        return {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_ACCESS_KEY_ID": IDENTITY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def bucket(self, name: str) -> Any:
        s3 = boto3.resource(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=IDENTITY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )
        return s3.create_bucket(Bucket=name)


@contextmanager
def s3_server(settings: Settings, folder: Path) -> Iterator[S3Server]:
    folder.mkdir()
    (folder / "store").mkdir()
    port = free_port(18099)
    server = S3Server(f"http://127.0.0.1:{port}")
    properties = {
        "s3proxy.endpoint": server.url,
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.identity": IDENTITY,
        "s3proxy.credential": SECRET,
        "jclouds.provider": "filesystem-nio2",
        "jclouds.filesystem.basedir": str(folder / "store"),
        "jclouds.identity": "unused",
        "jclouds.credential": "unused",
    }
    (folder / "s3proxy.conf").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    (folder / "logback.xml").write_text('<configuration><root level="OFF"/></configuration>')
    java = find_java(settings.java, settings.home / "java")
    command = [
        str(java.binary),
        "-Xmx128m",
        "-XX:TieredStopAtLevel=1",
        f"-Dlogback.configurationFile={folder}/logback.xml",
    ]
    command += ["-cp", ":".join(map(str, jar_paths(settings.jars, "s3"))), "org.gaul.s3proxy.Main"]
    process = subprocess.Popen([*command, "--properties", str(folder / "s3proxy.conf")], cwd=folder)

    def answers() -> bool:
        assert process.poll() is None, "s3proxy has ended"
        try:
            return requests.get(server.url, timeout=5).status_code < 500
        except requests.RequestException:
            return False

    try:
        wait_until(answers)
        yield server
    finally:
        process.kill()
        process.wait()
