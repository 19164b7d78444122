"""Members of groups that show no sign of life: their processes were killed, hang, or are those of another place.

Members remove one another (`spark_eos.clients.consumer.heartbeat`). The last one of a group stays for ever, and a
restored log has members of which no process is left.
"""

from __future__ import annotations

from typing import NamedTuple

from spark_eos.clients.consumer.heartbeat import heartbeat_name, written_ms
from spark_eos.errors import ObjectNotFoundError
from spark_eos.log.log import Log
from spark_eos.protocol.state import Member, State

MOST = 1000
"""Members that one look asks the store for; each is a request."""

_PATIENCE = 2
"""Silent for so many of their session timeouts: the others, if there are any, would have removed them by then. A member
without any sign has as long from its joining on: its first one comes after it."""


class SilentMember(NamedTuple):
    """A member that shows no sign of life.

    Attributes
    ----------
    group, member_id, instance_id, client_id
        The member, as it is in the log.
    silent_ms
        For how long, by the clocks of its machine and of this one; None: no sign of it is in the store.
    """

    group: str
    member_id: str
    instance_id: str | None
    client_id: str
    silent_ms: int | None


def silent_members(log: Log, state: State, now_ms: int) -> list[SilentMember]:
    """Tell which members of groups are silent; of `MOST` members at most, by name (`not_asked`).

    A member without any sign is asked for once more, after the log was read again: it may just have left.
    """
    members = [(name, member) for name in sorted(state.groups) for member in _members(state, name)]
    candidates = [_looked_at(log, group, member, now_ms) for group, member in members[:MOST]]
    silent = [silent_member for silent_member in candidates if silent_member is not None]
    if all(silent_member.silent_ms is not None for silent_member in silent):
        return silent
    newer = log.follow()
    return [
        again
        for silent_member in silent
        for member in _members(newer, silent_member.group)
        if member.member_id == silent_member.member_id
        and (again := _looked_at(log, silent_member.group, member, now_ms)) is not None
    ]


def not_asked(state: State) -> dict[str, int]:
    """How many members of which groups `silent_members` does not look at: they may be silent or not."""
    counts, budget = {}, MOST
    for name in sorted(state.groups):
        count = len(state.groups[name].members)
        if count > budget:
            counts[name] = count - budget
        budget = max(budget - count, 0)
    return counts


def _members(state: State, group: str) -> list[Member]:
    group_state = state.groups.get(group)
    return [] if group_state is None else sorted(group_state.members.values())


def _looked_at(log: Log, group: str, member: Member, now_ms: int) -> SilentMember | None:
    try:
        beaten_ms = written_ms(log.store.read(heartbeat_name(group, member.member_id)))
    except ObjectNotFoundError:
        silent_ms, since_ms = None, member.joined_ms
    else:
        silent_ms, since_ms = now_ms - beaten_ms, beaten_ms
    if now_ms - since_ms < _PATIENCE * member.session_timeout_ms:
        return None
    return SilentMember(group, member.member_id, member.instance_id, member.client_id, silent_ms)
