"""docker-compose.yml: what it names is there, and it is the cluster that tests/spark/test_cluster.py runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COMPOSE = ROOT / "docker-compose.yml"
HOME = "/opt/spark_eos/"
CLASSES = {
    "master": "org.apache.spark.deploy.master.Master",
    "worker1": "org.apache.spark.deploy.worker.Worker",
    "worker2": "org.apache.spark.deploy.worker.Worker",
}


@pytest.fixture(scope="module")
def config():
    """The file as Docker understands it."""
    return understood()


@pytest.fixture(scope="module")
def with_minio():
    """The same with the profile that has MinIO."""
    return understood("--profile", "minio")


def understood(*arguments):
    if shutil.which("docker") is None:
        pytest.skip("the docker command is not here: install Docker's client and its compose plugin")
    known = subprocess.run(["docker", "compose", "version"], capture_output=True, text=True, check=False)
    if known.returncode:
        pytest.skip(
            f"docker has no compose plugin here: {(known.stderr or known.stdout).strip().splitlines()[0]}"
        )
    environ = {name: value for name, value in os.environ.items() if name != "INPUT" and "AWS" not in name}
    done = subprocess.run(
        ["docker", "compose", "-f", str(COMPOSE), *arguments, "config", "--format", "json"],
        capture_output=True, text=True, check=False, env=environ,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def dockerfile_copies():
    """(source, target) of every COPY, the target as a path in the image."""
    text = (ROOT / "docker" / "Dockerfile").read_text("utf-8")
    assert f"WORKDIR {HOME.rstrip('/')}\n" in text
    for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE):
        *sources, target = line.split()
        for source in sources:
            yield source, target


def test_what_the_image_is_made_of_is_there():
    allowed = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text("utf-8"), re.MULTILINE)
    copies = list(dockerfile_copies())
    for source, target in copies:
        assert (ROOT / source).exists(), source
        assert source in allowed, f".dockerignore keeps {source} away from the image"
        assert target in {source, "./"}, f"{source} would not be found under its own name"
    assert sorted(allowed) == sorted(source for source, _ in copies)


def test_every_path_of_the_project_in_the_file_is_in_the_image():
    copied = [source for source, _ in dockerfile_copies()]
    named = re.findall(rf"{HOME}(\S+)", COMPOSE.read_text("utf-8"))
    assert named
    for path in named:
        assert (ROOT / path).is_file(), path
        assert path.split("/")[0] in copied, path


def test_the_sample_input_is_there_and_is_what_the_job_reads():
    (folder,) = re.findall(r"\$\{INPUT:-\./(\S+)\}:/input:ro", COMPOSE.read_text("utf-8"))
    files = list((ROOT / folder).glob("*.csv"))
    assert files
    for file in files:
        columns, *rows = (line.split(",") for line in file.read_text("utf-8").splitlines())
        assert "carrier" in columns
        assert rows
        assert all(len(row) == len(columns) for row in rows)


def test_the_cluster_test_runs_the_same_programs():
    test = (ROOT / "tests" / "spark" / "test_cluster.py").read_text("utf-8")
    compose = COMPOSE.read_text("utf-8")
    for text in {*CLASSES.values(), "--cores", "--memory", "1g", "spark.executor.memory", "512m"}:
        assert text in test, text
        assert text in compose, text


def test_services_and_what_they_share(config):
    services = config["services"]
    assert set(services) == {*CLASSES, "job"}
    for name, class_ in CLASSES.items():
        assert services[name]["command"][:2] == ["spark-class", class_]
    assert services["job"]["command"][0] == "spark-submit"
    port = services["master"]["command"][services["master"]["command"].index("--port") + 1]
    master = f"spark://master:{port}"
    for name in ("worker1", "worker2", "job"):
        assert master in services[name]["command"]
        assert services[name]["depends_on"]["master"]["condition"] == "service_healthy"
    volumes = {name: [(v["source"], v["target"]) for v in s["volumes"]] for name, s in services.items()}
    assert len({json.dumps(found) for found in volumes.values()}) == 1, (
        "driver and executors see the same folders"
    )
    assert ("data", "/data") in volumes["job"]
    assert set(config["volumes"]) == {"data"}
    mounted = [target for _, target in volumes["job"]]
    for argument in services["job"]["command"]:
        if argument.startswith("/") and not argument.startswith(HOME):
            assert any(argument == target or argument.startswith(f"{target}/") for target in mounted), (
                argument
            )
    for service in services.values():
        assert Path(service["build"]["context"]) == ROOT
        assert (ROOT / service["build"]["dockerfile"]).is_file()


def test_the_profile_with_a_bucket(config, with_minio):
    services = with_minio["services"]
    assert set(services) == {*config["services"], "minio", "job-minio"}
    job, plain = services["job-minio"], services["job"]
    assert {"minio", *plain["depends_on"]} == set(job["depends_on"])
    assert job["volumes"] == plain["volumes"]
    assert job["build"] == plain["build"]
    bucket, path = re.fullmatch(
        r"s3://([a-z]+)/(\S+)", job["command"][job["command"].index("--log") + 1]
    ).groups()
    assert f"/minio/{bucket} " in services["minio"]["entrypoint"][-1]
    assert path
    keys = job["environment"]
    assert keys["AWS_ACCESS_KEY_ID"] == services["minio"]["environment"]["MINIO_ROOT_USER"]
    assert keys["AWS_SECRET_ACCESS_KEY"] == services["minio"]["environment"]["MINIO_ROOT_PASSWORD"]
    assert keys["AWS_ENDPOINT_URL"] == "http://minio:9000"
    for name, value in keys.items():
        assert f"spark.executorEnv.{name}={value}" in job["command"], "the executors write to the bucket, too"
    assert f"spark.driver.host={job['hostname']}" in job["command"]
