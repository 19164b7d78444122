"""Where the data files of the log are, if not beside its entries (docs/design/0016-chain-and-data-on-two-stores.md).

Each of them is an entry, so that each writer meets it before its next commit, and versions that look for all files in
one store refuse the log. With `PlaceData` the staging floor rises: a file that was staged at the place before can no
longer be committed. `MoveData` begins a move beside running writers and readers: a file's name begins with the entry at
which its writer started, and so tells at which of the two places it is. `DataCopied` says that the new place has all
that the log refers to, `DataMoved` that the old one is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from spark_eos.errors import InvalidRequestError
from spark_eos.errors.hidden import safe_url
from spark_eos.protocol.actions.declaration import Field, declare
from spark_eos.protocol.encoding.avro import LONG, STRING
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import DataBefore, State
from spark_eos.protocol.types import TrailNote

_MAX_CHARS = 2048


def place_beside(placed_at: int) -> str:
    """What `State.data_url` says of data that was moved into the chain's own store: a folder there, never used before.

    ``placed_at`` is the entry that said where the data was until then.

    Examples
    --------
    >>> place_beside(-1), place_beside(41)
    ('./_data/0', './_data/42')
    """
    return f"./_data/{placed_at + 1}"


class PlaceData(NamedTuple):
    """Data files are at ``url`` from now on; empty: beside the entries. The caller has seen that they are there."""

    url: str


def place_data(state: State, action: PlaceData) -> tuple[State, None]:
    """What the place was before counts no more; the same place changes nothing."""
    url = action.url
    _check_url(url)
    if url == state.data_url and state.data_before is None:
        return state, None
    # Of a file that was staged on the state before, the name begins with the number of this entry.
    entry = state.seq + 1
    return (
        replace(
            state,
            data_url=url,
            data_placed_at=entry,
            data_before=None,
            staging_floor=max(state.staging_floor, entry + 1),
        ),
        None,
    )


def _check_url(url: str) -> None:
    if len(url) > _MAX_CHARS or any(character < " " for character in url):
        raise InvalidRequestError(
            f"the place of data files is a URL of at most {_MAX_CHARS} characters without control characters"
        )


class MoveData(NamedTuple):
    """Files that are staged after this entry are at ``url``; those of before are where they were, until `DataCopied`.

    ``placed_at`` is `State.data_placed_at`, as the caller knows it: a move planned before another one is refused.
    """

    url: str
    placed_at: int


def move_data(state: State, action: MoveData) -> tuple[State, None]:
    """One move at a time. The staging floor stays: the name of a file tells where it is."""
    _check_url(action.url)
    _check_planned(state, action.placed_at)
    if state.data_before is not None:
        raise InvalidRequestError(
            f"the data files of this log are being moved to {state.data_url or 'where its entries are'} since entry "
            f"{state.data_placed_at}: end that move first"
        )
    if not action.url or action.url == state.data_url:
        raise InvalidRequestError(f"data files cannot be moved to {action.url!r}")
    if action.url.startswith("./") and action.url != place_beside(state.data_placed_at):
        raise InvalidRequestError(
            f"{action.url!r} is no place in the store of the entries that was never used before"
        )
    shared = [name for name, publication in sorted(state.publications.items()) if _shares(publication.config)]
    if shared:
        raise InvalidRequestError(
            f"the data files cannot be moved: tables of publication {shared[0]!r} share them, and other programs know "
            "where these are. Drop it first (eoslog tables drop), and create it again after the move"
        )
    before = DataBefore(state.data_url, state.timestamp_ms)
    return replace(state, data_url=action.url, data_placed_at=state.seq + 1, data_before=before), None


def _shares(config: Mapping[str, str]) -> bool:
    return config.get("mode", "shared") != "copied"


def check_not_moving(state: State, publication: str, config: Mapping[str, str]) -> None:
    """Raise `InvalidRequestError` if tables would share files that are being moved."""
    if state.data_before is not None and _shares(config):
        raise InvalidRequestError(
            f"publication {publication!r}: its tables would share the data files of this log, which are being moved "
            f"since entry {state.data_placed_at}: end the move first"
        )


def _check_planned(state: State, placed_at: int) -> None:
    if state.data_placed_at != placed_at:
        raise InvalidRequestError(
            f"the place of the data files was changed by entry {state.data_placed_at}, after this move was planned"
        )


class DataCopied(NamedTuple):
    """All files that the log refers to are at the new place. ``placed_at`` is the entry of the `MoveData`.

    The caller has looked at a state in which no file of the old place could be committed any more.
    """

    placed_at: int


def data_copied(state: State, action: DataCopied) -> tuple[State, None]:
    """Refused before the staging floor is above the move: a file at the old place could still be committed."""
    before = _moving(state, action.placed_at)
    if state.staging_floor <= action.placed_at:
        raise InvalidRequestError(
            f"the staging floor is {state.staging_floor}: files of before entry {action.placed_at} can still be "
            "committed"
        )
    if before.copied_at >= 0:
        return state, None
    return replace(state, data_before=before._replace(copied_at=state.seq + 1)), None


class DataMoved(NamedTuple):
    """Nothing of the log is at the old place any more. ``placed_at`` is the entry of the `MoveData`."""

    placed_at: int


def data_moved(state: State, action: DataMoved) -> tuple[State, None]:
    """The end of the move, which has to have been copied."""
    if _moving(state, action.placed_at).copied_at < 0:
        raise InvalidRequestError("the data files of this log are not all at their new place yet")
    return replace(state, data_before=None), None


def _moving(state: State, placed_at: int) -> DataBefore:
    _check_planned(state, placed_at)
    if state.data_before is None:
        raise InvalidRequestError("no data files of this log are being moved")
    return state.data_before


def _shown(action: PlaceData | MoveData) -> dict[str, Any]:
    return {**action._asdict(), "url": safe_url(action.url)}


declare(
    PlaceData,
    number=33,
    fields=(Field("url", STRING),),
    rule=place_data,
    show=_shown,
    tell=lambda before, after, action, _writer: (
        [TrailNote("data placed", "", safe_url(action.url) or "beside the entries")]
        if after.data_placed_at != before.data_placed_at
        else []
    ),
)
declare(
    MoveData,
    number=34,
    fields=(Field("url", STRING), Field("placed_at", LONG)),
    rule=move_data,
    show=_shown,
    tell=lambda _before, _after, action, _writer: [
        TrailNote("move of data begun", "", f"to {safe_url(action.url) or 'where the entries are'}")
    ],
)
declare(
    DataCopied,
    number=35,
    fields=(Field("placed_at", LONG),),
    rule=data_copied,
)
declare(
    DataMoved,
    number=36,
    fields=(Field("placed_at", LONG),),
    rule=data_moved,
    tell=lambda _before, after, _action, _writer: [
        TrailNote("data moved", "", f"to {safe_url(after.data_url) or 'where the entries are'}")
    ],
)
