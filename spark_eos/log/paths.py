"""Where things are in the store (docs/design/0001: storage layout)."""

from __future__ import annotations

from urllib.parse import quote

from spark_eos.protocol.index import IndexPage
from spark_eos.storage.object_names import MAX_PART_BYTES

COPY = "_copy"
"""Lies in the place of an unfinished copy: what is copied."""
LOG = "_log/"
ENTRIES = f"{LOG}0"
"""What all names of entries begin with, and no other names."""
SNAPSHOTS = f"{LOG}snapshots/"
INDEX = f"{LOG}index/"
DATA = "data/"
TABLES = "tables/"
SEGMENTS = "_segments/"
"""Below the folder of a topic's table: the Parquet files of the log. Programs that clean up tables pass over it."""


def entry(seq: int, per_folder: int = 0) -> str:
    """The name of slot ``seq`` of the transaction log; ``per_folder`` as in the log's state.

    The first ``per_folder`` lie in ``_log/`` itself, where also the logs lie that have no other folder.
    """
    folder = f"{seq // per_folder:012d}/" if per_folder and seq >= per_folder else ""
    return f"{LOG}{folder}{seq:020d}.avro"


def entry_seq(name: str) -> int | None:
    """The slot that an entry's name says, in whichever folder; None for any other name."""
    digits = name.rpartition("/")[2].removesuffix(".avro")
    return int(digits) if name.startswith(ENTRIES) and len(digits) == 20 and digits.isdecimal() else None


def snapshot(seq: int) -> str:
    """The name of the state after entry ``seq``."""
    return f"{SNAPSHOTS}{seq:020d}.avro"


def snapshot_seq(name: str) -> int | None:
    """The entry that a snapshot's name says; None for any other name."""
    digits = name.removeprefix(SNAPSHOTS).removesuffix(".avro")
    return int(digits) if digits.isascii() and digits.isdigit() and snapshot(int(digits)) == name else None


def page(of: IndexPage) -> str:
    """The name of a sealed page of a partition's index: the same content has the same name."""
    topic_id, number = of.partition
    return (
        f"{INDEX}{quote(topic_id, safe='')}/{number}/"
        f"{of.level}-{of.base_offset:020d}-{of.next_offset:020d}-{of.crc:08x}.avro"
    )


def data_folder(topic: str, topic_id: str) -> str:
    """Where the files of a topic are; the topic's name is cut off where a store does not take all of it.

    The id tells topics apart, the name is for people: cut off, it names the same topic. No reader depends on it, as
    entries have the whole name of each file.
    """
    return f"{DATA}{_folder(topic, topic_id)}"


def table_folder(topic: str, topic_id: str) -> str:
    """The root of the topic's table: what such a table says of its files is relative to it."""
    return f"{TABLES}{_folder(topic, topic_id)}"


def segment_folder(topic: str, topic_id: str) -> str:
    """Where the topic's Parquet files are."""
    return f"{table_folder(topic, topic_id)}{SEGMENTS}"


def segment_file(topic: str, topic_id: str, base_seq: int, unique: str, partition: int) -> str:
    """The name of a Parquet file with rows of one partition; ``base_seq`` as in `data_file`."""
    return f"{segment_folder(topic, topic_id)}{partition}/{base_seq:020d}-{unique}.parquet"


def is_data(name: str) -> bool:
    """Whether it is where the log has data files; what else is below their folder is another log's, or none."""
    _, *folders, _ = name.split("/")
    return name.startswith(DATA) and (len(folders) == 1 or (len(folders) == 2 and folders[1].isdecimal()))


def is_segment(name: str) -> bool:
    """Whether it is the name of a Parquet file of the log, and not of one that a table has for itself."""
    parts = name.split("/", 3)
    return len(parts) == 4 and parts[0] == TABLES[:-1] and parts[2] == SEGMENTS[:-1]


def _folder(topic: str, topic_id: str) -> str:
    room = max(MAX_PART_BYTES - 1 - len(topic_id), 0)
    return f"{topic[:room]}-{topic_id}/"


def data_file(topic: str, topic_id: str, base_seq: int, unique: str, partition: int | None = None) -> str:
    """The name of a staged file; ``base_seq`` is the log position at which its writer started.

    Files of a single ``partition``, those that maintenance writes, have a folder for it.
    """
    below = "" if partition is None else f"{partition}/"
    return f"{data_folder(topic, topic_id)}{below}{base_seq:020d}-{unique}.arrow"
