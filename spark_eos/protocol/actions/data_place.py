"""Where the data files of the log are, if not beside its entries (docs/design/0016-chain-and-data-on-two-stores.md).

It is an entry, so that each writer meets it before its next commit, and versions that look for all files in one store
refuse the log. The staging floor rises with it: a file that was staged at the place before can no longer be committed.
"""

from __future__ import annotations

from typing import NamedTuple

from spark_eos.errors import InvalidRequestError
from spark_eos.protocol.actions.declaration import Field, declare
from spark_eos.protocol.encoding.avro import STRING
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import State

__all__ = ["PlaceData", "place_data"]

_MAX_CHARS = 2048


class PlaceData(NamedTuple):
    """Data files are at ``url`` from now on; empty: beside the entries. The caller has seen that they are there."""

    url: str


def place_data(state: State, action: PlaceData) -> tuple[State, None]:
    """What the place was before counts no more; the same place changes nothing."""
    url = action.url
    if len(url) > _MAX_CHARS or any(character < " " for character in url):
        raise InvalidRequestError(
            f"the place of data files is a URL of at most {_MAX_CHARS} characters without control characters"
        )
    if url == state.data_url:
        return state, None
    # Of a file that was staged on the state before, the name begins with the number of this entry.
    entry = state.seq + 1
    return (
        replace(
            state,
            data_url=url,
            data_placed_at=entry,
            staging_floor=max(state.staging_floor, entry + 1),
        ),
        None,
    )


declare(
    PlaceData,
    number=33,
    since=12,
    fields=(Field("url", STRING),),
    rule=place_data,
)
