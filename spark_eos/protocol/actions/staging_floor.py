"""The staging floor: files that were staged before this entry can no longer be committed (docs/design/0001).

The name of a data file begins with the entry at which its writer started. Vacuum raises the floor first, and deletes
files below it afterwards. Without the floor, vacuum could delete a file while a slow writer commits it.
"""

from __future__ import annotations

from typing import NamedTuple

from spark_eos.errors import InvalidRequestError
from spark_eos.protocol.actions.declaration import Field, declare
from spark_eos.protocol.encoding.avro import LONG
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import State


class RaiseStagingFloor(NamedTuple):
    """Files whose names begin with an entry below ``seq`` can no longer be committed."""

    seq: int


def raise_staging_floor(state: State, action: RaiseStagingFloor) -> tuple[State, None]:
    """The floor only rises, and never above the log's own end."""
    if action.seq > state.seq + 1:
        raise InvalidRequestError(
            f"the staging floor cannot rise to {action.seq}: the log ends at {state.seq}"
        )
    return replace(state, staging_floor=max(state.staging_floor, action.seq)), None


declare(
    RaiseStagingFloor,
    number=10,
    fields=(Field("seq", LONG),),
    rule=raise_staging_floor,
)
