"""The environment of a user: the wheel of this tree, with the packages that its extras need and a page names.

Nothing is downloaded: what the developers' environment has of these packages is linked into it, file by file, and
nothing else is in it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.pages.blocks import ROOT

README = "spark"
"""The extra of the README's section *Install*."""


def named(text: str) -> set[str]:
    """What a page tells to install, as requirements: ``spark-eos[spark,tables]``, ``polars``."""
    commands = re.findall(r"pip install ([^`\n]*)", text)
    found = [Requirement(word.replace(".[", "spark-eos[")) for line in commands for word in shlex.split(line)]
    extras = {extra for one in found if one.name == "spark-eos" for extra in one.extras}
    extras |= set() if extras & {"connect", "pipelines"} else {README}
    return {f"spark-eos[{','.join(sorted(extras))}]", *(one.name for one in found if one.name != "spark-eos")}


def make_wheel(folder: Path) -> Path:
    """The wheel of this tree."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def make(folder: Path, wheel: Path, requirements: set[str]) -> Path:
    """The folder of the programs of a new environment."""
    venv.EnvBuilder(symlinks=True).create(folder)
    programs = folder / "bin"
    (packages,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(packages)
    (own,) = metadata.distributions(name="spark-eos", path=[str(packages)])
    for one in _all_of(requirements, own):
        _link(one, packages, programs)
    for entry in own.entry_points.select(group="console_scripts"):
        script = programs / entry.name
        script.write_text(
            f"#!{programs}/python\nimport sys\nfrom {entry.module} import {entry.attr}\nsys.exit({entry.attr}())\n"
        )
        script.chmod(0o755)
    return programs


def _all_of(requirements: set[str], own: metadata.Distribution) -> list[metadata.Distribution]:
    """What the requirements need, and what that needs, without this package itself."""
    found: dict[str, metadata.Distribution] = {}
    seen: set[tuple[str, str]] = set()
    todo = [Requirement(one) for one in requirements]
    while todo:
        wanted = todo.pop()
        name = canonicalize_name(wanted.name)
        one = own if name == "spark-eos" else _installed(name)
        found[name] = one
        for extra in ("", *wanted.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                needs = [Requirement(text) for text in one.requires or ()]
                todo += [need for need in needs if not need.marker or need.marker.evaluate({"extra": extra})]
    del found["spark-eos"]
    return [*found.values()]


def _installed(name: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        pytest.skip(f"the page needs {name}: pip install {name}")


def _link(one: metadata.Distribution, packages: Path, programs: Path) -> None:
    for file in one.files or ():
        source = Path(os.path.normpath(one.locate_file(file)))
        if file.parts[0] != "..":
            target = packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.exists() and not target.exists():
                target.symlink_to(source)
        elif source.parent == Path(sysconfig.get_path("scripts")) and source.is_file():
            _copy_program(source, programs / source.name)


def _copy_program(source: Path, target: Path) -> None:
    """A script that names the interpreter of the developers gets the user's."""
    shutil.copy(source, target)
    content = source.read_bytes()
    first = f"#!{sys.executable}".encode()
    if content.startswith(first):
        target.write_bytes(f"#!{target.parent}/python".encode() + content[len(first) :])
