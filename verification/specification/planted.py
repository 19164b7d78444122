"""Mistakes planted in `specs/Commit.tla`: one run of TLC tries many of them, and says which rule each one breaks.

A planted rule stands beside the right one: ``IF mistake = 3 THEN planted ELSE rule``. Each mistake has an initial
state of its own. When it is seen, none of its states is followed any further.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from verification.specification.tlc import SPECS, run

__all__ = ["PLANTED", "Mistake", "seen", "with_mistakes"]


class Mistake(NamedTuple):
    """A rule, as text of the specification, what stands in its place, the model that sees it, and as what."""

    rule: str
    planted: str
    kind: str
    violated: str
    also: tuple[tuple[str, str], ...] = ()
    """Other rules, without which the mistake does no harm."""


PLANTED = {
    "a taken name is given again": Mistake(r"slot > End \/ slot <= gone", "TRUE", "alone", "Acked"),
    "no reply is a no": Mistake("[doubt[r] EXCEPT !.unanswered = TRUE]", "doubt[r]", "alone", "Refused"),
    "a repeated try forgets the earlier one": Mistake(
        r"d.submitted \/ d.slot = slot", "FALSE", "alone", "Refused"
    ),
    "a taken slot is ours": Mistake(r"me.draft.own # {} /\ d.found", "me.draft.own # {}", "alone", "Acked"),
    "the own entry is not recognised": Mistake(r"me.draft.own # {} /\ d.found", "FALSE", "alone", "Refused"),
    "refused while it may land": Mistake("d.slot <= proc[p].read", "TRUE", "alone", "Refused"),
    "refused while it is submitted": Mistake("d.open => ~d.submitted", "TRUE", "group", "Refused"),
    "refused while a leader has it": Mistake(
        "[d EXCEPT !.submitted = FALSE, !.slot = Next_]", "[d EXCEPT !.submitted = FALSE]", "group", "Refused"
    ),
    "taken along again": Mistake(r"one.req \notin Ids(chain[n])", "TRUE", "group", "Once"),
    "taken along by a leader that forgot": Mistake("one.slot > proc[p].base", "TRUE", "all", "Once"),
    "a taken slot settles what is submitted": Mistake(
        r"d.submitted \/ (d.unanswered /\ d.lost)", r"d.unanswered /\ d.lost", "group", "Refused"
    ),
    "reported before it is created": Mistake("Reports(draft, FALSE)", "Reports(draft, TRUE)", "lag", "Acked"),
    "a report of other requests is a yes": Mistake(
        r'proc[p].cur \in report.reqs <=> said = "yes"', 'said = "yes"', "lag", "Acked"
    ),
    "a report without the request is a no": Mistake(
        """TakesOver(p, report, "yes")""",
        r"""\E said \in {"yes", "no"} : TakesOver(p, report, said)""",
        "lag",
        "Refused",
    ),
    "a later slot is taken along": Mistake(
        "one.slot <= proc[p].read + 1",
        "TRUE",
        "group",
        "Once",
        # As after a restore from a copy: what is submitted names a slot beyond the next one.
        (
            (
                "[slot |-> proc[p].read + 1, req |-> proc[p].cur, again |-> doubt[proc[p].cur].lost]",
                "[slot |-> proc[p].read + 2, req |-> proc[p].cur, again |-> FALSE]",
            ),
        ),
    ),
    "lagging with what is in doubt": Mistake("doubt[r] = Certain", "TRUE", "lag", "Once"),
    "taken along beyond its reach": Mistake("proc[p].read + 1 < one.slot + reach", "TRUE", "net", "Refused"),
    "a withdrawal over a network is certain": Mistake("d.until <= proc[p].read", "TRUE", "net", "Refused"),
    "an entry that was not read is a no": Mistake(r"d.lost \/ ~d.found", "d.lost", "old", "Refused"),
    "a busy store is a no": Mistake(r"~d.unanswered /\ ~d.lost", "~d.unanswered", "old", "Refused"),
    "a name that was deleted is a slot": Mistake("me.draft.slot > gone", "TRUE", "old", "Acked"),
    "a snapshot is read as it was": Mistake("In(SubSeq(chain, 1, s))", "proc[p].view", "old", "Agree"),
}
"""The mistakes. The last word is the invariant that TLC reports."""

_INVARIANTS = ("Once", "Acked", "Refused", "Agree", "NoGap")
_SEEN = re.compile(r'<<"seen", (\d+), "(\w+)">>')


def with_mistakes(specification: str, mistakes: Sequence[Sequence[tuple[str, str]]]) -> str:
    """The specification with a variable ``mistake``: a number from 1 on has what is planted in place of its rules."""
    text = (SPECS / f"{specification}.tla").read_text(encoding="utf-8")
    for rule in dict.fromkeys(rule for rules in mistakes for rule, _ in rules):
        if text.count(rule) != 1:
            raise ValueError(f"{specification}.tla has {text.count(rule)} rules {rule}")
        planted = "".join(
            f"IF mistake = {number} THEN ({wrong}) ELSE "
            for number, rules in enumerate(mistakes, 1)
            for right, wrong in rules
            if right == rule
        )
        text = text.replace(rule, f"({planted}({rule}))")
    return text.replace("\nVARIABLES\n", "\nVARIABLE mistake\nVARIABLES\n")


def seen(names: Sequence[str] = tuple(PLANTED)) -> dict[str, str | None]:
    """The invariant that each mistake breaks, or None.

    Raises
    ------
    benchmarks.jars.Missing
        There is no Maven, or it cannot fetch TLC.
    """
    text = with_mistakes(
        "Commit", [[(PLANTED[name].rule, PLANTED[name].planted), *PLANTED[name].also] for name in names]
    )
    begins = ", ".join(f'<<{number}, "{PLANTED[name].kind}">>' for number, name in enumerate(names, 1))
    model = (SPECS / "CommitModel.tla").read_text(encoding="utf-8")
    model = model.replace(
        r"kind \in Kinds", rf"(\E one \in {{{begins}}} : mistake = one[1] /\ kind = one[2])"
    )
    model = model.replace(
        "kind' = kind]_<<vars, kind>>", "kind' = kind /\\ mistake' = mistake]_<<vars, kind, mistake>>"
    )
    told = "\n".join(
        f'Sees{one} == {one} \\/ TLCGet(mistake) \\/ (TLCSet(mistake, TRUE) /\\ PrintT(<<"seen", mistake, "{one}">>))'
        for one in _INVARIANTS
    )
    end = "=" * 77
    first = f"ASSUME \\A n \\in 1 .. {len(names)} : TLCSet(n, FALSE)"
    model = model.replace(end, f"{first}\n{told}\nUnseen == Bounded /\\ ~TLCGet(mistake)\n{end}")
    settings = (SPECS / "CommitModel.cfg").read_text(encoding="utf-8")
    settings = settings.replace('Calls = {"none"}', 'Calls = {"none", "unknown"}').replace(
        "OfLeaders = 1", "OfLeaders = 2"
    )
    settings = re.sub(
        "INVARIANTS .*", f"INVARIANTS {' '.join('Sees' + one for one in _INVARIANTS)}", settings
    )
    settings = re.sub("PROPERTY .*\n", "", settings).replace("CONSTRAINT Bounded", "CONSTRAINT Unseen", 1)
    output = run("CommitModel", model, settings, {"Commit.tla": text})
    if "Model checking completed" not in output:
        raise RuntimeError(f"TLC could not check the mistakes:\n{output[-3000:]}")
    found = {int(number): invariant for number, invariant in reversed(_SEEN.findall(output))}
    return {name: found.get(number) for number, name in enumerate(names, 1)}
