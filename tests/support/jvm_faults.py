"""Faults inside Delta's commit, in the JVM: a Byteman agent stops or kills the process at a named place.

Only the options of the process carry them; the product knows nothing of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from include.installation.jars import jar_paths
from include.lake.uri import LakeUri
from include.pipeline_file import Pipeline
from tests.support.world import World

JvmPoint = Literal["data_files_written", "at_the_commit", "commit_done"]
Signal = Literal["KILL", "STOP"]
_PLACES: dict[str, dict[JvmPoint, tuple[str, str, str]]] = {  # a log store's method, its path, a place in the method
    "PosixLogStore": {
        "data_files_written": ("write", "$1", "AT ENTRY"),  # and nothing of the commit yet
        # Its bytes are on the disk, it has no name yet.
        "at_the_commit": ("write", "$1", "AT INVOKE java.nio.file.Files.createLink"),
        "commit_done": ("write", "$1", "AT EXIT"),  # and its answer is lost
    },
    "S3LogStore": {
        "data_files_written": ("write", "$1", "AT ENTRY"),
        "at_the_commit": ("put", "$2", "AT INVOKE org.apache.hadoop.fs.FSDataOutputStream.close"),  # which sends it
        "commit_done": ("write", "$1", "AT EXIT"),
    },
}


def own_driver(world: World, pipeline: Pipeline, folder: Path, point: JvmPoint, signal: Signal) -> dict[str, str]:
    """The environment of a job with a JVM of its own, which gets `signal` at `point` of the target's next commit."""
    table, version = world.coordinator(pipeline).tables.target, world.version(pipeline) + 1
    return {
        "JAVA_TOOL_OPTIONS": java_agent(world.settings.jars, table, version, folder=folder, point=point, signal=signal),
        "LAKEMARK_SPARK_REMOTE": "",
        "LAKEMARK_SPARK_MASTER": "local[2]",
        "LAKEMARK_MERGE_ENGINE": "spark",  # the lane commits without a JVM
    }


def java_agent(jars: Path, table: LakeUri, version: int, *, folder: Path, point: JvmPoint, signal: Signal) -> str:
    """The option of a JVM that gets `signal` at `point` of a commit of a table. Args: folder: for the agent's files."""
    [agent] = jar_paths(jars, "test")
    log_store = "S3LogStore" if table.scheme == "s3" else "PosixLogStore"
    method, path, place = _PLACES[log_store][point]
    commit = f"/{table.parent.name}/{table.name}/_delta_log/{version:020}.json"
    # A stop is asynchronous: on a busy machine the committing thread could go on to its commit before it takes effect.
    # So that thread waits for the script, and the script for the process to stand still (T) or to be gone.
    script = folder / f"{point}.sh"
    script.write_text(f"kill -{signal} $1\nwhile grep -q '^State:[^TtZX]*$' /proc/$1/status; do :; done 2>/dev/null\n")
    rules = folder / f"{point}.btm"
    rules.write_text(
        f"RULE {point}\n"
        f"CLASS lakemark.{log_store}\n"
        f"METHOD {method}\n"
        f"{place}\n"
        f'IF {path}.toString().endsWith("{commit}")\n'
        f'DO java.lang.Runtime.getRuntime().exec("sh {script} " '
        "+ java.lang.ProcessHandle.current().pid()).waitFor()\n"
        "ENDRULE\n"
    )
    return f"-javaagent:{agent}=script:{rules}"
