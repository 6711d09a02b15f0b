"""Which runner the settings choose, and the command line that follows."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from include.jobs.spark_command import cluster_submission, spark_command
from include.protocol.errors import TerminalError
from include.settings import Settings


def settings(home: Path, **environment: str) -> Settings:
    return Settings.from_environment({"LAKEMARK_HOME": str(home), **environment})


def test_a_server_means_connect_and_none_means_local(tmp_path: Path) -> None:
    assert settings(tmp_path).runner == "local"
    remote = settings(tmp_path, LAKEMARK_SPARK_REMOTE="sc://spark:15002")
    assert remote.runner == "connect"
    assert spark_command(remote, ["--pipeline", "p"]).command[-4:] == [
        "--pipeline",
        "p",
        "--remote",
        "sc://spark:15002",
    ]
    master = settings(tmp_path, LAKEMARK_SPARK_MASTER="local[2]")
    assert spark_command(master, []).command[-2:] == ["--master", "local[2]"]


def test_a_cluster_gets_the_code_as_one_file_and_its_own_settings(tmp_path: Path) -> None:
    chosen = settings(
        tmp_path,
        LAKEMARK_RUNNER="spark-submit",
        LAKEMARK_SPARK_MASTER="yarn",
        LAKEMARK_SPARK_DEPLOY_MODE="cluster",
        LAKEMARK_SPARK_PROPERTIES="/etc/cluster.conf",
        SPARK_CONNECT_MODE_ENABLED="1",
    )
    spark = spark_command(chosen, ["--pipeline", "p"])
    pairs = list(pairwise(spark.command))
    given = dict(pairs)
    assert (given["--master"], given["--deploy-mode"]) == ("yarn", "cluster")
    assert given["--properties-file"] == "/etc/cluster.conf"
    assert Path(given["--py-files"]).suffix == ".zip"
    entry = next((tmp_path / "lake/_lakemark/artifacts").glob("lakemark_job-*.py"))
    assert spark.command[-4:] == [str(entry), "--pipeline", "p", "--submitted"]
    confs = [value.split("=")[0] for key, value in pairs if key == "--conf"]
    assert "spark.delta.logStore.file.impl" in confs
    assert "spark.driver.host" not in confs  # the cluster must reach the driver
    assert "SPARK_CONNECT_MODE_ENABLED" not in spark.environment


def test_a_master_is_asked_for_the_same_job_and_gets_no_more_than_it_needs(tmp_path: Path) -> None:
    conf = tmp_path / "cluster.conf"
    conf.write_text("# ours\nspark.driver.memory 2g\nspark.executor.memory=1g\n\nspark.a = b c\n")
    chosen = settings(
        tmp_path,
        LAKEMARK_RUNNER="spark-submit",
        LAKEMARK_SPARK_MASTER="spark://master:7077",
        LAKEMARK_SPARK_DEPLOY_MODE="cluster",
        LAKEMARK_SPARK_PROPERTIES=str(conf),
        KAFKA_PASSWORD="named by the pipeline",
        AIRFLOW__DATABASE__SQL_ALCHEMY_CONN="nobody's business there",
    )
    assert chosen.has_cluster_drivers
    assert chosen.spark_rest == "http://master:6066"
    asked = cluster_submission(chosen, ["--pipeline", "p"], {"KAFKA_PASSWORD"})
    assert asked.arguments[-3:] == ["--pipeline", "p", "--submitted"]
    assert asked.properties["spark.driver.memory"] == "2g"
    assert asked.properties["spark.executor.memory"] == "1g"
    assert asked.properties["spark.a"] == "b c"
    assert "delta" in asked.properties["spark.driver.extraClassPath"]
    assert asked.environment["KAFKA_PASSWORD"] == "named by the pipeline"
    assert asked.environment["LAKEMARK_LAKE"] == str(chosen.lake)
    assert not any(name.startswith("AIRFLOW") for name in asked.environment)


def test_a_kubernetes_or_yarn_driver_is_waited_for_by_spark_submit(tmp_path: Path) -> None:
    where = {"LAKEMARK_RUNNER": "spark-submit", "LAKEMARK_SPARK_DEPLOY_MODE": "cluster"}
    assert not settings(tmp_path, LAKEMARK_SPARK_MASTER="yarn", **where).has_cluster_drivers
    assert not settings(tmp_path, LAKEMARK_SPARK_MASTER="k8s://https://api:443", **where).has_cluster_drivers


def test_wrong_settings_say_what_is_right(tmp_path: Path) -> None:
    with pytest.raises(TerminalError, match="one of local, spark-submit, connect"):
        settings(tmp_path, LAKEMARK_RUNNER="yarn")
    with pytest.raises(TerminalError, match="LAKEMARK_SPARK_REMOTE"):
        settings(tmp_path, LAKEMARK_RUNNER="connect")
