"""The class that makes Spark's commits, in a JVM that stands still in the middle of one."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from include.installation.jars import jar_paths, pyspark_home
from include.installation.java import find_java
from include.installation.spark_classes import spark_classes
from include.lake.posix.log_store import PosixLogStore
from include.lake.uri import LakeUri
from include.settings import Settings
from tests.conftest import settings_in
from tests.support.jvm_faults import java_agent
from tests.support.waiting import wait_until


@contextmanager
def java(settings: Settings, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], JavaGateway]]:
    """A JVM that has Spark's classes and Lakemark's, without a Spark."""
    spark = pyspark_home() / "jars"
    classes = [*spark.glob("*.jar"), *jar_paths(settings.jars, "spark"), spark_classes(settings.jars)]
    port, process = launch_gateway(
        jarpath=str(next(spark.glob("py4j-*.jar"))),
        classpath=":".join(map(str, classes)),
        javaopts=[*options],
        java_path=str(find_java(settings.java, settings.home / "java").binary),
        redirect_stderr=subprocess.DEVNULL,
        return_proc=True,
    )
    try:
        yield process, JavaGateway(gateway_parameters=GatewayParameters(port=port))
    finally:
        process.kill()
        process.wait(60)


def test_i5_a_jvm_that_stood_still_in_its_commit_replaces_no_other(tmp_path: Path) -> None:
    """Nothing is left for it to do but to give its file a name. Delta's own LocalLogStore replaces a commit here."""
    settings, table = settings_in(tmp_path / "home"), LakeUri(str(tmp_path / "silver" / "t"))
    log, folder = PosixLogStore(table), tmp_path / "silver" / "t" / "_delta_log"
    folder.mkdir(parents=True)
    assert log.create(0, b"{}")
    stops = java_agent(settings.jars, table, 1, folder=tmp_path, point="at_the_commit", signal="STOP")
    with ThreadPoolExecutor(1) as pool, java(settings, stops) as (process, gateway):
        lines = gateway.jvm.java.util.ArrayList()
        lines.add("late")
        configuration = gateway.jvm.org.apache.hadoop.conf.Configuration()
        store = gateway.jvm.lakemark.PosixLogStore(configuration)
        path = gateway.jvm.org.apache.hadoop.fs.Path(str(folder / f"{1:020}.json"))
        late = pool.submit(store.write, path, lines.iterator(), False, configuration)
        wait_until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
        assert len([*folder.iterdir()]) == 2, "its bytes are there, under another name"
        assert log.create(1, b"first")
        process.send_signal(signal.SIGCONT)
        with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
            late.result(60)
    assert log.read(1) == b"first"
    assert sorted(file.name for file in folder.iterdir()) == [f"{n:020}.json" for n in range(2)]
