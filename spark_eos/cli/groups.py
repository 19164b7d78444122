"""``eoslog groups``: what ``kafka-consumer-groups.sh`` can do, under Kafka's column names."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from datetime import datetime, timezone

from spark_eos.cli.arguments import Commands, add_command, add_noun, partitions
from spark_eos.cli.tables import print_json, print_table
from spark_eos.clients.admin import Admin, GroupDescription, MemberDescription

__all__ = ["add_commands"]


def add_commands(commands: Commands) -> None:
    """Add the commands about consumer groups."""
    verbs = add_noun(commands, "groups", "list, describe, reset and delete consumer groups")
    add_command(verbs, "list", _list, "groups that have members or committed offsets")
    describe = add_command(verbs, "describe", _describe, "how far a group has come, and who is in it")
    _add_group(describe)
    view = describe.add_mutually_exclusive_group()
    view.add_argument("--offsets", action="store_true", help="offsets and lag (default)")
    view.add_argument("--members", action="store_true", help="members and what they read now")
    view.add_argument("--state", action="store_true", help="state, generation and assignor")
    _add_reset(verbs)
    delete = add_command(verbs, "delete", _delete, "forget a group and its offsets")
    _add_group(delete)
    forget = add_command(verbs, "delete-offsets", _delete_offsets, "forget what a group committed for topics")
    _add_group(forget)
    _add_topics(forget, required=True)
    remove = add_command(verbs, "remove-members", _remove_members, "make members leave a group")
    _add_group(remove)
    remove.add_argument(
        "--member",
        action="append",
        metavar="ID",
        help="member id or group.instance.id; repeatable (default: all of them)",
    )


def _add_reset(verbs: Commands) -> None:
    reset = add_command(
        verbs,
        "reset-offsets",
        _reset_offsets,
        "put a group without members elsewhere; shows where unless --execute",
    )
    _add_group(reset)
    topics = reset.add_mutually_exclusive_group(required=True)
    _add_topics(topics)
    topics.add_argument("--all-topics", action="store_true", help="all that the group committed")
    way = reset.add_mutually_exclusive_group(required=True)
    for name, text in (
        ("--to-earliest", "the first record that is there"),
        ("--to-latest", "the last stable offset"),
        ("--to-current", "what is committed, else the latest"),
    ):
        way.add_argument(name, action="store_true", help=text)
    way.add_argument("--to-offset", type=int, metavar="N")
    way.add_argument("--shift-by", type=int, metavar="N", help="forward; back if negative")
    way.add_argument(
        "--to-datetime",
        type=_datetime,
        metavar="ISO",
        help="YYYY-MM-DDThh:mm:ss.sss, UTC unless it says otherwise",
    )
    way.add_argument("--by-duration", metavar="ISO", help="back from now: PnDTnHnMnS")
    outcome = reset.add_mutually_exclusive_group()
    outcome.add_argument("--dry-run", action="store_true", help="only show the new offsets (default)")
    outcome.add_argument("--execute", action="store_true", help="commit the new offsets")


def _add_group(command: argparse.ArgumentParser) -> None:
    command.add_argument("--group", required=True)


def _add_topics(
    command: argparse.ArgumentParser | argparse._MutuallyExclusiveGroup,
    *,
    required: bool = False,
) -> None:
    command.add_argument(
        "--topic",
        type=partitions,
        action="extend",
        metavar="TOPIC[:0,1]",
        help="a topic, or some of its partitions; repeatable",
        required=required,
    )


def _list(chosen: argparse.Namespace) -> None:
    groups = Admin(chosen.url, chosen.settings).describe_groups()
    if chosen.json:
        for group in groups.values():
            print_json({"group": group.group, "state": group.state, "members": len(group.members)})
        return
    print_table(
        ("GROUP", "STATE", "#MEMBERS"),
        [(group.group, group.state, len(group.members)) for group in groups.values()],
    )


def _describe(chosen: argparse.Namespace) -> None:
    group = Admin(chosen.url, chosen.settings).describe_group(chosen.group)
    if chosen.json:
        print_json(_as_json(group))
    elif chosen.members:
        _print_members(group)
    elif chosen.state:
        print_table(
            ("GROUP", "ASSIGNMENT-STRATEGY", "STATE", "GENERATION", "#MEMBERS"),
            [(group.group, group.assignor, group.state, group.generation, len(group.members))],
        )
    else:
        _print_offsets(group)


def _print_offsets(group: GroupDescription) -> None:
    clients = {member.member_id: member.client_id for member in group.members}
    header = (
        *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
        *("CONSUMER-ID", "CLIENT-ID"),
    )
    rows = [
        (
            *(
                group.group,
                part.topic,
                part.partition,
                part.committed and part.committed.offset,
                part.end,
                part.lag,
            ),
            *(part.member_id, clients.get(part.member_id or "")),
        )
        for part in group.partitions
    ]
    print_table(header, rows)


def _print_members(group: GroupDescription) -> None:
    header = (
        *("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "CLIENT-ID", "GENERATION"),
        *("#PARTITIONS", "ASSIGNMENT"),
    )
    rows = [
        (
            *(group.group, member.member_id, member.instance_id, member.client_id, member.generation),
            *(len(member.partitions), _assignment(member)),
        )
        for member in group.members
    ]
    print_table(header, rows)


def _assignment(member: MemberDescription) -> str:
    """``t(0,1),u(0)``, as Kafka's tool writes it."""
    numbers: dict[str, list[str]] = {}
    for topic, number in member.partitions:
        numbers.setdefault(topic, []).append(str(number))
    return ",".join(f"{topic}({','.join(parts)})" for topic, parts in numbers.items())


def _reset_offsets(chosen: argparse.Namespace) -> None:
    offsets = Admin(chosen.url, chosen.settings).reset_group_offsets(
        chosen.group,
        None if chosen.all_topics else chosen.topic,
        to_earliest=chosen.to_earliest,
        to_latest=chosen.to_latest,
        to_current=chosen.to_current,
        to_offset=chosen.to_offset,
        shift_by=chosen.shift_by,
        to_datetime=chosen.to_datetime,
        by_duration=chosen.by_duration,
        dry_run=not chosen.execute,
    )
    if chosen.json:
        for at, offset in offsets.items():
            print_json(
                {"group": chosen.group, **at._asdict(), "new_offset": offset, "executed": chosen.execute}
            )
        return
    print_table(
        ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"),
        [(chosen.group, *at, offset) for at, offset in offsets.items()],
    )
    if not chosen.execute:
        print("nothing was changed: repeat with --execute to commit these offsets")


def _delete(chosen: argparse.Namespace) -> None:
    Admin(chosen.url, chosen.settings).delete_group(chosen.group)
    _tell(chosen, {"group": chosen.group, "deleted": True}, f"group {chosen.group} was deleted")


def _delete_offsets(chosen: argparse.Namespace) -> None:
    gone = Admin(chosen.url, chosen.settings).delete_group_offsets(chosen.group, chosen.topic)
    told = ", ".join(map(str, gone)) or "nothing: it had committed nothing there"
    _tell(
        chosen,
        {"group": chosen.group, "deleted": [at._asdict() for at in gone]},
        f"group {chosen.group} forgot its offsets of {told}",
    )


def _remove_members(chosen: argparse.Namespace) -> None:
    gone = Admin(chosen.url, chosen.settings).remove_members_from_group(chosen.group, chosen.member)
    told = ", ".join(gone) or "none: it had no members"
    _tell(chosen, {"group": chosen.group, "removed": gone}, f"removed from group {chosen.group}: {told}")


def _tell(chosen: argparse.Namespace, value: dict[str, object], text: str) -> None:
    if chosen.json:
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


def _datetime(text: str) -> datetime:
    try:
        # Python 3.10 does not know the Z.
        found = datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in {"Z", "z"} else text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not YYYY-MM-DDThh:mm:ss.sss, with or without a time zone"
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)
