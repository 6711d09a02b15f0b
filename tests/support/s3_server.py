"""A real S3-compatible server, that of `lakemark up --lake s3`, in a folder and at a port of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import requests

from include.installation.java import find_java
from include.installation.object_store import REGION, ObjectStore
from include.installation.stack import free_port
from include.settings import Settings
from tests.support.waiting import wait_until


@dataclass(frozen=True)
class S3Server:
    url: str
    identity: str
    secret: str
    objects: Path  # the folder in which it keeps them

    @property
    def environment(self) -> dict[str, str]:
        """What makes boto3 come here."""
        return {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_ACCESS_KEY_ID": self.identity,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_DEFAULT_REGION": REGION,
        }

    def bucket(self, name: str) -> Any:
        s3 = boto3.resource(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=self.identity,
            aws_secret_access_key=self.secret,
            region_name=REGION,
        )
        return s3.create_bucket(Bucket=name)


@contextmanager
def s3_server(settings: Settings, folder: Path) -> Iterator[S3Server]:
    store = ObjectStore(find_java(settings.java, settings.home / "java"), settings.jars, folder, free_port(18099))
    store.prepare()
    login = ConfigParser()
    login.read(store.login)
    server = S3Server(store.url, *login["default"].values(), folder / "objects")
    process = subprocess.Popen(store.command(), cwd=folder)

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
