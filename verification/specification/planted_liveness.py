"""Mistakes planted in `specs/Commit.tla`, each of which lets a call of group commit wait for ever: liveness."""

from __future__ import annotations

from verification.specification.tlc import SPECS, check

__all__ = ["PLANTED", "waits_for_ever"]

PLANTED = {
    "a follower waits until an entry comes": (
        r'proc[p].pc \in {"waiting", "lagging"} /\ ~doubt[proc[p].cur].found',
        r'proc[p].pc \in {"waiting", "lagging"} /\ ~doubt[proc[p].cur].found /\ proc[p].read >= proc[p].draft.slot',
    ),
    "the slot of what was withdrawn is not noted": (
        "IF d.slot = Next_ THEN [d EXCEPT !.slot = n] ELSE d",
        "d",
    ),
    "a process that stops waiting submits again": (r"\A one \in box[p] : one.slot <= proc[p].read", "TRUE"),
    "the slot of what was withdrawn is not filled": (r"d.was /\ (d.slot = slot \/ d.until >= slot)", "FALSE"),
    "a taken slot is left with the next entry": ("me.read >= me.draft.slot", "me.read > me.draft.slot"),
}
"""A rule, as text of the specification, and what stands in its place."""


def waits_for_ever(name: str) -> bool:
    """Whether a call is not answered, with this mistake.

    Raises
    ------
    benchmarks.jars.Missing
        There is no Maven, or it cannot fetch TLC.
    """
    rule, planted = PLANTED[name]
    text = (SPECS / "Commit.tla").read_text(encoding="utf-8")
    if text.count(rule) != 1:
        raise ValueError(f"Commit.tla has {text.count(rule)} rules {rule}")
    others = {"Commit.tla": text.replace(rule, planted)}
    try:
        check("CommitGroupLive", module="CommitModel", others=others)
    except RuntimeError as error:
        if "Temporal properties were violated" in str(error):
            return True
        raise
    return False
