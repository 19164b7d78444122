"""Recorded runs, checked by TLC to be behaviours of `specs/Commit.tla`: many of them in one run of TLC."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from verification.specification.recording import Event
from verification.specification.tlc import SPECS, run

__all__ = ["Rejected", "behaviours", "module", "rejected"]

_ENDED = re.compile(r'<<"ended", (\d+)>>')
_AT = re.compile(r'<<"at", (\d+), (\d+)>>')

_SETTINGS = """SPECIFICATION TraceSpec
CONSTANTS Procs <- Processes
          Each <- EachOf
          Traces <- Recorded
          MaxEnd = 1000000
          MaxFaults = 1000000
          Exact = FALSE
          Remembered = 64
INVARIANTS Ended{told}
CHECK_DEADLOCK FALSE
"""


class Rejected(NamedTuple):
    """A trace that is no behaviour: its number, its steps up to the one that the specification does not allow."""

    trace: int
    steps: tuple[Event, ...]

    def __str__(self) -> str:
        *before, last = map(str, self.steps[-12:])
        return "\n".join([f"trace {self.trace}:", *before, f"{last} <- is not allowed"])


def rejected(traces: Sequence[Sequence[Event]], *, most: int = 3) -> list[Rejected]:
    """The traces that are no behaviours of the specification, in order; the first ``most`` of them.

    Raises
    ------
    benchmarks.jars.Missing
        There is no Maven, or it cannot fetch TLC.
    """
    ended = _ended(traces)
    missing = [number for number in range(1, len(traces) + 1) if number not in ended][:most]
    return [_explained(number, traces[number - 1]) for number in missing]


def behaviours(traces: Sequence[Sequence[Event]]) -> list[bool]:
    """Of each trace whether it is a behaviour of the specification."""
    ended = _ended(traces)
    return [number in ended for number in range(1, len(traces) + 1)]


def _ended(traces: Sequence[Sequence[Event]]) -> set[int]:
    return {int(number) for number in _ENDED.findall(_run(traces))}


def _explained(number: int, trace: Sequence[Event]) -> Rejected:
    at = max(int(step) for _, step in _AT.findall(_run([trace], told=True)))
    return Rejected(number, tuple(trace[:at]))


def _run(traces: Sequence[Sequence[Event]], *, told: bool = False) -> str:
    files = {file: (SPECS / file).read_text(encoding="utf-8") for file in ("Commit.tla", "CommitTrace.tla")}
    output = run("Recorded", module(traces), _SETTINGS.format(told=" At" if told else ""), files)
    if "Model checking completed" not in output:
        raise RuntimeError(f"TLC could not check the traces:\n{output[-3000:]}")
    return output


def module(traces: Sequence[Sequence[Event]]) -> str:
    """The TLA+ module that says what was recorded."""
    processes = max((event.process for trace in traces for event in trace), default=1)
    requests = max((number for trace in traces for event in trace for _, number in event.requests), default=1)
    # Equal steps have one name, so that there is less to parse.
    steps: dict[str, str] = {}
    lines = []
    for trace in traces:
        names = [steps.setdefault(_step(event), f"e{len(steps)}") for event in trace]
        lines.append(f"<<{', '.join(names)}>>")
    return "\n".join(
        [
            "---- MODULE Recorded ----",
            "EXTENDS CommitTrace",
            f"Processes == 1 .. {processes}",
            f"EachOf == [p \\in Processes |-> {requests}]",
            'At == PrintT(<<"at", t, i>>)',
            *(f"{name} == {text}" for text, name in steps.items()),
            "Recorded == <<",
            ",\n".join(lines),
            ">>",
            "====",
        ]
    )


def _step(event: Event) -> str:
    a, b = (str(flag).upper() for flag in event.flags)
    return (
        f'[k |-> "{event.kind}", p |-> {event.process}, s |-> {event.slot}, r |-> {_set(map(_pair, event.requests))}, '
        f"a |-> {a}, b |-> {b}, o |-> {_set(map(str, event.others))}]"
    )


def _pair(name: tuple[int, int]) -> str:
    return f"<<{name[0]}, {name[1]}>>"


def _set(members: Iterable[str]) -> str:
    return f"{{{', '.join(members)}}}"
