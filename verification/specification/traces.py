"""Recorded runs, checked by TLC to be behaviours of a specification: many of them in one run of TLC.

Runs of `verification.specification.worlds` and of `verification.specification.real_processes` are held against
`specs/Commit.tla` (`COMMIT`), those of `verification.specification.requests` against `specs/Transactions.tla`
(`TRANSACTIONS`), and those of `verification.specification.query_runs` and `verification.specification.query_trace`
against `specs/Runs.tla` (`RUNS`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from verification.specification import query_runs
from verification.specification.events import Event
from verification.specification.requests import GROUPS, NAMES, PARTITIONS, Step
from verification.specification.tlc import SPECS, run

__all__ = ["COMMIT", "COMMIT_EXACT", "RUNS", "TRANSACTIONS", "Form", "Rejected", "behaviours", "rejected"]

_ENDED = re.compile(r'<<"ended", (\d+)>>')
_AT = re.compile(r'<<"at", (\d+), (\d+)>>')

_OF_COMMIT = """SPECIFICATION TraceSpec
CONSTANTS Procs <- Processes
          Each <- EachOf
          MaxEnd = 1000000
          MaxFaults = 1000000
          Exact = FALSE
          Remembered = 64
INVARIANTS Ended{told}
CHECK_DEADLOCK FALSE
"""

_OF_TRANSACTIONS = f"""SPECIFICATION TraceSpec
CONSTANTS Names = {{{", ".join(f'"{name}"' for name in NAMES)}}}
          Parts <- Partitions
          Groups = {{{", ".join(f'"{group}"' for group in GROUPS)}}}
INVARIANTS Ended{{told}}
CHECK_DEADLOCK FALSE
"""

_OF_RUNS = f"""SPECIFICATION TraceSpec
CONSTANTS Names = {{{", ".join(f'"{name}"' for name in query_runs.NAMES)}}}
          Groups = {{{", ".join(f'"{group}"' for group in query_runs.GROUPS)}}}
          Vacuums = {{"v"}}
          Readers = {{{", ".join(map(str, query_runs.READERS))}}}
INVARIANTS Ended{{told}}
CHECK_DEADLOCK FALSE
"""


class Form(NamedTuple):
    """Traces of one specification: its name, the settings of TLC, how a step is written, and what is defined first."""

    name: str
    settings: str
    step: Callable[[Any], str]
    first: Callable[[Sequence[Sequence[Any]]], list[str]]


class Rejected(NamedTuple):
    """A trace that is no behaviour: its number, its steps up to the one that the specification does not allow."""

    trace: int
    steps: tuple[Event | Step | query_runs.Step, ...]

    def __str__(self) -> str:
        *before, last = map(str, self.steps[-12:])
        return "\n".join([f"trace {self.trace}:", *before, f"{last} <- is not allowed"])


def rejected(traces: Sequence[Sequence[Any]], form: Form, *, most: int = 3) -> list[Rejected]:
    """The traces that are no behaviours of the specification, in order; the first ``most`` of them.

    Raises
    ------
    benchmarks.jars.Missing
        There is no Maven, or it cannot fetch TLC.
    """
    ended = _ended(traces, form)
    missing = [number for number in range(1, len(traces) + 1) if number not in ended][:most]
    return [_explained(number, traces[number - 1], form) for number in missing]


def behaviours(traces: Sequence[Sequence[Any]], form: Form) -> list[bool]:
    """Of each trace whether it is a behaviour of the specification."""
    ended = _ended(traces, form)
    return [number in ended for number in range(1, len(traces) + 1)]


def _ended(traces: Sequence[Sequence[Any]], form: Form) -> set[int]:
    return {int(number) for number in _ENDED.findall(_run(traces, form))}


def _explained(number: int, trace: Sequence[Any], form: Form) -> Rejected:
    at = max(int(step) for _, step in _AT.findall(_run([trace], form, told=True)))
    return Rejected(number, tuple(trace[:at]))


def _run(traces: Sequence[Sequence[Any]], form: Form, *, told: bool = False) -> str:
    names = (f"{form.name}.tla", f"{form.name}Trace.tla")
    files = {file: (SPECS / file).read_text(encoding="utf-8") for file in names}
    output = run(
        "Recorded", _module(traces, form), form.settings.replace("{told}", " At" if told else ""), files
    )
    if "Model checking completed" not in output:
        raise RuntimeError(f"TLC could not check the traces:\n{output[-3000:]}")
    return output


def _module(traces: Sequence[Sequence[Any]], form: Form) -> str:
    """The TLA+ module that says what was recorded."""
    # Equal steps have one name, so that there is less to parse.
    steps: dict[str, str] = {}
    lines = []
    for trace in traces:
        names = [steps.setdefault(form.step(event), f"e{len(steps)}") for event in trace]
        lines.append(f"<<{', '.join(names)}>>")
    return "\n".join(
        [
            "---- MODULE Recorded ----",
            f"EXTENDS {form.name}Trace",
            *form.first(traces),
            'At == PrintT(<<"at", t, i>>)',
            *(f"{name} == {text}" for text, name in steps.items()),
            "Recorded == <<",
            ",\n".join(lines),
            ">>",
            "ASSUME TLCSet(1, Recorded)",
            "====",
        ]
    )


def _processes(traces: Sequence[Sequence[Event]]) -> list[str]:
    processes = max((event.process for trace in traces for event in trace), default=1)
    requests = max((number for trace in traces for event in trace for _, number in event.requests), default=1)
    return [f"Processes == 1 .. {processes}", f"EachOf == [p \\in Processes |-> {requests}]"]


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


def _request(step: Step) -> str:
    """Producer ids, offsets and partitions begin at 1 in the specification, not at 0."""
    stamp = step.stamp
    positions = ", ".join(
        f'"{group}" :> <<{", ".join(map(str, tag))}>>'
        for group, tag in zip(GROUPS, step.positions, strict=True)
    ).replace(', "', ' @@ "')
    return (
        f'[k |-> "{step.kind}", x |-> "{step.name}", p |-> {stamp.producer_id + 1}, e |-> {stamp.epoch}, '
        f"n |-> {stamp.number}, w |-> {_set(str(number + 1) for number in step.partitions)}, "
        f"c |-> {str(step.flag).upper()}, ok |-> {str(step.accepted).upper()}, "
        f"l |-> <<{', '.join(str(offset + 1) for offset in step.stable)}>>, "
        f"v |-> <<{', '.join(map(str, step.visible))}>>, g |-> {positions}]"
    )


COMMIT = Form("Commit", _OF_COMMIT, _step, _processes)

COMMIT_EXACT = COMMIT._replace(settings=_OF_COMMIT.replace("Exact = FALSE", "Exact = TRUE"))
"""For traces of stores that never say of what a request made that its name was taken before."""

TRANSACTIONS = Form(
    "Transactions", _OF_TRANSACTIONS, _request, lambda _: [f"Partitions == 1 .. {PARTITIONS}"]
)


def _of_run(step: query_runs.Step) -> str:
    size, floor, runs, batches, positions, used, stored = step.after
    work = ""
    if step.work:
        name, query, run, number, group, start, end, file = step.work
        work = (
            f'w |-> [x |-> "{name}", q |-> "{query}", r |-> "{run}", b |-> {number}, g |-> "{group}", '
            f"from |-> {start}, to |-> {end}, f |-> {_file(file)}], "
        )
    named = [
        f"{key} |-> {' @@ '.join(map(_mapped, names, values))}"
        for key, names, values in (
            ("r", query_runs.NAMES, runs),
            ("b", query_runs.NAMES, batches),
            ("p", query_runs.GROUPS, positions),
        )
    ]
    return (
        f'[k |-> "{step.kind}", x |-> "{step.name}", n |-> {step.number}, {work}f |-> {_file(step.file)}, '
        f'ok |-> "{step.said}", z |-> <<{size}, {floor}>>, {", ".join(named)}, '
        f"u |-> {_set(map(_pair, used))}, s |-> {stored}]"
    )


def _mapped(name: str, value: str | int) -> str:
    return f'("{name}" :> {_text(value)})'


def _file(file: tuple[int, int] | None) -> str:
    return "<<>>" if file is None else _pair(file)


def _text(value: str | int) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


RUNS = Form("Runs", _OF_RUNS, _of_run, lambda _: [])
