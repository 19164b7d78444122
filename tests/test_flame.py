"""The flame graph of benchmarks/journal/speed.md is drawn from what was seen."""

from __future__ import annotations

import time
from collections import Counter
from xml.etree import ElementTree as ET

from benchmarks.flame import WIDTH, sampled, svg


def _inner() -> None:
    time.sleep(0.1)


def _outer() -> None:
    _inner()


def test_callers_are_below_whom_they_call() -> None:
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
