"""Breaks of what the live page says of readers that are behind and of producers that were fenced."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_GROUPS_PAGE, _OF_ADVICE = "spark_eos/ui/areas/groups.py", ("tests/ui/test_advice.py",)
_TAKEOVERS, _OF_TAKEOVERS = "spark_eos/ui/areas/takeovers.py", ("tests/ui/test_takeovers.py",)

MUTANTS = (
    # -- the page: advice and fenced producers ---------------------------------------------------------------
    Mutant(
        "what-is-held-back-is-not-told",
        _GROUPS_PAGE,
        "        held += 0 if part is None else part.end - part.last_stable_offset",
        "        held += 0",
        "a reader waits for an open transaction, and the page names no cause",
        _OF_ADVICE,
    ),
    Mutant(
        "advice-for-who-is-not-behind",
        _GROUPS_PAGE,
        "    if not lag:\n        return found",
        "    if False:\n        return found",
        "the page advises to start consumers of a group that has read everything",
        _OF_ADVICE,
    ),
    Mutant(
        "members-that-left-are-slow",
        _GROUPS_PAGE,
        "    elif name in state.groups and state.groups[name].members:",
        "    elif name in state.groups:",
        "the page advises to add members to a group that has none",
        _OF_ADVICE,
    ),
    Mutant(
        "query-has-no-member",
        _GROUPS_PAGE,
        "    if name in state.queries:\n        cause = (",
        "    if False:\n        cause = (",
        "the page tells of a query that it has no member",
        _OF_ADVICE,
    ),
    Mutant(
        "names-not-quoted-for-a-shell",
        _GROUPS_PAGE,
        "--group {shlex.quote(name)}",
        "--group {name}",
        "the command that the page shows is another one for a name with a blank",
        _OF_ADVICE,
    ),
    Mutant(
        "restarted-program-is-a-zombie",
        _TAKEOVERS,
        " and not one.is_restart:",
        ":",
        "each restart of a query or a cron job needs attention",
        _OF_TAKEOVERS,
    ),
    Mutant(
        "fenced-long-ago",
        _TAKEOVERS,
        "if one.timestamp_ms >= state.timestamp_ms - _FOR_MS]",
        "]",
        "what was fenced a year ago needs attention",
        _OF_TAKEOVERS,
    ),
    Mutant(
        "fenced-once-is-a-warning",
        _TAKEOVERS,
        '"level": "warn" if len(found) > 1 else "note",',
        '"level": "warn",',
        "a program that was started again is shown as two programs of one id",
        _OF_TAKEOVERS,
    ),
    Mutant(
        "all-fenced-ids",
        _TAKEOVERS,
        "one[0]))[:_SHOWN]",
        "one[0]))",
        "the first view has a line for each of a thousand transactional ids",
        _OF_TAKEOVERS,
    ),
    Mutant(
        "fenced-least-first",
        _TAKEOVERS,
        "(-len(one[1]), one[0])",
        "(len(one[1]), one[0])",
        "the id that two programs use is not among those that are named",
        _OF_TAKEOVERS,
    ),
)
