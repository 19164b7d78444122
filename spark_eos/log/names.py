"""Where things are in the store (docs/design/0001: storage layout)."""

from __future__ import annotations

from urllib.parse import quote

from spark_eos.protocol.index import Piece

__all__ = ["DATA", "INDEX", "LOG", "SNAPSHOTS", "data_file", "entry", "piece", "snapshot", "snapshot_seq"]

LOG = "_log/"
SNAPSHOTS = f"{LOG}snapshots/"
INDEX = f"{LOG}index/"
DATA = "data/"


def entry(seq: int, per_folder: int = 0) -> str:
    """The name of slot ``seq`` of the transaction log; ``per_folder`` as in the log's state.

    The first ``per_folder`` lie in ``_log/`` itself, where also the logs lie that have no other folder.
    """
    folder = f"{seq // per_folder:012d}/" if per_folder and seq >= per_folder else ""
    return f"{LOG}{folder}{seq:020d}.avro"


def snapshot(seq: int) -> str:
    """The name of the state behind entry ``seq``."""
    return f"{SNAPSHOTS}{seq:020d}.avro"


def snapshot_seq(name: str) -> int | None:
    """The entry that a snapshot's name says; None for any other name."""
    digits = name.removeprefix(SNAPSHOTS).removesuffix(".avro")
    return int(digits) if digits.isascii() and digits.isdigit() and snapshot(int(digits)) == name else None


def piece(of: Piece) -> str:
    """The name of a sealed piece of a partition's index: the same content has the same name."""
    topic_id, number = of.partition
    return (
        f"{INDEX}{quote(topic_id, safe='')}/{number}/"
        f"{of.level}-{of.base_offset:020d}-{of.next_offset:020d}-{of.crc:08x}.avro"
    )


def data_file(topic: str, topic_id: str, base_seq: int, unique: str) -> str:
    """The name of a staged file; ``base_seq`` is the log position at which its writer started."""
    return f"{DATA}{topic}-{topic_id}/{base_seq:020d}-{unique}.arrow"
