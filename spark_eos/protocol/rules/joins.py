"""What the trail says of members that join a group while others read: each time partitions change hands. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spark_eos.protocol.state import Group, State
from spark_eos.protocol.types import TrailNote

MEMBER_JOINED = "member joined"
"""Beside other members, which have to release partitions for it."""


def joined(before: State, after: State, action: Any, _writer: str) -> Iterator[TrailNote]:
    """A `JoinGroup` has brought a new member; not a new subscription, nor the successor of a static member."""
    members = before.groups.get(action.group, Group()).members
    instances = {member.instance_id for member in members.values()} - {None}
    if members and action.member_id not in members and action.instance_id not in instances:
        group = after.groups[action.group]
        yield TrailNote(
            MEMBER_JOINED, action.group, f"{len(group.members)} members, generation {group.generation}"
        )
