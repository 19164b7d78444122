"""Mistakes planted in `specs/Runs.tla`, as in `verification.specification.planted`: one run tries them all.

Many rules of runs are there twice: a driver that may not commit does not ask, and the log would refuse it. Where one of
them alone does no harm, the mistake takes out both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from verification.specification.planted import with_mistakes
from verification.specification.tlc import SPECS, run

__all__ = ["LIVE", "PLANTED", "Mistake", "seen"]


class Mistake(NamedTuple):
    """The promise that is broken, the kind of model that sees it, and rules with what stands in their places."""

    violated: str
    kind: str
    rules: tuple[tuple[str, str], ...]


_RECORD = ("IF Others(x, q) = {} THEN NoBatch ELSE last[CHOOSE y \\in Others(x, q) : TRUE]", "NoBatch")
_REPEATS = "w.b = own.b /\\ w.from = own.from /\\ w.to = own.to"
_GOES = ("w.from = before.to", "TRUE")
_POSITION = ("pos[w.g] # -1 /\\ pos[w.g] # w.from", "FALSE")
_HOLDS = ("now[y].runs # <<>> /\\ now[y].runs[Len(now[y].runs)] = w.r", "TRUE")
_EPOCH = ("req.stamp[2] < now[x].epoch", "FALSE")
_NUMBER = ("req.stamp[3] # now[x].num + 1", "FALSE")
_OLDER = ("w.b <= own.b", "FALSE")
_REGISTERS = ("reg[3] # known.epoch + 1 \\/ r \\in In(known.runs)", "FALSE")

PLANTED = {
    "a batch is committed twice": Mistake("Once", "runs", (_OLDER, _GOES, _POSITION, _NUMBER)),
    "a replaced run commits": Mistake(
        "Once", "runs", (_HOLDS, _EPOCH, _REGISTERS, _OLDER, _GOES, _POSITION, _NUMBER)
    ),
    "a run comes back": Mistake(
        "Fenced", "copied", (("Was(w.r, y) /\\ ~Current(w.r, y)", "FALSE"), _REGISTERS)
    ),
    "the same batch with other offsets is a replay": Mistake("Noted", "copied", ((_REPEATS, "w.b = own.b"),)),
    "an older batch is a replay": Mistake("Noted", "copied", ((_REPEATS, "TRUE"),)),
    "history under one id": Mistake("Once", "moves", (_RECORD, _GOES, _POSITION)),
    "the record does not move": Mistake("Known", "moves", (("y \\in Others(w.x, w.q)", "FALSE"),)),
    "the position is not in the entry": Mistake("Together", "runs", (("[pos EXCEPT ![w.g] = w.to]", "pos"),)),
    "the rows are not in the entry": Mistake("Whole", "runs", (("Append(rows, w.f)", "rows"),)),
    "a replay is written again": Mistake("Together", "runs", (("req.new /\\ w.f # None", "w.f # None"),)),
    "vacuum raises no floor": Mistake(
        "Refused", "files", (("size' = size + 1 /\\ floor' = vac[v].floor", "UNCHANGED <<size, floor>>"),)
    ),
    "the floor is not compared": Mistake("Kept", "files", (("req.w.f[1] < floor", "FALSE"),)),
    "a file at the floor is deleted": Mistake("Refused", "files", (("f[1] < at", "f[1] <= at"),)),
    "vacuum does not look behind the floor": Mistake("Kept", "files", (("@ \\ Refs", "@"),)),
    "vacuum does not wait for readers": Mistake("Readable", "files", (("vac[v].before = {}", "TRUE"),)),
    "a refused run deletes what is committed": Mistake(
        "Kept", "runs", (("f \\in made /\\ f \\notin Refs", "TRUE"),)
    ),
}
"""The mistakes."""

LIVE = {
    "what a leader refuses is not asked again": (
        'IF run[d].pc = "asked" THEN "staged"',
        'IF run[d].pc = "asked" THEN "refused"',
    ),
    "a run stops by itself": ("WF_all(Step(d))", "WF_all(Step(d) /\\ run[d].b = 0)"),
}
"""Mistakes in `specs/RunsModel.tla` by which a query stands still though it is started again."""

_PROMISES = (
    "Once",
    "Exact",
    "First",
    "Fenced",
    "Whole",
    "Known",
    "Kept",
    "Readable",
    "Refused",
    "Noted",
    "Together",
)
_SEEN = re.compile(r'<<"seen", (\d+), "(\w+)">>')


def seen(names: Sequence[str] = tuple(PLANTED)) -> dict[str, str | None]:
    """The promise that each mistake breaks first, or None.

    Raises
    ------
    benchmarks.jars.Missing
        There is no Maven, or it cannot fetch TLC.
    """
    text = with_mistakes("Runs", [PLANTED[name].rules for name in names])
    model = (SPECS / "RunsModel.tla").read_text(encoding="utf-8")
    told = "\n".join(
        f"Sees{one} == {one} \\/ TLCGet(mistake) \\/ "
        f'(TLCSet(mistake, TRUE) /\\ PrintT(<<"seen", mistake, "{one}">>))'
        for one in _PROMISES
    )
    kinds = ", ".join(f'<<{number}, "{PLANTED[name].kind}">>' for number, name in enumerate(names, 1))
    planted = f"""ASSUME \\A n \\in 1 .. {len(names)} : TLCSet(n, FALSE)
{told}
Unseen == ~TLCGet(mistake)
PlantedSpec == /\\ ModelInit /\\ \\E one \\in {{{kinds}}} : mistake = one[1] /\\ kind = one[2]
               /\\ [][Next /\\ mistake' = mistake]_<<all, mistake>>
"""
    end = "=" * 77
    settings = (SPECS / "RunsModel.cfg").read_text(encoding="utf-8")
    settings = settings.replace("SPECIFICATION Spec", "SPECIFICATION PlantedSpec")
    settings = re.sub("INVARIANTS .*", f"INVARIANTS {' '.join('Sees' + one for one in _PROMISES)}", settings)
    settings = re.sub("PROPERTY .*", "CONSTRAINT Unseen", settings)
    text = text.replace("EXTENDS Integers", "EXTENDS TLC, Integers")
    output = run("RunsModel", model.replace(end, planted + end), settings, {"Runs.tla": text})
    if "Model checking completed" not in output:
        raise RuntimeError(f"TLC could not check the mistakes:\n{output[-3000:]}")
    found = {int(number): promise for number, promise in reversed(_SEEN.findall(output))}
    return {name: found.get(number) for number, name in enumerate(names, 1)}
