"""The simulator, the explorer and the chaos campaign hand settings in (`spark_eos.log.environment`)."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent / "verification"

PATCH = re.compile(r"\bmock\.patch|\bpatch\(|\bmonkeypatch\b|\bsetattr\(")

STILL = {
    "disk/disk.py": 2,  # the calls of `os`, which it watches
    "explorer/scenario.py": 1,  # the size of index pages, which is a part of the format
    "simulator/scenario.py": 1,  # the same
}
"""Patches that are left. The list may only get shorter."""


def patches(text: str) -> int:
    return len(PATCH.findall(text))


def test_nothing_is_patched():
    found = {
        str(path.relative_to(ROOT)): patches(path.read_text(encoding="utf-8")) for path in ROOT.rglob("*.py")
    }
    assert {name: count for name, count in found.items() if count} == STILL


def test_patches_are_found():
    assert patches("with mock.patch.object(a, 'b', 1), mock.patch.multiple(c, d=2): setattr(a, 'b', 1)") == 3
