"""Mistakes planted in `specs/Transactions.tla`, as in `verification.specification.planted`: one run tries them all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from verification.specification.planted import with_mistakes
from verification.specification.tlc import SPECS, run

__all__ = ["PLANTED", "Mistake", "seen"]


class Mistake(NamedTuple):
    """A rule, as text of the specification, what stands in its place, and the promise that is broken then."""

    rule: str
    planted: str
    violated: str


_GIVEN = r"commit /\ me.held[g] > Stands(g)"
_BEGINS = r"~Open(p) /\ n = prod[p].num + 1"
_PREPARED = '[With(p, n) EXCEPT !.st = "Prepared", !.epoch = e + 1, !.token = e + 1]'
_TAKEN_OVER = "Complete(p, me, FALSE)"
_KEPT = r'keep /\ me.st = "Prepared"'

PLANTED = {
    "an aborted transaction is not listed": Mistake(
        r"aborted[d] \union {<<p, me.num>>}", "aborted[d]", "Clean"
    ),
    "the LSO stands still": Mistake("{o \\in opened[d] : o[1] # p}", "opened[d]", "Free"),
    "a transaction is opened behind its first record": Mistake(
        "<<p, Len(part[d]) + 1>>", "<<p, Len(part[d]) + 2>>", "Clean"
    ),
    "an abort gives positions": Mistake(_GIVEN, r"me.held[g] > Stands(g)", "Whole"),
    "a commit loses positions": Mistake(_GIVEN, "FALSE", "Whole"),
    "an earlier position comes over a later one": Mistake(_GIVEN, r"commit /\ me.held[g] > 0", "Forward"),
    "a partition is forgotten": Mistake(r"@ \union where", "where", "Free"),
    "a fenced epoch writes": Mistake("e = prod[p].epoch", "TRUE", "Step"),
    "a prepared transaction times out": Mistake(
        'me.st = "Ongoing"', r'me.st \in {"Ongoing", "Prepared"}', "Agreed"
    ),
    "a successor aborts what is prepared": Mistake(_KEPT, "FALSE", "Agreed"),
    "a prepared transaction takes records": Mistake(
        'prod[p].st = "Ongoing" /\\ n = prod[p].num', "n = prod[p].num", "Whole"
    ),
    "two transactions have one token": Mistake(_PREPARED, _PREPARED.replace("e + 1", "e"), "Token"),
    "two transactions at once": Mistake(_BEGINS, "n = prod[p].num + 1", "Clean"),
    "a number comes again": Mistake(_BEGINS, r"~Open(p) /\ n \in {prod[p].num, prod[p].num + 1}", "Whole"),
    "a late end decides the next transaction": Mistake(
        r'prod[p].st = "Prepared" /\ n = prod[p].num', "Open(p)", "Asked"
    ),
    "a successor leaves a transaction open": Mistake(_TAKEN_OVER, "Same", "Free"),
    "a successor commits": Mistake(_TAKEN_OVER, "Complete(p, me, TRUE)", "Asked"),
    "an open transaction loses its id": Mistake("~Open(named[x])", "TRUE", "Owned"),
    "readers see what is aborted": Mistake(
        r"<<part[d][o].p, part[d][o].n>> \notin aborted[d]", "TRUE", "Clean"
    ),
    "readers do not stop at the LSO": Mistake("1 .. Lso(d) - 1", "1 .. Len(part[d])", "Clean"),
}
"""The mistakes. The last word is what TLC reports first."""

_PROMISES = (
    "Clean",
    "Stops",
    "Free",
    "Whole",
    "Forward",
    "Waits",
    "Owned",
    "Once",
    "Asked",
    "Token",
    "Agreed",
)
_SEEN = re.compile(r'<<"seen", (\d+), "(\w+)">>')


def seen(names: Sequence[str] = tuple(PLANTED)) -> dict[str, str | None]:
    """The promise that each mistake breaks, or None.

    Raises
    ------
    benchmarks.jars.Missing
        There is no Maven, or it cannot fetch TLC.
    """
    text = with_mistakes("Transactions", [[(PLANTED[name].rule, PLANTED[name].planted)] for name in names])
    model = (SPECS / "TransactionsModel.tla").read_text(encoding="utf-8")
    told = "\n".join(
        f"Sees{one} == {one} \\/ TLCGet(mistake) \\/ "
        f'(TLCSet(mistake, TRUE) /\\ PrintT(<<"seen", mistake, "{one}">>))'
        for one in (*_PROMISES, "Step")
    )
    numbers = f"1 .. {len(names)}"
    planted = f"""ASSUME \\A n \\in {numbers} : TLCSet(n, FALSE)
{told}
Unseen == ~TLCGet(mistake)
PlantedSpec == Init /\\ mistake \\in {numbers} /\\ [][Next /\\ mistake' = mistake]_<<vars, mistake>>
"""
    end = "=" * 77
    settings = (SPECS / "TransactionsModel.cfg").read_text(encoding="utf-8")
    settings = settings.replace("SPECIFICATION Spec", "SPECIFICATION PlantedSpec")
    settings = re.sub("INVARIANTS .*", f"INVARIANTS {' '.join('Sees' + one for one in _PROMISES)}", settings)
    settings = re.sub("PROPERTY .*", "CONSTRAINT Unseen\nACTION_CONSTRAINT SeesStep", settings)
    output = run("TransactionsModel", model.replace(end, planted + end), settings, {"Transactions.tla": text})
    if "Model checking completed" not in output:
        raise RuntimeError(f"TLC could not check the mistakes:\n{output[-3000:]}")
    found = {int(number): promise for number, promise in reversed(_SEEN.findall(output))}
    return {name: found.get(number) for number, name in enumerate(names, 1)}
