"""The names of the field stay: words that the project once had for them do not come back."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent

OLD = {
    "company": "group commit",
    "meeting": "group channel",
    "upkeep": "maintenance",
    "sweep": "expiration",
    "sweeper": "expiration task",
    "chronicle": "history",
    "outlook": "prefetcher",
    "mischief": "nemesis",
    "forger": "rogue client",
    "usurper": "impersonator",
    "referee": "log checker",
}
"""Each with what it is called."""

ALLOWED = {
    "CHANGELOG.md",  # what was, was called so
    "docs/guide/migration.md",
    "docs/quality/benchmarks/results.json",
    "tests/test_vocabulary.py",
}

UNCLEAR = re.compile(
    r"(?<![-`\w])(nobody|somebody|everybody|anybody|whoever|anew|(?:is|are) told(?! apart))(?![-`\w])",
    re.IGNORECASE,
)
"""Words whose sentences need a second reading: name the subject, and what it does."""

UNCLEAR_NAMES = {"found", "known", "there", "given", "wanted", "one"}
"""Names of variables and parameters that do not say what the thing is: say it (``entries``, ``topic_names``)."""

PUBLIC_NAMES = {
    "spark_eos/extensions/backup/restoring.py: found",
    "spark_eos/extensions/backup/verifying.py: found",
    "spark_eos/extensions/value_formats/formats.py: given",
    "spark_eos/maintenance/copying.py: found",
    "spark_eos/maintenance/verify/report.py: found",
    "spark_eos/maintenance/verify/verify.py: found",
    "spark_eos/monitoring/lag.py: found",
}
"""Parameters that others name in their calls."""

PROSE = ("docs/", "spark_eos/", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "jobs/", "notebooks/")

WORD = re.compile(r"(?<![A-Za-z])(" + "|".join(f"{word}s?" for word in OLD) + r")(?![A-Za-z])", re.IGNORECASE)


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()]


def old_words(text: str) -> list[str]:
    """The old words in a text, also inside of identifiers."""
    lower = text.lower()
    if not any(word in lower for word in OLD):  # The expression takes ten times as long.
        return []
    return sorted({found[0].lower() for found in WORD.finditer(text)})


def test_old_words_do_not_come_back():
    found = []
    for name in tracked():
        if name in ALLOWED or name.startswith("tests/golden/v"):
            continue
        found += [f"{name}: {word}" for word in old_words(name)]
        try:
            text = (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{name}: {word}" for word in old_words(text)]
    assert found == [], "see tests/test_vocabulary.py for the words to use"


def test_sentences_name_their_subject():
    found = []
    for name in tracked():
        if name.startswith(PROSE) and name.endswith((".md", ".py")) and name not in ALLOWED:
            lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
            found += [
                f"{name}:{at}: {line.strip()}" for at, line in enumerate(lines, 1) if UNCLEAR.search(line)
            ]
    assert found == []


def test_they_are_found_inside_of_identifiers():
    assert old_words("self._company.leave(); TheUpkeep = meeting_on") == ["company", "meeting"]
    assert old_words("accompany, sweepstakes, a company's upkeep") == ["company", "upkeep"]


def named(text: str) -> set[str]:
    """The variables and parameters that a module has."""
    nodes = [*ast.walk(ast.parse(text))]
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in nodes if isinstance(node, ast.arg)}


def test_names_say_what_a_thing_is():
    unclear = {
        f"{name}: {word}"
        for name in tracked()
        if name.startswith("spark_eos/") and name.endswith(".py")
        for word in named((ROOT / name).read_text(encoding="utf-8")) & UNCLEAR_NAMES
    }
    assert unclear == PUBLIC_NAMES


def test_names_are_those_of_variables_and_parameters():
    assert named("def known(given, *, one=1): found = there = one.wanted") == {
        "given",
        "one",
        "found",
        "there",
    }
