"""docker-compose.yaml against the Compose specification's own schema. No engine runs here, so nothing more is shown."""

from __future__ import annotations

import json
from importlib.resources import files

import jsonschema
import yaml

from include.settings import PROJECT_ROOT


def composed() -> dict:
    return yaml.safe_load((PROJECT_ROOT / "docker-compose.yaml").read_text())


def test_the_compose_file_fits_the_specification() -> None:
    schema = json.loads((files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text())
    jsonschema.validate(composed(), schema)


def test_all_services_are_there_and_listen_on_the_loopback_address_only() -> None:
    services = composed()["services"]
    airflow = {f"airflow-{part}" for part in ("init", "api-server", "scheduler", "dag-processor", "triggerer")}
    assert set(services) == {"kafka", "spark", "postgres", "s3"} | airflow
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_lake_is_on_the_store_and_airflow_and_spark_share_no_folder() -> None:
    services = composed()["services"]
    assert services["spark"].get("volumes", []) == []
    for name in ("spark", "airflow-scheduler", "airflow-api-server"):
        assert services[name]["environment"]["LAKEMARK_LAKE"].startswith("s3://lakemark/")
    assert ":latest" not in services["s3"]["image"], "older ones let two writers create one object"


def test_no_secret_stands_in_it() -> None:
    for service in composed()["services"].values():
        for name, value in service.get("environment", {}).items():
            if any(word in name for word in ("PASSWORD", "SECRET")) and not name.endswith("_FILE"):
                assert value.startswith("${LAKEMARK_"), name
