"""Changes of topics and of settings, by the calls of ``eoslog topics``, ``configs`` and ``delete-records``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import typer

from spark_eos.cli.options import name_value
from spark_eos.cli.topics.selection import new_column
from spark_eos.clients.admin import Admin
from spark_eos.config.log import LOG
from spark_eos.config.option import Table
from spark_eos.config.reference import in_force
from spark_eos.config.topic import TOPIC
from spark_eos.errors import InvalidRequestError
from spark_eos.errors.counting import counted
from spark_eos.extensions.ui.answers import settings as shown_settings
from spark_eos.extensions.ui.follower import Follower
from spark_eos.extensions.ui.question import Answer, Question
from spark_eos.extensions.ui.writes.change import Results, change, typed
from spark_eos.log.topics import topic_of
from spark_eos.protocol.state import State
from spark_eos.protocol.types import TopicPartition


def settings(follower: Follower, question: Question) -> Answer:
    """All settings of a topic, or of the log: value, default, what is allowed, and what each does."""
    name = question.text("topic", "")
    table, stored = (TOPIC, follower.topic(name).config) if name else (LOG, follower.state.config)
    hidden = {setting["name"]: setting["value"] for setting in shown_settings(stored)}
    return {
        "rows": [
            {
                "name": row.name,
                "value": hidden.get(row.name, row.value),
                "set": row.name in stored,
                "secret": row.name in hidden and hidden[row.name] != stored[row.name],
                "default": row.default,
                "allowed": table[row.name].type.summary if row.name in table else "",
                "doc": row.doc,
            }
            for row in in_force(table, stored)
        ]
    }


def create(follower: Follower, question: Question) -> Answer:
    """Create a topic."""
    name, partitions = question.text("topic"), question.number("partitions", 1, least=1)
    try:
        config = dict(name_value(line, "Settings") for line in _lines(question, "settings"))
        columns = [new_column(line, "Columns") for line in _lines(question, "columns")]
    except typer.BadParameter as error:
        raise InvalidRequestError(error.message) from None
    schema = pa.schema(columns) if columns else None
    return change(
        follower,
        question,
        lambda log: Admin(log).create_topic(name, partitions, config, schema),
        _says(f"topic {name} was created"),
    )


def add_partitions(follower: Follower, question: Question) -> Answer:
    """Give a topic more partitions."""
    name, partitions = question.text("topic"), question.number("partitions", least=1)
    return change(
        follower,
        question,
        lambda log: Admin(log).alter_topic(name, partitions),
        _says(f"topic {name} has {counted(partitions, 'partition')}"),
        _same(follower, question),
    )


def alter_topic(follower: Follower, question: Question) -> Answer:
    """Change a setting of a topic, or take it back to its default."""
    name, setting = question.text("topic"), question.text("name")
    same = _same(follower, question)

    def check(state: State) -> None:
        same(state)
        _unchanged(question, TOPIC, state.topics[name].config)

    value = _value(question)
    return change(
        follower,
        question,
        lambda log: Admin(log).alter_topic(name, config={setting: value}),
        _says(f"{setting} of topic {name} is {_shown(value)}"),
        check,
    )


def alter_log(follower: Follower, question: Question) -> Answer:
    """Change a setting of the log, or take it back to its default."""
    setting, value = question.text("name"), _value(question)
    return change(
        follower,
        question,
        lambda log: Admin(log).alter_log({setting: value}),
        _says(f"{setting} of the log is {_shown(value)}"),
        lambda state: _unchanged(question, LOG, state.config),
    )


def delete_records(follower: Follower, question: Question) -> Answer:
    """Delete the records of a partition before an offset."""
    name, number = question.text("topic"), question.number("partition")
    before = question.number("before", least=0)
    typed(question, name)
    return change(
        follower,
        question,
        lambda log: _ignored(Admin(log).delete_records({TopicPartition(name, number): before})),
        _says(f"{name}-{number} begins at offset {before} or later"),
        _same(follower, question),
    )


def delete(follower: Follower, question: Question) -> Answer:
    """Delete a topic."""
    name = question.text("topic")
    typed(question, name)
    return change(
        follower,
        question,
        lambda log: Admin(log).delete_topic(name),
        _says(f"topic {name} was deleted"),
        _same(follower, question),
    )


def _says(text: str) -> Callable[[Results], Answer]:
    return lambda _: {"text": text}


def _ignored(_: Any) -> None:
    """The answer of a call, which the offsets of the page show."""


def _lines(question: Question, name: str) -> list[str]:
    return [line for line in question.text(name, "").splitlines() if line.strip()]


def _same(follower: Follower, question: Question) -> Callable[[State], None]:
    """Refuse another topic of the same name than the one that was shown."""
    name, topic_id = question.text("topic"), question.text("id")

    def check(state: State) -> None:
        if topic_of(state, name, follower.url).topic_id != topic_id:
            raise InvalidRequestError(
                f"topic {name!r} was deleted, and created again: it is not the one that was shown. Nothing was changed"
            )

    return check


def _value(question: Question) -> str | None:
    """The new value; None for an empty one: the default."""
    return question.text("value", "").strip() or None


def _shown(value: str | None) -> str:
    return "its default again" if value is None else f"{value} now"


def _unchanged(question: Question, table: Table, stored: Mapping[str, str]) -> None:
    """Refuse if the setting has another value than the one that was shown."""
    name, before = question.text("name"), question.text("before", "")
    option = table.get(name)
    now = stored.get(name, "" if option is None else option.shown_default)
    (shown,) = shown_settings({name: now})  # An error tells no secret either.
    if before != shown["value"]:
        raise InvalidRequestError(
            f"{name} is {shown['value']} now, and was shown as {before}: it was set elsewhere since. "
            "Nothing was changed"
        )
