"""The blocks of all pages, before they run: each is run or says why not, parses, and names commands that exist."""

from __future__ import annotations

import subprocess

import pytest

from tests.pages.blocks import PAGES, Block, blocks, faults, statements
from tests.pages.commands import commands, unknown


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_run_or_says_why_not(page):
    assert faults(page) == []


def test_every_block_for_the_shell_parses():
    """One shell parses all, as starting one takes longer: each is the body of a function with the block's name."""
    found = [block for page in PAGES for block in blocks(page) if block.language == "bash"]
    text = "".join(f"function {block} {{\n{block.text}\n}}\n" for block in found)
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), text


def test_every_command_exists_with_its_options():
    found = [(block, words) for page in PAGES for block in blocks(page) for words in commands(block)]
    assert len(found) > 200
    assert [f"{block}: {told}" for block, words in found if (told := unknown(words))] == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("```\nx\n```\n", "language ''"),
        ("```console\n$ ls\n```\n", "language 'console'"),
        ("<!-- not run: why -->\n```python\nx\n```\n", "no reason"),
        ("<!-- run by tests/nothing.py -->\n```python\nx\n```\n", "is not there"),
        ("<!-- run by tests/test_tiers.py -->\n```python\nx\n```\n", "does not read it"),
        ("<!-- output -->\n```text\nx\n```\n", "does not run"),
        ("<!-- nut run: for a very good reason -->\n```python\nx\n```\n", "nobody knows"),
        ("```python\nfor n in x:\n    n\nprint(n)\n```\n", "line 3: invalid syntax"),
        ("```python\nf(\n```\n", "within a statement"),
        ("```text\nx\n", "1 fences, 0 blocks"),
    ],
)
def test_a_fault_of_a_page_is_seen(text, told):
    (found,) = faults("docs/page.md", text)
    assert told in found


def test_a_page_may_say_it_for_all_of_its_blocks():
    text = "<!-- blocks not run: they need a cluster of their own -->\n\n```bash\nx\n```\n```text\ny\n```\n"
    assert [block.is_typed for block in blocks("docs/page.md", text)] == [False, False]
    assert faults("docs/page.md", text) == []


def test_what_is_a_file():
    text = "Save `job.py`:\n```python\nif 1:\n    x\ny\n```\n\n```python\n# other.py\nx\n```\n"
    assert [block.file for block in blocks("docs/page.md", text)] == ["job.py", "other.py"]
    assert faults("docs/page.md", text) == []


def test_statements_are_those_of_the_prompt():
    assert statements("x = 1\ndef f():\n    return 2\n\nf()\n") == [
        "x = 1",
        "def f():\n    return 2\n",
        "f()",
    ]


def test_commands_that_do_not_exist_are_seen():
    def told(text, language="bash"):
        block = Block("page", 1, language, text, "")
        return [unknown(words) for words in commands(block)]

    assert told("eoslog topics LOG | eoslog nothing LOG && ls\n") == [None, "no command 'nothing'"]
    assert told("eoslog topics create LOG t --nothing=3 \\\n  --partitions 2  # --more\n") == [
        "no option --nothing"
    ]
    assert told("$ eoslog vacuum LOG --gone\nprinted --so\n", "text") == ["no option --gone"]
    assert told("eoslog topics --version '--x'\n", "python") == []
