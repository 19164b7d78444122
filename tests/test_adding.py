"""What CONTRIBUTING.md says of adding things is all that is to be done: its blocks are put where they say."""

from __future__ import annotations

import re
import shutil
import subprocess
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest

from spark_eos.protocol.actions import DECLARED
from tests.golden.make import RELEASED
from tests.test_extensions import run

ROOT = Path(__file__).parent.parent
TESTS = {
    "Add an action": (*("tests/protocol", "tests/golden", "tests/test_format.py", "tests/cli/test_dump.py"),),
    "Add an option": (
        *(
            "tests/config",
            "tests/test_settings.py",
            "tests/spark/test_changed_options.py",
            "tests/cli/test_configs.py",
        ),
        *("tests/cli/test_topics.py", "tests/clients/test_admin_settings.py", "tests/clients/test_admin.py"),
        *(
            "tests/spark/test_options.py",
            "tests/spark/test_coming_from_kafka.py",
            "tests/log/test_stored_settings.py",
        ),
    ),
}
"""The tests of the areas that each touches. Those that read the sources come to all of them."""
OF_SOURCES = [
    f"tests/test_{name}.py" for name in ("floors", "vocabulary", "docstrings", "docs", "design", "handed_in")
]


class Block(NamedTuple):
    """Text for a file: all of it, or lines above or below a line that is there."""

    file: str
    where: str
    line: str
    text: str


def blocks(title):
    section = (
        (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    )
    for found in re.finditer(r"^( *)```(?:python|text)\n(.*?)^ *```$", section, re.MULTILINE | re.DOTALL):
        head, text = textwrap.dedent(found[2]).split("\n", 1)
        file, where, line = re.fullmatch(r"# (\S+?)(?:, (above|below): (.+))?", head).groups("")
        yield Block(file, where, line, text)


def put(folder, block):
    """As a reader does: at the first such line, as deep as it."""
    path, text = folder / block.file, block.text
    if block.where:
        lines = path.read_text("utf-8").splitlines(keepends=True)
        at = next(number for number, line in enumerate(lines) if line.strip() == block.line)
        indent = re.match(" *", lines[at])[0]
        lines.insert(at + (block.where == "below"), textwrap.indent(text, indent))
        text = "".join(lines)
    path.write_text(text, "utf-8")


@pytest.mark.parametrize(("title", "most"), [("Add an action", 2), ("Add an option", 4)])
def test_the_blocks_have_a_place(title, most):
    found = [*blocks(title)]
    assert len({block.file for block in found}) == len(found) == most
    for block in found:
        path = ROOT / block.file
        assert path.exists() == bool(block.where), block.file
        assert not block.where or block.line in map(str.strip, path.read_text("utf-8").splitlines()), block


@pytest.mark.deep
@pytest.mark.parametrize("title", TESTS)
def test_what_is_added_as_it_says_is_complete(title, tmp_path):
    folder = tmp_path / "tree"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(listed, cwd=ROOT, text=True).split("\0"):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    for block in blocks(title):
        text = block.text.replace("number=99", f"number={len(DECLARED)}").replace(
            "since=1,", f"since={RELEASED + 1},"
        )
        put(folder, block._replace(text=text))
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    subprocess.run(["git", "add", "--all"], cwd=folder, check=True)
    run(folder, "-m", "tests.generate")
    run(folder, "-m", "ruff", "check", ".")
    run(folder, "-m", "ruff", "format", "--check", ".")
    run(folder, "-m", "pytest", "-q", "-n", "0", *OF_SOURCES, *TESTS[title])
