"""docs/reference/error-codes.md: each error has a section that says what it means, what to look at and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spark_eos import errors
from spark_eos.config.topic import TOPIC
from tests.cli.test_help import COMMANDS

PAGE = (Path(__file__).parent.parent / "docs/reference/error-codes.md").read_text(encoding="utf-8")
CLASSES = {getattr(errors, name).code: getattr(errors, name) for name in errors.__all__}
GROUPS = {
    "Make the same call again": errors.RetriableError,
    "Abort the transaction": errors.AbortableError,
    "Close the client or the query": (errors.FatalError, errors.CheckpointMismatchError),
    "Change the call": errors.InvalidRequestError,
    "Look at the storage": errors.StorageError,
}
SECTION = re.compile(
    r"^### (\w+)\n`(\w+)`\n\n- \*\*Means\.\*\* (.+?)\n- \*\*Look at\.\*\* (.+?)\n- \*\*Do\.\*\* (.+?)\n(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)


def sections():
    for part in PAGE.split("\n## ")[1:]:
        group = part.partition("\n")[0]
        for found in SECTION.finditer(f"{part}\n"):
            yield group, *found.groups()


SECTIONS = {code: rest for _, code, *rest in sections()}


def test_each_error_has_one_section():
    assert sorted(re.findall(r"^### (\w+)$", PAGE, re.MULTILINE)) == sorted({*CLASSES} - {"EOS_LOG"})
    assert {*SECTIONS} == {*CLASSES} - {"EOS_LOG"}, "each has the class and the three points"


def test_each_error_stands_in_its_group():
    for group, code, name, *_ in sections():
        assert CLASSES[code].__name__ == name
        assert issubclass(CLASSES[code], GROUPS[group]), code
    assert [group for group in PAGE.split("\n## ")[1:] if group.partition("\n")[0] not in GROUPS] == []


@pytest.mark.parametrize("code", SECTIONS)
def test_each_point_says_something(code):
    for point in SECTIONS[code][1:]:
        assert point[0].isupper() or point.startswith(("`", "[")), point
        assert point.endswith((".", "?")), point


def test_the_commands_on_the_page_are_there():
    named = re.findall(r"`eoslog ([^`]+)`", re.sub(r"\n +", " ", PAGE))
    assert len(named) > 40
    for text in named:
        words = re.findall(r"'[^']*'|\S+", text)
        names = next(
            (names for names in COMMANDS if [*names] == words[: len(names)]),
            ("topics", "list") if words[0] == "topics" else None,
        )
        if words == ["--version"]:
            continue
        assert names, text
        known = {name for param in COMMANDS[names].params for name in param.opts}
        assert {word for word in words if word.startswith("--")} <= known, text


def test_the_settings_of_topics_on_the_page_are_there():
    for name in re.findall(r"setting `((?:value|schema)\.[\w.]+)`", re.sub(r"\n +", " ", PAGE)):
        assert name in TOPIC
