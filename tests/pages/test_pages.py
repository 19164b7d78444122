"""The pages are true: all blocks are typed, page by page, by a user who has the wheel and what the page names."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.pages import environment
from tests.pages.blocks import PAGES, ROOT, TYPED, before, blocks
from tests.pages.typist import Typist
from tests.starting import command

RUN = [page for page in PAGES if any(block.is_typed for block in blocks(page))]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return environment.make_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Environments by what is in them; a function of the texts of pages."""
    made = {}

    def install(text):
        wanted = frozenset(environment.named(text))
        if wanted not in made:
            made[wanted] = environment.make(tmp_path_factory.mktemp("user"), wheel, {*wanted})
        return made[wanted]

    return install


@pytest.mark.deep
@pytest.mark.parametrize("page", RUN)
def test_the_blocks_of_a_page_run_as_typed(page, installed, tmp_path):
    pages = [*before(page), page]
    text = "\n".join((ROOT / one).read_text("utf-8") for one in pages)
    with Typist(tmp_path, installed(text), in_a_clone=re.search(r"\bclone\b", text) is not None) as typist:
        for one in pages:
            printed = None
            for block in blocks(one):
                if block.fate == "output":
                    told = f"{block}: expected\n{block.text}\nprinted\n{printed}"
                    assert printed is None or shown(block.text, printed), told
                elif block.language in TYPED:
                    printed = typist.type(block) if block.is_typed else None


def shown(expected, printed):
    """Whether ``printed`` ends with ``expected``."""
    pattern = re.escape(expected.strip()).replace(re.escape("..."), ".*?")
    return re.search(rf"(?:^|\n){pattern}\Z", printed.strip(), re.DOTALL) is not None


def test_another_output_is_found():
    assert shown("a ... c\nd", "x\na b c\nd\n")
    assert not shown("000", "1000\n")
    assert not shown("1000", "1000\nand more\n")


def test_what_a_page_tells_to_install():
    text = "`pip install polars`, or:\npip install 'spark-eos[ui,tables]' duckdb\npip install \".[mirror]\"\n"
    assert environment.named(text) == {"spark-eos[mirror,spark,tables,ui]", "polars", "duckdb"}
    assert environment.named("nothing") == {"spark-eos[spark]"}


@pytest.mark.deep
def test_a_user_has_the_wheel_and_nothing_of_the_developers(installed, tmp_path):
    python = installed("") / "python"
    program = command("pages/users_packages")[1:]
    subprocess.run([python, "-I", *program], cwd=tmp_path, env={}, check=True)
