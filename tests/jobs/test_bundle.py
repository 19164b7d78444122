"""The Databricks asset bundle: its YAML fits the published schema, and all that it names is there."""

from __future__ import annotations

import copy
import json
import os
import re
from pathlib import Path

import pytest

from tests.jobs.notebook_driver import cells

yaml = pytest.importorskip(
    "yaml", reason="the bundle is read with pyyaml: pip install 'spark-eos[pipelines]'"
)
fastjsonschema = pytest.importorskip("fastjsonschema", reason="pip install --group dev")

ROOT = Path(__file__).resolve().parents[2]
FILES = [ROOT / "databricks.yml", *sorted((ROOT / "resources").glob("*.yml"))]
EXCERPT = Path(__file__).with_name("bundle.schema.json")
PUBLISHED = "DATABRICKS_BUNDLE_SCHEMA"
"""Names the file that `databricks bundle schema` has written."""


def load(path):
    return yaml.safe_load(path.read_text("utf-8"))


def validator(path):
    """Python's patterns have no classes of Unicode."""
    text = path.read_text("utf-8").replace(r"[\\p{L}\\p{N}]", r"\\w").replace(r"\\p{L}", r"[^\\W\\d_]")
    return fastjsonschema.compile(json.loads(text), use_default=False)


@pytest.fixture(scope="module", params=["excerpt", "published"])
def valid(request):
    if request.param == "excerpt":
        return validator(EXCERPT)
    if PUBLISHED not in os.environ:
        pytest.skip(f"{PUBLISHED} does not name the schema: databricks bundle schema > FILE")
    return validator(Path(os.environ[PUBLISHED]))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_each_file_fits_the_schema(valid, path):
    valid(load(path))


def test_the_schema_refuses_what_it_does_not_know(valid):
    tour = load(ROOT / "resources" / "tour.yml")
    for field, value in (("notebook_task", {}), ("notbook_task", {"notebook_path": "x"}), ("libraries", "x")):
        wrong = copy.deepcopy(tour)
        wrong["resources"]["jobs"]["tour"]["tasks"][0][field] = value
        with pytest.raises(fastjsonschema.JsonSchemaException):
            valid(wrong)


def jobs():
    """(file, name, job) of all resources."""
    return [(path, *job) for path in FILES[1:] for job in load(path)["resources"]["jobs"].items()]


def tasks():
    return [(path, job, task) for path, _, job in jobs() for task in job["tasks"]]


def test_what_the_bundle_names_is_there():
    assert {name for _, name, _ in jobs()} == {"tour", "flights", "maintain"}
    for path, job, task in tasks():
        assert task["job_cluster_key"] in {cluster["job_cluster_key"] for cluster in job["job_clusters"]}
        for kind, field in (("notebook_task", "notebook_path"), ("spark_python_task", "python_file")):
            if kind in task:
                assert (path.parent / task[kind][field]).is_file()


def test_variables_are_declared_and_used():
    declared = load(FILES[0])["variables"]
    used = {name for path in FILES for name in re.findall(r"\$\{var\.(\w+)\}", path.read_text("utf-8"))}
    assert used == {*declared}


def test_packages_and_commands_are_those_of_this_project():
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    extra = re.fullmatch(r"spark-eos\[(\w+)\]", load(FILES[0])["variables"]["package"]["default"])[1]
    assert re.search(rf"^{extra} = \[", project, re.MULTILINE)
    (wheel,) = (task["python_wheel_task"] for _, _, task in tasks() if "python_wheel_task" in task)
    assert f'name = "{wheel["package_name"]}"' in project
    assert f'{wheel["entry_point"]} = "spark_eos.cli:main"' in project
    assert wheel["parameters"] == ["maintain", "${var.log}"]


def test_parameters_are_those_of_the_notebook_and_the_job():
    given = {task["task_key"]: task for _, _, task in tasks()}
    settings = next(cell for cell in cells(ROOT / "notebooks" / "tour.py") if "def setting(" in cell)
    widgets = set(re.findall(r'setting\("(\w+)"', settings))
    assert widgets == {*given["tour"]["notebook_task"]["base_parameters"]}
    parameters = given["consume_transform_produce"]["spark_python_task"]["parameters"]
    from consume_transform_produce import SETTINGS
    from settings import read_settings

    arguments = [str(EXCERPT) if text == "${var.airlines}" else text for text in parameters]
    found = read_settings("consume_transform_produce", "", SETTINGS, arguments)
    assert found.airlines == str(EXCERPT)
    assert found.trigger == "10 seconds"
    assert found.log.endswith("${var.log}")
