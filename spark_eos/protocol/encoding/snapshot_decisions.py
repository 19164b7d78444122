"""How snapshots store what a producer has prepared, and what it decides for other logs."""

from __future__ import annotations

from typing import Any

from spark_eos.protocol.encoding.values import DECIDER, FOLLOWERS
from spark_eos.protocol.state import Decision, PreparedTransaction

__all__ = ["read_decision", "read_prepared", "write_decision", "write_prepared"]


def write_prepared(prepared: PreparedTransaction) -> dict[str, Any]:
    """Avro's record of the newest prepared transaction."""
    decider = None if prepared.decider is None else prepared.decider._asdict()
    return {**prepared._asdict(), "decider": decider}


def read_prepared(stored: dict[str, Any]) -> PreparedTransaction:
    """The value of `write_prepared`. Up to schema 9 no transaction followed another one."""
    decider = stored.get("decider")
    read = DECIDER.read
    assert read is not None
    return PreparedTransaction(
        stored["epoch"], stored["committed"], None if decider is None else read(decider)
    )


def write_decision(decision: Decision) -> dict[str, Any]:
    """Avro's record of the newest decision."""
    write = FOLLOWERS.write
    assert write is not None
    return {
        **decision._asdict(),
        "followers": write(decision.followers),
        "waiting": list(decision.waiting),
    }


def read_decision(stored: dict[str, Any]) -> Decision:
    """The value of `write_decision`."""
    read = FOLLOWERS.read
    assert read is not None
    return Decision(**{**stored, "followers": read(stored["followers"]), "waiting": tuple(stored["waiting"])})
