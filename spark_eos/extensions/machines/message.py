"""What goes over the network: the submissions of a machine to the leader, and what the leader answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple, Protocol

MAX_BODY_BYTES = 4_000_000
"""Of the submissions of one machine."""

_LENGTH = 4


class Answer(NamedTuple):
    """What the leader says: ``newest`` is the newest entry that it has created, ``leads`` whether it still leads."""

    newest: int
    leads: bool


class Peer(Protocol):
    """The way to a leader. Nothing raises."""

    def exchange(self, bundle: bytes, seq: int) -> Answer | None:
        """Let the leader have these submissions in place of those before; None if it did not answer.

        It answers when it has created an entry after ``seq``, or a moment later.
        """

    def close(self) -> None:
        """Never ask it again."""


def encode_bundle(submissions: Sequence[bytes]) -> bytes:
    """All submissions of a machine, as one body; those that do not fit any more are left out."""
    body = bytearray()
    for submission in submissions:
        if len(body) + _LENGTH + len(submission) <= MAX_BODY_BYTES:
            body += len(submission).to_bytes(_LENGTH, "big") + submission
    return bytes(body)


def decode_bundle(body: bytes) -> list[bytes] | None:
    """What `encode_bundle` was given; None if it is anything else."""
    submissions, at = list[bytes](), 0
    while at < len(body):
        begin = at + _LENGTH
        at = begin + int.from_bytes(body[at:begin], "big")
        if at > len(body) or begin > len(body):
            return None
        submissions.append(body[begin:at])
    return submissions


def encode_answer(answer: Answer) -> bytes:
    """The bytes of an answer."""
    return json.dumps(answer._asdict()).encode()


def decode_answer(body: bytes) -> Answer | None:
    """What `encode_answer` was given; None if it is anything else."""
    try:
        answer = Answer(**json.loads(body))
    except (ValueError, TypeError):
        return None
    return answer if type(answer.newest) is int and type(answer.leads) is bool else None
