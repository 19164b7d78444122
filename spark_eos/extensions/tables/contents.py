"""What the tables of a publication get in a version: its ends, the files or rows, the columns, and the stamp."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_eos.errors import SegmentsReplacedError, UnknownTopicOrPartitionError
from spark_eos.extensions.tables.columns import grows_into, table_schema
from spark_eos.extensions.tables.compacted import newest_rows
from spark_eos.extensions.tables.copies import copy_files
from spark_eos.extensions.tables.planner import Planner, SealedFile, Unsealed, difference
from spark_eos.extensions.tables.settings import is_copied, is_merged, retention_ms
from spark_eos.extensions.tables.target import DataFile, FileChange, RowChange, Stamp, Target, Version
from spark_eos.extensions.tables.values.decoded import decoded_copies, has_newest_columns
from spark_eos.log import paths
from spark_eos.log.data.parquet.reader import read_footer
from spark_eos.log.log import Log
from spark_eos.log.selection.units import whole_ends
from spark_eos.protocol.publication import Pin, Publication, PublicationVersion
from spark_eos.protocol.state import PartitionKey, State, Topic
from spark_eos.protocol.types import FileRef


class Contents:
    """Makes what a publisher commits. It remembers what it has planned."""

    def __init__(self, log: Log, name: str, targets: Mapping[str, Target]) -> None:
        self._log = log
        self._name = name
        self._targets = targets
        self._planner = Planner(log.load)
        self._refs: dict[str, FileRef] = {}
        self._footers: dict[str, Any] = {}

    def forget(self) -> None:
        """Keep only what the version just made has needed."""
        self._planner.forget()

    def files(self, topic: Topic, number: int, pin: Pin, versions: int) -> list[SealedFile]:
        """The files of a pin. Raises `SegmentsReplacedError` if they are not those of a table, by now."""
        files = self._planner.files(number, pin, lambda version: grows_into(topic, version, versions))
        if isinstance(files, Unsealed):
            raise SegmentsReplacedError(
                f"{topic.name}-{number}, offsets {files.base_offset} to {files.next_offset}: {files.why}"
            )
        return files

    def stamp(self, publication: Publication, version: PublicationVersion, name: str) -> Stamp:
        """What the table of the topic ``name`` says of the version."""
        topic_id = dict(publication.topics)[name]
        offsets = {
            number: (pin.start, pin.end) for (id_, number), pin in version.pins.items() if id_ == topic_id
        }
        return Stamp(
            self._log.log_id,
            self._name,
            version.sequence,
            version.entry,
            version.timestamp_ms,
            name,
            topic_id,
            dict(sorted(offsets.items())),
            retention_ms(publication),
        )

    def change(
        self, publication: Publication, version: PublicationVersion, topic: Topic, current: Version | None
    ) -> FileChange | RowChange:
        """What the topic's table needs to have the version. It is at ``current``, an earlier one (None: no table)."""
        target, versions = self._targets[topic.name], version.schemas[topic.name]
        schema = table_schema(topic, versions)
        pins = {number: pin for (id_, number), pin in version.pins.items() if id_ == topic.topic_id}
        before = publication.published
        grows = current is not None and before is not None
        grows = grows and before is not None and grows_into(topic, before.schemas[topic.name], versions)
        grows = grows and has_newest_columns(publication, topic, target)
        if is_merged(publication, topic):
            last = current.stamp if current is not None and grows else None
            return newest_rows(self._log, topic, versions, pins, last)
        files = [
            file for number, pin in sorted(pins.items()) for file in self.files(topic, number, pin, versions)
        ]
        decoded = decoded_copies(publication, topic)
        if decoded is not None:
            return decoded.change(self._log.store, target, files, self._footers, is_new=current is None)
        self._footers.clear()
        if is_copied(publication):
            data_files = {file.copied().path: file.copied() for file in files}
            self._refs = {file.copied().path: file.ref for file in files}
        else:
            folder = paths.table_folder(topic.name, topic.topic_id)
            data_files = {file.at(folder).path: file.at(folder) for file in files}
            self._refs = {file.at(folder).path: file.ref for file in files}
        added, removed = difference(target.files() if current is not None and grows else (), data_files)
        if is_copied(publication):
            copy_files(
                self._log.store, target.files_store(), {file.path: self._refs[file.path] for file in added}
            )
        return FileChange(schema, added, removed, replaces_all=current is None or not grows)

    def footer(self, file: DataFile) -> Any:
        """The footer of a file of the change that was made last."""
        footer = self._footers.get(file.path)
        return read_footer(self._log.store, self._refs[file.path]).metadata if footer is None else footer


def version_ends(log: Log, publication: Publication, state: State) -> dict[PartitionKey, int]:
    """The ends that split no transaction: the last stable offsets in ``state``, or before. They never go back."""
    pins = {} if publication.published is None else publication.published.pins
    start = {}
    for name, topic_id in publication.topics:
        for number in range(topic_of(state, name, topic_id).partitions):
            key = topic_id, number
            pin = pins.get(key)
            start[key] = max(state.partitions[key].start, 0 if pin is None else pin.end)
    return whole_ends(log, state, start)


def topic_of(state: State, name: str, topic_id: str) -> Topic:
    """The topic of a publication. Raises `UnknownTopicOrPartitionError` if it is not there any more."""
    topic = state.topics.get(name)
    if topic is None or topic.topic_id != topic_id:
        raise UnknownTopicOrPartitionError(f"topic {name!r} with id {topic_id} is not in the log any more")
    return topic
