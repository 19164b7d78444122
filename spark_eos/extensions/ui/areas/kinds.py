"""The kind of program that has written a request, by what it did."""

from __future__ import annotations

from spark_eos.protocol.actions import Request

_ACTIONS = "spark_eos.protocol.actions."

_OF_MODULE = {
    "queries": "Spark queries",
    "app_versions": "batch jobs",
    "producers": "producers",
    "appends": "producers",
    "two_phase": "producers",
    "publishing": "publications",
    "segments": "maintenance",
    "staging_floor": "maintenance",
    "log_start": "maintenance",
    "expiry": "maintenance",
    "groups": "consumers",
    "offsets": "consumers",
    "topics": "administration",
    "log": "administration",
    "log_time": "administration",
    "encryption": "administration",
    "data_place": "administration",
}
"""By the module of an action. Of several kinds in a request the first one here counts: a query appends, too."""

_OTHER = "others"

KINDS = (*dict.fromkeys(_OF_MODULE.values()), _OTHER)


def kind_of(request: Request) -> str:
    """One of `KINDS`."""
    return min((kind_of_action(type(action)) for action in request.actions), key=KINDS.index, default=_OTHER)


def kind_of_action(action: type[object]) -> str:
    """The same for one class of actions."""
    return _OF_MODULE.get(action.__module__.removeprefix(_ACTIONS).partition(".")[0], _OTHER)
