"""The flame graph of benchmarks/journal/speed.md is drawn from what was seen."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from types import FrameType
from xml.etree import ElementTree as ET

import pytest

from benchmarks import flame
from benchmarks.flame import WIDTH, sampled, svg

_seen = threading.Event()


def _inner() -> None:
    while not _seen.is_set():
        time.sleep(0.001)


def _outer() -> None:
    _inner()


def test_callers_are_below_whom_they_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def names(frame: FrameType | None) -> Iterator[str]:
        found = [*in_stack(frame)]
        if "_inner" in found[0]:
            _seen.set()
        return iter(found)

    in_stack = flame._names
    monkeypatch.setattr(flame, "_names", names)
    stacks = sampled(_outer)
    (stack,) = {
        tuple(name.split(":")[0] for name in stack if "test_flame" in name)
        for stack in stacks
        if "_inner" in stack[-1]
    }
    assert stack == ("test_flame._outer", "test_flame._inner")


def test_boxes_are_as_wide_as_what_they_show_was_long() -> None:
    root = ET.fromstring(svg("a & b", Counter({("f", "g"): 3, ("f", "<h>"): 1})))
    boxes = {
        group[0].text: (float(group[1].get("width", 0)), float(group[1].get("y", 0)))
        for group in root
        if group.tag.endswith("}g")
    }
    widths = {name: wide for name, (wide, _) in boxes.items()}
    assert widths == {"f 100.0%": WIDTH, "g 75.0%": WIDTH * 3 / 4, "<h> 25.0%": WIDTH / 4}
    assert boxes["f 100.0%"][1] > boxes["g 75.0%"][1]
