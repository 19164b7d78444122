"""Where things are in the store (docs/design/0001: storage layout)."""

from __future__ import annotations

__all__ = ["DATA", "LOG", "data_file", "entry"]

LOG = "_log/"
DATA = "data/"


def entry(seq: int) -> str:
    """The name of slot ``seq`` of the transaction log."""
    return f"{LOG}{seq:020d}.avro"


def data_file(topic: str, topic_id: str, base_seq: int, unique: str) -> str:
    """The name of a staged file; ``base_seq`` is the log position at which its writer started."""
    return f"{DATA}{topic}-{topic_id}/{base_seq:020d}-{unique}.arrow"
