"""The log itself: it is created once, and has settings.

`CreateLog` is the first action of entry 0. It gives the log an id, by which a process notices that a folder holds
another log than before.
"""

from __future__ import annotations

from typing import NamedTuple

from immutables import Map

from spark_eos.config.log import LOG
from spark_eos.errors import InvalidRequestError
from spark_eos.protocol.actions.declaration import INT32, SETTINGS, Field, changes, declare
from spark_eos.protocol.encoding.avro import LONG, STRING
from spark_eos.protocol.encoding.values import PAIRS
from spark_eos.protocol.replace import replace
from spark_eos.protocol.rules.settings import is_setting
from spark_eos.protocol.state import State
from spark_eos.protocol.types import TrailNote

LOG_ALTERED = "settings of the log altered"
"""What the trail says of it."""


class CreateLog(NamedTuple):
    """The first action of entry 0, and of no other: the log has an id from now on.

    After every entry whose number is a multiple of ``snapshot_interval`` indexes are sealed, and a snapshot
    may be taken. Entries lie in folders of ``entries_per_folder`` each; 0: all in one, as in the first logs.
    """

    log_id: str
    snapshot_interval: int = 200
    entries_per_folder: int = 0


def create(state: State, action: CreateLog) -> tuple[State, None]:
    """The log gets its id. Only an empty state has none."""
    if state.log_id:
        raise InvalidRequestError(
            f"the log {state.log_id} is there already; CreateLog belongs to entry 0 alone"
        )
    if not action.log_id:
        raise InvalidRequestError("a log cannot have an empty id")
    if action.snapshot_interval < 1 or action.entries_per_folder < 0:
        raise InvalidRequestError(
            f"a log cannot have a snapshot every {action.snapshot_interval} entries, or "
            f"{action.entries_per_folder} entries in a folder"
        )
    return (
        replace(
            state,
            log_id=action.log_id,
            snapshot_interval=action.snapshot_interval,
            entries_per_folder=action.entries_per_folder,
        ),
        None,
    )


declare(
    CreateLog,
    number=0,
    fields=(
        Field("log_id", STRING),
        Field("snapshot_interval", LONG, bounds=INT32),
        Field("entries_per_folder", LONG, bounds=INT32),
    ),
    rule=create,
    tell=lambda _before, after, _action, _writer: [TrailNote("log created", "", after.log_id)],
)


class AlterLog(NamedTuple):
    """Settings of the whole log, replaced as a whole (what Kafka has as settings of its brokers)."""

    config: tuple[tuple[str, str], ...]


def alter(state: State, action: AlterLog) -> tuple[State, None]:
    """Replace all settings; what is not named has its default again."""
    for name, value in action.config:
        if name not in LOG:
            raise InvalidRequestError(f"unknown setting of a log {name!r}; known are {', '.join(LOG)}")
        if not is_setting(value):
            raise InvalidRequestError(f"{name} must be a whole number from 1 up, not {value!r}")
    return replace(state, config=Map(action.config)), None


declare(
    AlterLog,
    number=19,
    fields=(Field("config", PAIRS, bounds=SETTINGS),),
    rule=alter,
    tell=lambda before, after, _action, _writer: (
        [TrailNote(LOG_ALTERED, "", changes(before.config, after.config))]
        if before.config != after.config
        else []
    ),
)
