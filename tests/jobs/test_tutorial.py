"""The pages of the tutorial, and guides with examples, word by word: each block runs, and prints what the page says.

A block runs unless the comment ``<!-- not run: reason -->`` stands before it. The comment ``<!-- output -->`` stands
before a block that shows the end of what the block before it prints; ``...`` in it stands for any text.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
import textwrap
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("first-stream", "exactly-once-job", "clients", "operations")
"""In the order in which they are read: the last one looks at the logs of the others."""

GUIDES = (
    "lost-checkpoint",
    "coming-from-kafka",
    "coming-from-delta",
    "duckdb-polars",
    "transactions",
    "backup",
    "upgrade",
    "sizing",
)
"""Pages with examples; `sizing` looks at the log of `upgrade`."""

_BLOCK = re.compile(
    r"^(?P<indent> *)(?:<!-- (?P<comment>[^\n]*?) -->\n *)?```(?P<language>\w*)\n(?P<text>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    language: str
    text: str
    comment: str

    @property
    def runs(self):
        return self.language in {"python", "bash"} and not self.comment.startswith("not run: ")


def page_of(name):
    folder = "tutorial" if name in PAGES else "guide"
    return ROOT / "docs" / folder / f"{name}.md"


def blocks(page):
    text = page_of(page).read_text(encoding="utf-8")
    return [
        Block(found["language"], textwrap.dedent(found["text"]), found["comment"] or "")
        for found in _BLOCK.finditer(text)
    ]


class Typist:
    """Runs blocks in a folder in place of /tmp, in one namespace and in a shell in a clone."""

    def __init__(self, folder):
        self._folder = folder
        self._names = {}
        self._clone = folder / "clone"
        if not self._clone.exists():
            self._clone.mkdir()
            for name in ("conf", "jobs", "scripts", "tests"):
                (self._clone / name).symlink_to(ROOT / name)

    def run(self, block):
        """What the block prints, with the folder shown as /tmp."""
        text = block.text.replace("/tmp/", f"{self._folder}/")
        if block.language == "python":
            printed = self._python(text)
        elif text.startswith("spark-submit ") and "&" not in text:
            printed = self._job(text)
        else:
            printed = self._shell(text)
        return printed.replace(f"{self._folder}/", "/tmp/")

    def _python(self, text):
        printed = StringIO()
        with redirect_stdout(printed):
            exec(compile(text, "a block of the page", "exec"), self._names)
        return printed.getvalue()

    def _job(self, text):
        """A job that runs to its end, in the Spark that is there: starting another one takes longer than the job."""
        words = shlex.split(text.replace("\\\n", " "))
        at = next(number for number, word in enumerate(words) if word.startswith("jobs/"))
        printed, arguments = StringIO(), sys.argv
        sys.argv = words[at:]
        try:
            with redirect_stdout(printed):
                runpy.run_path(str(ROOT / words[at]), run_name="__main__")
        finally:
            sys.argv = arguments
        return printed.getvalue()

    def _shell(self, text):
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        packages = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        # Files, as what a killed job leaves behind would keep a pipe open.
        output, errors = self._clone / "output", self._clone / "errors"
        with output.open("w") as stdout, errors.open("w") as stderr:
            done = subprocess.run(
                ["bash", "-c", f"set -m\n{text}"],  # background jobs have process groups, as in a terminal
                env={
                    **os.environ,
                    **python,
                    "PATH": path,
                    "PYTHONPATH": packages,
                    "SPARK_LOCAL_IP": "127.0.0.1",
                },
                cwd=self._clone,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                timeout=300,
                check=False,
            )
        printed = output.read_text()
        assert done.returncode == 0, f"{text}\n{printed[-2000:]}\n{errors.read_text()[-4000:]}"
        return printed


def shown(expected, printed):
    """Whether ``printed`` ends with ``expected``."""
    pattern = re.escape(expected.strip()).replace(re.escape("..."), ".*?")
    return re.search(rf"(?:^|\n){pattern}\Z", printed.strip(), re.DOTALL) is not None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tutorial")


@pytest.mark.deep
@pytest.mark.usefixtures("spark", "flights")
def test_the_tutorial_is_true(folder):
    follow(PAGES, folder)


@pytest.mark.deep
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "pages", [*((page,) for page in GUIDES[:-2]), GUIDES[-2:]], ids=lambda pages: pages[0]
)
def test_the_guides_are_true(pages, tmp_path):
    follow(pages, tmp_path)


def follow(pages, folder):
    """Type all blocks of the pages."""
    typist = Typist(folder)
    for page in pages:
        printed = None
        for block in blocks(page):
            if block.comment == "output":
                assert printed is not None, f"{page}: an output without a block that runs"
                assert shown(block.text, printed), f"{page}: expected\n{block.text}\nprinted\n{printed}"
            elif block.runs:
                printed = typist.run(block)
                if "sum(counts.values())" in block.text:
                    assert printed.endswith(" 3000\n"), printed


def test_every_block_runs_or_says_why_not():
    for page in (*PAGES, *GUIDES):
        found = blocks(page)
        fences = page_of(page).read_text(encoding="utf-8").count("```")
        assert len(found) * 2 == fences, f"{page} has blocks that this test does not see"
        assert any(block.runs for block in found)
        for block in found:
            reason = block.comment.removeprefix("not run: ")
            assert block.runs or block.comment == "output" or len(reason) > 20, f"{page}: {block.text}"


def test_the_pages_are_all():
    assert {path.stem for path in (ROOT / "docs" / "tutorial").glob("*.md")} == set(PAGES)


def test_another_output_is_found():
    assert shown("a ... c\nd", "x\na b c\nd\n")
    assert not shown("000", "1000\n")
    assert not shown("1000", "1000\nand more\n")
