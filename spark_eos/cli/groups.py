"""``eoslog groups``: what ``kafka-consumer-groups.sh`` can do, under Kafka's column names."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from spark_eos.cli.options import (
    ConfigFile,
    Group,
    Json,
    Url,
    admin,
    at_most_one,
    commas,
    exactly_one,
    partitions,
)
from spark_eos.cli.output import print_json, print_table
from spark_eos.cli.parsing import Command, Commands
from spark_eos.cli.usage.columns import GROUPS, MEMBERS, NEW_OFFSETS, OFFSETS, STATES

if TYPE_CHECKING:
    from spark_eos.clients.admin import GroupDescription, MemberDescription

app = typer.Typer(name="groups", cls=Commands, help="List, describe, reset and delete consumer groups.")

_STATES = ("Empty", "PreparingRebalance", "Stable")
"""Kafka's names. A log has no CompletingRebalance and no Dead: a group is there, or it is not."""

_TOPICS = typer.Option(
    "--topic", metavar="TOPIC[:0,1]", help="A topic, or some of its partitions. Repeatable."
)


@app.command("list", cls=Command)
def list_groups(
    url: Url,
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE[,STATE]", help="Only groups in these states, such as Stable or empty. Repeatable."
        ),
    ] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List the groups that have members or committed offsets."""
    states = _states(state)
    all_groups = admin(url, command_config).describe_groups().values()
    groups = [group for group in all_groups if states is None or group.state in states]
    if as_json:
        for group in groups:
            print_json({"group": group.group, "state": group.state, "members": len(group.members)})
        return
    print_table(
        GROUPS,
        [(group.group, group.state, len(group.members)) for group in groups],
    )


def _states(texts: list[str] | None) -> set[str] | None:
    """States as Kafka's tool takes them: in any case."""
    names = commas(texts)
    if names is None:
        return None
    by_lower = {name.lower(): name for name in _STATES}
    for name in names:
        if name.strip().lower() not in by_lower:
            raise typer.BadParameter(
                f"{name!r} is no state of a group: they are {', '.join(_STATES)}", param_hint="'--state'"
            )
    return {by_lower[name.strip().lower()] for name in names}


@app.command("describe", cls=Command)
def describe(
    url: Url,
    group_id: Annotated[
        list[str] | None, typer.Option("--group", metavar="GROUP", help="The group's id. Repeatable.")
    ] = None,
    all_groups: Annotated[bool, typer.Option("--all-groups", help="All groups of the log.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Show offsets and lag (default).")] = False,
    members: Annotated[
        bool, typer.Option("--members", help="Show the members and their partitions.")
    ] = False,
    state: Annotated[bool, typer.Option("--state", help="Show state, generation and assignor.")] = False,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show offsets, lag, members or state of groups (--group or --all-groups)."""
    exactly_one({"--group": group_id, "--all-groups": all_groups})
    at_most_one({"--offsets": offsets, "--members": members, "--state": state})
    group_ids = None if all_groups else list(dict.fromkeys(group_id or ()))
    groups = [*admin(url, command_config).describe_groups(group_ids).values()]
    if as_json:
        for group in groups:
            print_json(_as_json(group))
    elif members:
        _print_members(groups)
    elif state:
        print_table(
            STATES,
            [
                (group.group, group.assignor, group.state, group.generation, len(group.members))
                for group in groups
            ],
        )
    else:
        _print_offsets(groups)


def _print_offsets(groups: list[GroupDescription]) -> None:
    print_table(OFFSETS, [row for group in groups for row in _offset_rows(group)])


def _offset_rows(group: GroupDescription) -> list[tuple[object, ...]]:
    clients = {member.member_id: member.client_id for member in group.members}
    return [
        (
            *(group.group, part.topic, part.partition, part.committed and part.committed.offset),
            *(part.end, part.lag, part.member_id, clients.get(part.member_id or "")),
        )
        for part in group.partitions
    ]


def _print_members(groups: list[GroupDescription]) -> None:
    rows = [
        (
            *(group.group, member.member_id, member.instance_id, member.client_id, member.generation),
            *(len(member.partitions), _assignment(member)),
        )
        for group in groups
        for member in group.members
    ]
    print_table(MEMBERS, rows)


def _assignment(member: MemberDescription) -> str:
    """``t(0,1),u(0)``, as Kafka's tool writes it."""
    numbers: dict[str, list[str]] = {}
    for topic, number in member.partitions:
        numbers.setdefault(topic, []).append(str(number))
    return ",".join(f"{topic}({','.join(parts)})" for topic, parts in numbers.items())


@app.command("reset-offsets", cls=Command)
def reset_offsets(
    url: Url,
    group: Group,
    topic: Annotated[list[str] | None, _TOPICS] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All partitions for which the group has committed offsets.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the last stable offset.")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="To the committed offset, else to the last stable one.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option(metavar="N", help="To this offset.")] = None,
    shift_by: Annotated[
        int | None, typer.Option(metavar="N", help="Forward by so many offsets; back if negative.")
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            metavar="ISO",
            help="To the first record at or after YYYY-MM-DDThh:mm:ss.sss, in UTC unless it has a zone.",
        ),
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option(metavar="ISO", help="To the first record at or after now less PnDTnHnMnS.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the new offsets (default).")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Commit the new offsets.")] = False,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show new offsets for a group, or commit them (--execute).

    The group must have no members. Name the partitions by --topic or --all-topics, and the new offsets by exactly one
    of the --to options, --shift-by or --by-duration. An offset out of range becomes the nearest one in it.
    """
    exactly_one({"--topic": topic, "--all-topics": all_topics})
    exactly_one(
        {
            "--to-earliest": to_earliest,
            "--to-latest": to_latest,
            "--to-current": to_current,
            "--to-offset": to_offset,
            "--shift-by": shift_by,
            "--to-datetime": to_datetime,
            "--by-duration": by_duration,
        }
    )
    at_most_one({"--dry-run": dry_run, "--execute": execute})
    selection = None if all_topics else partitions(topic)
    moment = None if to_datetime is None else _datetime(to_datetime)
    if by_duration is not None:
        _check_duration(by_duration)
    offsets = admin(url, command_config).reset_group_offsets(
        group,
        selection,
        to_earliest=to_earliest,
        to_latest=to_latest,
        to_current=to_current,
        to_offset=to_offset,
        shift_by=shift_by,
        to_datetime=moment,
        by_duration=by_duration,
        dry_run=not execute,
    )
    if as_json:
        for at, offset in offsets.items():
            print_json({"group": group, **at._asdict(), "new_offset": offset, "executed": execute})
        return
    print_table(
        NEW_OFFSETS,
        [(group, *at, offset) for at, offset in offsets.items()],
    )
    if not execute:
        print("nothing was changed: repeat with --execute to commit these offsets")


def _check_duration(text: str) -> None:
    from spark_eos.config.durations import parse_duration_ms
    from spark_eos.config.values import NotAllowedError

    try:
        parse_duration_ms(text)
    except NotAllowedError as error:
        raise typer.BadParameter(f"{error}", param_hint="'--by-duration'") from None


def _datetime(text: str) -> datetime:
    from spark_eos.log.time_travel import parse_time

    try:
        return parse_time(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not YYYY-MM-DDThh:mm:ss.sss, with or without a time zone",
            param_hint="'--to-datetime'",
        ) from None


@app.command("delete", cls=Command)
def delete(url: Url, group: Group, command_config: ConfigFile = None, as_json: Json = False) -> None:
    """Delete a group and its offsets."""
    admin(url, command_config).delete_group(group)
    _print_done({"group": group, "deleted": True}, f"group {group} was deleted", as_json=as_json)


@app.command("delete-offsets", cls=Command)
def delete_offsets(
    url: Url,
    group: Group,
    topic: Annotated[list[str], _TOPICS],
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Delete offsets that a group committed."""
    selection = partitions(topic)
    places = admin(url, command_config).delete_group_offsets(group, selection)
    text = ", ".join(map(str, places)) or "nothing: it had committed nothing there"
    _print_done(
        {"group": group, "deleted": [at._asdict() for at in places]},
        f"group {group} forgot its offsets of {text}",
        as_json=as_json,
    )


@app.command("remove-members", cls=Command)
def remove_members(
    url: Url,
    group: Group,
    member: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID", help="A member id or group.instance.id (default: all members). Repeatable."
        ),
    ] = None,
    command_config: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Remove members from a group."""
    member_ids = admin(url, command_config).remove_members_from_group(group, member or None)
    text = ", ".join(member_ids) or "none: it had no members"
    _print_done(
        {"group": group, "removed": member_ids}, f"removed from group {group}: {text}", as_json=as_json
    )


def _print_done(value: dict[str, object], text: str, *, as_json: bool) -> None:
    if as_json:
        print_json(value)
    else:
        print(text)


def _as_json(group: GroupDescription) -> dict[str, object]:
    return {
        **asdict(group),
        "members": [
            {**asdict(member), "partitions": [at._asdict() for at in member.partitions]}
            for member in group.members
        ],
        "partitions": [
            {**asdict(part), "committed": part.committed and part.committed._asdict()}
            for part in group.partitions
        ],
    }
