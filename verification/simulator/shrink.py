"""A failing run made small: fewer actors, less kinds of trouble, a simpler store, a shorter story."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace

from verification.simulator.scenario import Plan
from verification.simulator.world import FaultProfile

__all__ = ["shrink"]


def shrink(plan: Plan, fails: Callable[[Plan], bool], tries: int = 200) -> Plan:
    """The smallest plan found that still fails, after at most ``tries`` runs.

    Each step leaves one thing out; what the seed decides changes with it, so a step that does not fail any
    more says nothing about the fault.
    """
    left = tries
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(plan):
            if left == 0:
                return plan
            left -= 1
            if fails(candidate):
                plan, smaller = candidate, True
                break
    return plan


def _smaller(plan: Plan) -> Iterator[Plan]:
    for share in (0.25, 0.5, 0.8):
        operations = int(plan.operations * share)
        if operations >= 20:
            yield replace(plan, operations=operations)
    if plan.remote:
        yield replace(plan, remote=False)
    for role in plan.cast:
        yield replace(plan, cast=tuple(other for other in plan.cast if other != role))
    for trouble in fields(FaultProfile):
        if getattr(plan.fault_profile, trouble.name):
            yield replace(plan, fault_profile=replace(plan.fault_profile, **{trouble.name: 0.0}))
