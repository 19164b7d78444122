"""Applications and their processes"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from tests.spark_facts.plain import Recording

ROOT = Path(__file__).parents[2]
IN_DRIVER = ("initialOffset", "latestOffset", "partitions", "StreamWriter", "commit")
IN_TASKS = ("read", "write")

pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def here(queries):
    """A query of the session of the tests, which is local."""
    made = queries("here")
    made.recording.put("end-a", 10)
    made.run(made.stream())
    return made.recording


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """The same in another application, with executors of its own; a module `pyspark_*` that raises is in its path."""
    folder = tmp_path_factory.mktemp("elsewhere")
    modules = tmp_path_factory.mktemp("modules")
    (modules / "pyspark_broken.py").write_text("raise RuntimeError('not today')\n")
    master = os.environ.get("SPARK_FACTS_MASTER", "local-cluster[1,2,1024]")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/spark_facts/app.py"), master, str(folder)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(modules)]),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return Recording(folder)


def folders(recording, *calls):
    """The values of SPARK_LOCAL_DIRS in these calls; all of them have been made."""
    found = [recording.calls(name) for name in calls]
    assert all(found)
    return {call["local_dirs"] for made in found for call in made}


def test_the_folders_of_an_application_are_known_to_its_driver_processes(here, elsewhere):
    """The environment variable `SPARK_LOCAL_DIRS` is set and the same in all Python processes of a driver: the one that
    answers for a source, the one that makes writers, and the one that commits.

    Rests on it: `spark_eos/spark/sink/proof.py`.
    """
    for recording in (here, elsewhere):
        (value,) = folders(recording, *IN_DRIVER)
        assert value


def test_the_folders_of_an_application_are_its_own(here, elsewhere):
    """`SPARK_LOCAL_DIRS` differs between two applications.

    Rests on it: `spark_eos/spark/sink/proof.py`.
    """
    assert folders(here, *IN_DRIVER).isdisjoint(folders(elsewhere, *IN_DRIVER))


def test_tasks_know_the_folders_of_their_executor(here, elsewhere):
    """In tasks `SPARK_LOCAL_DIRS` names the folders of the executor. In local mode these are those of the
    driver; on a cluster each executor has its own.

    Rests on it: `spark_eos/spark/sink/proof.py`.
    """
    assert folders(here, *IN_TASKS) == folders(here, *IN_DRIVER)
    assert folders(elsewhere, *IN_TASKS).isdisjoint(folders(elsewhere, *IN_DRIVER))


def test_data_sources_are_found_by_the_names_of_modules(spark):
    """Spark imports every top-level module whose name begins with `pyspark_` and registers the class `DefaultSource`
    in it: `format("eoslog")` needs no registration.

    Rests on it: `pyspark_eoslog.py`.
    """
    with pytest.raises(PySparkException, match=r"spark_eos/spark/datasource\.py"):
        spark.read.format("eoslog").load()


def test_one_module_that_raises_hides_the_data_sources_of_all(elsewhere):
    """A module `pyspark_*` that raises while it is imported disables this for all others. Sources that are registered
    are not harmed.

    Rests on it: `pyspark_eoslog.py`.
    """
    (found,) = elsewhere.calls("discovery")
    assert "DATA_SOURCE_NOT_FOUND" in found["error"]
    assert elsewhere.calls("commit")
