"""The logs in which the explorer's scenarios of transactions may end, as steps of `specs/Transactions.tla`."""

from __future__ import annotations

from spark_eos.log import paths
from verification.explorer.actor_programs import TOPIC
from verification.explorer.scenarios import SCENARIOS
from verification.explorer.search import logs
from verification.specification.client_trace import trace
from verification.specification.requests import Step

__all__ = ["EXPLORED", "record"]

EXPLORED = (
    "zombies",
    "streamed-zombies",
    "expiry",
    "visitors",
    "ends",
    "prepared",
    "undecided",
    "undecided-streamed",
    "both-ways",
    "both-ways-streamed",
)
"""Scenarios whose producers all have a transactional id."""


def record(name: str, *, states: int) -> list[list[Step]]:
    """The logs that an exploration of so many states of a scenario comes to."""
    found = []
    for entries in logs(SCENARIOS[name], states=states):
        named = {paths.entry(seq): data for seq, data in enumerate(entries)}
        found.append(trace(named.get, topic=TOPIC))
    return found
