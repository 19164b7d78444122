"""Each extra alone, in the environment of a user: what it is for works with exactly what it pulls in."""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.pages import environment
from tests.pages.blocks import ROOT
from tests.starting import command

(_SECTION,) = re.findall(
    r"^\[project\.optional-dependencies\]\n(.*?)^\[",
    (ROOT / "pyproject.toml").read_text("utf-8"),
    re.DOTALL | re.MULTILINE,
)
EXTRAS = re.findall(r"^([a-z-]+) = \[", _SECTION, re.MULTILINE)
PROGRAMS = {
    "extras/bench": "bench",
    "extras/connect": "connect",
    "extras/delta": "delta",
    "extras/demo": "demo",
    "extras/encryption": "encryption",
    "extras/machines": "machines",
    "extras/metrics": "metrics",
    "extras/mirror": "mirror",
    "extras/missing": "none",
    "extras/none": "none",
    "extras/objectstore": "objectstore",
    "extras/pipelines": "pipelines",
    "extras/spark": "spark",
    "extras/tables": "tables",
    "extras/ui": "ui",
    "extras/value_formats": "value-formats",
}
"""By the name of a program in the folder `programs` the extra of its environment; none: no extra."""


def test_every_extra_has_a_program():
    assert len(EXTRAS) > 10
    assert {*PROGRAMS.values()} == {*EXTRAS, "none"}
    found = (Path(__file__).parent / "programs").glob("*.py")
    assert {f"extras/{path.stem}" for path in found} == {*PROGRAMS}


def test_what_names_a_missing_extra_is_up_to_date():
    """The program needs an environment of its own (`--all`); its names do not."""
    text = (Path(__file__).parent / "programs" / "missing.py").read_text("utf-8")
    named = re.findall(r'^ +(?:f?"[^\n]*": |\(extra\()"([a-z-]+)"', text, re.MULTILINE)
    assert len(named) > 20
    assert {*named} <= {*EXTRAS}


def test_every_extra_is_in_the_page():
    page = (ROOT / "docs/guide/install.md").read_text("utf-8")
    assert re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE) == EXTRAS


@pytest.mark.deep
def test_the_wheel_has_the_package_and_nothing_else(tmp_path):
    names = zipfile.ZipFile(environment.make_wheel(tmp_path)).namelist()
    parts = {name.partition("/")[0].partition("-")[0] for name in names}
    assert parts == {"spark_eos", "pyspark_eoslog.py"}
    inside = {path.relative_to(ROOT).as_posix() for path in (ROOT / "spark_eos").rglob("*") if path.is_file()}
    assert {name for name in names if name.startswith("spark_eos/")} == {
        name for name in inside if "__pycache__" not in name
    }
    assert "spark_eos/py.typed" in names


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The programs of an environment with one extra; a function of its name."""
    wheel = environment.make_wheel(tmp_path_factory.mktemp("wheel"))
    made = {}

    def install(extra):
        if extra not in made:
            wanted = "spark-eos" if extra == "none" else f"spark-eos[{extra}]"
            made[extra] = environment.make(tmp_path_factory.mktemp("user"), wheel, {wanted})
        return made[extra]

    return install


@pytest.mark.deep
@pytest.mark.parametrize("program", PROGRAMS)
def test_an_extra_pulls_in_what_it_needs(program, installed, tmp_path):
    programs = installed(PROGRAMS[program])
    kept = {
        name: os.environ[name] for name in ("JAVA_HOME", "LANG", "SPARK_SUBMIT_OPTS") if name in os.environ
    }
    done = subprocess.run(
        [programs / "python", "-I", *command(program)[1:]],
        cwd=tmp_path,
        env={
            **kept,
            "HOME": str(tmp_path),
            "PATH": f"{programs}:/usr/bin:/bin",
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
