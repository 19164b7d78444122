"""Changes of consumer groups, by the calls of ``eoslog groups``. A reset is shown as a plan, and done as shown."""

from __future__ import annotations

from typing import Any

import typer

from spark_eos.cli.options import partitions
from spark_eos.clients.admin import Admin
from spark_eos.errors import InvalidRequestError
from spark_eos.errors.counting import counted
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Answer, Question
from spark_eos.extensions.ui.writes.change import Changing, Results, change, typed
from spark_eos.log.time_travel import parse_time
from spark_eos.protocol.state import State
from spark_eos.protocol.types import MAX_NUMBER, TopicPartition

_MOST = 300
"""Partitions of one plan, which comes back in a question."""


def plan(follower: Follower, question: Question) -> Answer:
    """What a reset would change, partition by partition. Nothing is changed."""
    group, chosen = question.text("group"), _chosen_partitions(question)
    new = Admin(follower.log).reset_group_offsets(group, chosen, **_way(question), dry_run=True)
    if len(new) > _MOST:
        raise InvalidRequestError(
            f"that are {len(new)} partitions, and the page resets at most {_MOST} at once: name topics or partitions, "
            "or use `eoslog groups reset-offsets`"
        )
    state = follower.state
    return {
        "rows": [
            {
                "topic": at.topic,
                "id": follower.topic(at.topic).topic_id,
                "partition": at.partition,
                "from": _committed(state, group, at),
                "to": offset,
            }
            for at, offset in new.items()
        ]
    }


def reset(follower: Follower, question: Question) -> Answer:
    """Commit the offsets of a plan, if the group stands where the plan shows it, and has no members."""
    group, rows = question.text("group"), _rows(question)
    new = {at: to for at, (_, _, to) in rows.items()}

    def check(state: State) -> None:
        for at, (topic_id, before, to) in rows.items():
            topic = state.topics.get(at.topic)
            part = state.partitions.get((topic_id, at.partition))
            if topic is None or topic.topic_id != topic_id or part is None:
                raise _moved(f"topic {at.topic} was deleted")
            if (now := _committed(state, group, at)) != before:
                raise _moved(f"the offset for {at.topic}-{at.partition} is {now} now, and was {before}")
            if not part.start <= to <= part.end:
                raise _moved(f"{at.topic}-{at.partition} has offsets {part.start} to {part.end} now")

    def work(log: Changing) -> None:
        # For its refusals: a group with members stays as it is.
        Admin(log).reset_group_offsets(group, [*new], to_current=True, dry_run=True)
        Admin(log).alter_group_offsets(group, new)

    text = f"group {group} goes on at the new offsets of {counted(len(new), 'partition')}"
    return change(follower, question, work, _says(text), check)


def remove_members(follower: Follower, question: Question) -> Answer:
    """Remove the members that were shown. One that still runs joins again."""
    group, members = question.text("group"), question.listed("members")

    def tell(results: Results) -> Answer:
        return {"text": f"removed from group {group}: {', '.join(results[0])}"}

    def work(log: Changing) -> None:
        Admin(log).remove_members_from_group(group, members)

    return change(follower, question, work, tell)


def delete_offsets(follower: Follower, question: Question) -> Answer:
    """Forget the offsets of some topics or partitions."""
    group, chosen = question.text("group"), _chosen_partitions(question)
    typed(question, group)
    if chosen is None:
        raise InvalidRequestError("name the topics or partitions whose offsets are deleted")

    def work(log: Changing) -> None:
        Admin(log).delete_group_offsets(group, chosen)

    text = ", ".join(map(str, chosen))
    return change(follower, question, work, _says(f"group {group} forgot its offsets of {text}"))


def delete(follower: Follower, question: Question) -> Answer:
    """Forget a group and its offsets."""
    group = question.text("group")
    typed(question, group)
    return change(
        follower,
        question,
        lambda log: Admin(log).delete_group(group),
        _says(f"group {group} was deleted"),
    )


def _says(text: str) -> Any:
    return lambda _: {"text": text}


def _moved(difference: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{difference}: this is not what the plan shows. Nothing was changed; look at a new plan"
    )


def _committed(state: State, group: str, at: TopicPartition) -> int | None:
    committed = state.offset_of(group, *at)
    return None if committed is None else committed.offset


def _chosen_partitions(question: Question) -> list[TopicPartition | str] | None:
    """``TOPIC`` and ``TOPIC:0,1`` with space between; None for nothing."""
    try:
        return partitions(question.text("places", "").split()) or None
    except typer.BadParameter as error:
        raise InvalidRequestError(error.message) from None


def _way(question: Question) -> dict[str, Any]:
    """The new offsets, as the admin client's call has them."""
    way = question.choice("way", ("earliest", "latest", "time", "offset", "shift"))
    if way in {"earliest", "latest"}:
        return {f"to_{way}": True}
    value = question.text("value", "").strip()
    try:
        if way == "time":
            return {"to_datetime": parse_time(value)}
        return {"to_offset" if way == "offset" else "shift_by": _whole_number(value)}
    except ValueError:
        expected = "a time such as 2026-11-21T16:30" if way == "time" else "a whole number"
        raise InvalidRequestError(f"{value!r} is not {expected}") from None


def _whole_number(text: str) -> int:
    number = int(text)
    if abs(number) > MAX_NUMBER:
        raise ValueError
    return number


def _rows(question: Question) -> dict[TopicPartition, tuple[str, int | None, int]]:
    """The plan that was shown: by partition the topic's id, the offset before, and the new one."""
    moves: dict[TopicPartition, tuple[str, int | None, int]] = {}
    for row in question.listed("rows"):
        fields = Question(row if isinstance(row, dict) else {})
        before = None if isinstance(row, dict) and row.get("from", 0) is None else fields.number("from")
        at = TopicPartition(fields.text("topic"), fields.number("partition"))
        moves[at] = (fields.text("id"), before, fields.number("to"))
    if not moves:
        raise InvalidRequestError("the plan has no partition: there is nothing to change")
    return moves
