"""What the leader of group commit reports of the requests of others that it has put into the newest entries. Pure.

A line for each entry, the newest one last: its number, how many requests it holds, the lineage after it in hexadecimal
digits, and a JSON object with the results of requests by their ids.
Requests with an action whose result cannot be reported are left out (`Answer` in
`spark_eos.protocol.actions.declaration`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from spark_eos.protocol.actions import Action
from spark_eos.protocol.actions.declaration import DECLARED

KEPT = 8
"""A leader reports the outcomes of so many of the newest entries."""


class Report(NamedTuple):
    """A request that is in an entry, and what each of its actions came to."""

    request_id: bytes
    actions: tuple[Action, ...]
    results: tuple[Any, ...]


class FoundRequest(NamedTuple):
    """The entry that holds a request, the lineage after it, and what the actions of the request came to."""

    seq: int
    lineage: bytes
    results: tuple[Any, ...]


def are_reportable(actions: Iterable[Action]) -> bool:
    """Whether the results of these actions can be reported."""
    return all(DECLARED[type(action)].answer is not None for action in actions)


def with_entry(earlier: bytes, seq: int, lineage: bytes, requests: Sequence[Report], own: int = 0) -> bytes:
    """What was reported ``earlier``, without what is too old, and the outcomes of ``requests`` in entry ``seq``.

    It holds so many more that are the leader's ``own``.
    """
    lines = [line for line in earlier.split(b"\n")[-KEPT + 1 :] if -1 < _number(line) < seq]
    results_by_id = {
        report.request_id.hex(): _written(report) for report in requests if are_reportable(report.actions)
    }
    parts = (seq, len(requests) + own, lineage.hex().encode(), json.dumps(results_by_id).encode())
    return b"\n".join([*lines, b"%d %d %s %s" % parts])


def read_newest(report: bytes) -> tuple[int, bytes]:
    """The newest entry that has a line, and the lineage after it; -1 if there is none."""
    try:
        number, _, lineage, _ = report[report.rfind(b"\n") + 1 :].split(b" ", 3)
        return int(number), bytes.fromhex(lineage.decode())
    except ValueError:
        return -1, b""


def mean_requests(report: bytes) -> float:
    """How many requests the entries hold that have a line, in the mean."""
    counts = [_number(line.partition(b" ")[2]) for line in report.split(b"\n")]
    return sum(counts) / len(counts)


def read_results(report: bytes, request_id: bytes, actions: Sequence[Action]) -> FoundRequest | None:
    """What was reported of a request with these ``actions``; None if nothing was."""
    at = report.find(request_id.hex().encode())
    if at < 0:
        return None
    start, end = report.rfind(b"\n", 0, at) + 1, report.find(b"\n", at)
    try:
        number, _, lineage, results = report[start : end if end >= 0 else len(report)].split(b" ", 3)
        written = json.loads(results)[request_id.hex()]
        read = tuple(_answer(action).read(result) for action, result in zip(actions, written, strict=True))
        return FoundRequest(int(number), bytes.fromhex(lineage.decode()), read)
    except (KeyError, TypeError, ValueError):
        return None  # By another version. The log tells.


def _written(report: Report) -> list[Any]:
    return [
        _answer(action).write(result) for action, result in zip(report.actions, report.results, strict=True)
    ]


def _answer(action: Action) -> Any:
    return DECLARED[type(action)].answer


def _number(line: bytes) -> int:
    digits = line.partition(b" ")[0]
    return int(digits) if digits.isdigit() else -1
