"""The publisher: makes the next version of all tables of a publication, for one entry of the log.

A version is made in steps, each of which may be the last one of a process:

1. *Seal*: all rows of the topics that the version has get into Parquet files that have no others. It ends at the last
   stable offsets of the entry, or before, so that no committed transaction is split (`version_ends`).
2. *Begin*: the log notes what the version will have, and keeps these files (`BeginPublish`).
3. *Commit*: each table gets the version, by a compare-and-set on the version before.
4. *End*: the log notes that all tables have it (`EndPublish`).

The next publisher takes an epoch of its own, after which the log refuses the one before, and finishes what was begun:
a table that has the version already says so. A table that is lost or damaged gets the version as a whole. So the log is
the only truth, and after a crash anywhere the tables are as if there had been none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from spark_eos.errors import (
    ConfigError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    SegmentsReplacedError,
    StagedFileExpiredError,
    TableChangedError,
    TableDamagedError,
)
from spark_eos.extensions.tables.columns import oldest_version
from spark_eos.extensions.tables.compacted import altered_since
from spark_eos.extensions.tables.contents import Contents, topic_of, version_ends
from spark_eos.extensions.tables.settings import is_copied, is_merged
from spark_eos.extensions.tables.target import Stamp, Target, Version
from spark_eos.extensions.tables.values.decoded import columns_of, has_newest_columns
from spark_eos.log.log import Log
from spark_eos.log.selection.units import held_by
from spark_eos.maintenance.segments.sealer import Cut, seal
from spark_eos.protocol.actions import BeginPublish, DropPublication, EndPublish, FencePublisher
from spark_eos.protocol.actions.publishing.publications import require_publication
from spark_eos.protocol.actions.publishing.versions import pages_of
from spark_eos.protocol.encoding.index_pages import checksum
from spark_eos.protocol.publication import Pin, Publication, PublicationVersion
from spark_eos.protocol.state import PartitionKey, State, Topic
from spark_eos.protocol.types import PinnedRange

WRITER = "publish"
_ATTEMPTS = 20
"""A plan that was outrun by another process is made again so often; a table that was changed is looked at so often."""

Tell = Callable[[str], None]

_LOG = logging.getLogger(__name__)


class Published(NamedTuple):
    """The newest version of the tables of a publication, and what it stands for."""

    publication: str
    """The name of the publication."""
    sequence: int
    """The number of the version, from 1 on; 0: nothing has been published."""
    entry: int
    """The log entry that the version stands for."""
    timestamp_ms: int
    """The time of that entry."""
    versions: Mapping[str, int]
    """By topic the version of its table in the table's own format."""
    is_new: bool
    """Whether this call has made the version. False: the tables were up to date."""


class Publisher:
    """Publishes one publication, again and again. `Tables.publisher` makes one.

    Not for several threads. It may be killed at any moment. A second publisher takes over from this one.

    Parameters
    ----------
    log
        The log.
    name
        The name of the publication.
    targets
        Its tables, by topic.
    tell
        Is called with what is being done.

    Examples
    --------
    >>> import tempfile
    >>> from spark_eos import Admin, Producer
    >>> from spark_eos import Tables
    >>> log = tempfile.mkdtemp()
    >>> with Producer(log) as producer:
    ...     _ = producer.send("orders", b"one")
    >>> tables = Tables(log)
    >>> tables.create("hourly", ["orders"])
    >>> publisher = tables.publisher("hourly")
    >>> publisher.publish().is_new, publisher.publish().is_new, publisher.is_due()
    (True, False, False)
    """

    def __init__(
        self, log: Log, name: str, targets: Mapping[str, Target], *, tell: Tell = lambda _: None
    ) -> None:
        self._log = log
        self._name = name
        self._targets = targets
        self._tell = tell
        self._contents = Contents(log, name, targets)
        self._first = require_publication(log.state, name).first
        self._epoch: int | None = None

    def publish(self, *, rebuild: bool = False) -> Published:
        """As `Tables.publish`."""
        publication = self._publication()
        self._log.end_overdue()
        self._check_schemas(publication)
        is_new = publication.begun is not None
        if is_new:
            self._tell(f"finishing version {publication.sequence}")
            self._take_over()
            publication = self._finish(rebuild=False)
        if not self._is_up_to_date(publication) or rebuild:
            self._take_over()
            if self._publication().begun is not None:  # By another one, between the look and the take-over.
                self._finish(rebuild=False)
            self._begin()
            publication = self._finish(rebuild=rebuild)
            is_new = True
        self._contents.forget()
        version = publication.published
        assert version is not None
        natives = dict(sorted(version.natives.items()))
        return Published(self._name, version.sequence, version.entry, version.timestamp_ms, natives, is_new)

    def is_due(self) -> bool:
        """Look whether there is something to publish; nothing is written. It raises what `publish` raises.

        Returns
        -------
        bool
            False: log and tables are as the newest version says.
        """
        publication = self._publication()
        self._check_schemas(publication)
        return publication.begun is not None or not self._is_up_to_date(publication)

    def drop(self) -> None:
        """Remove the publication, and those of its tables of which the log has the files; copies stay."""
        self._take_over()
        publication = self._publication()
        for topic, _ in publication.topics:
            if not is_copied(publication) and self._is_own(publication, self._targets[topic]):
                self._targets[topic].drop()
        action = DropPublication(self._name, self._epoch)
        self._log.commit(lambda _: (action,), writer=WRITER)

    def _is_own(self, publication: Publication, target: Target) -> bool:
        """Whether the table, if there is one, was made by this publication."""
        try:
            version = target.current()
        except TableDamagedError:
            return publication.published is not None
        if version is None:
            return True
        stamp = version.stamp
        is_known = stamp is not None and (stamp.log_id, stamp.publication) == (self._log.log_id, self._name)
        if is_known and target.is_here():
            return True
        self._tell(f"{target.place} is not the one that publication {self._name!r} has made: it stays")
        return False

    # -- In the log -------------------------------------------------------------------------------------

    def _publication(self) -> Publication:
        publication = require_publication(self._log.follow(), self._name)
        if publication.first != self._first:  # No two of one name have the same.
            raise ProducerFencedError(
                f"publication {self._name!r} was dropped, and made again: this publisher is for the one before"
            )
        return publication

    def _take_over(self) -> None:
        """Fence earlier publishers, once; later on, find out whether this one was fenced."""
        if self._epoch is None:
            action = FencePublisher(self._name)
            self._epoch = int(self._log.commit(lambda _: (action,), writer=WRITER).results[0])
        elif self._publication().epoch != self._epoch:
            raise ProducerFencedError(
                f"another publisher has taken over publication {self._name!r}: this one has epoch {self._epoch}. "
                "One program is to publish it, and eoslog maintain does so, too"
            )

    def _check_schemas(self, publication: Publication) -> None:
        for name, topic_id in publication.topics:
            self._targets[name].check_schema(
                columns_of(publication, topic_of(self._log.state, name, topic_id))
            )

    def _is_up_to_date(self, publication: Publication) -> bool:
        """Whether log and tables are as the newest version says. Raises `ConfigError` for the table of another."""
        version = publication.published
        if version is None:
            for name, _ in publication.topics:
                self._check_free(name)
            return False
        state = self._log.state
        ends = version_ends(self._log, publication, state)
        for wait in held_by(state, publication):
            self._tell(f"committed records wait for {wait}")
        for name, topic_id in publication.topics:
            topic = topic_of(state, name, topic_id)
            if version.schemas[name] != len(topic.schemas):
                return False
            for number in range(topic.partitions):
                pin, partition = version.pins.get((topic_id, number)), state.partitions[topic_id, number]
                if pin is None or (pin.start, pin.end) != (partition.start, ends[topic_id, number]):
                    return False
        for name, topic_id in publication.topics:
            try:
                current = self._targets[name].current()
            except TableDamagedError as error:
                self._tell(f"{error}: it is published again as a whole")
                return False
            if current is None or current.stamp != self._contents.stamp(publication, version, name):
                self._tell(f"{self._targets[name].place} is not as it was published: it is published again")
                return False
            topic = topic_of(state, name, topic_id)
            may_have_other_key = is_merged(publication, topic) and altered_since(state, topic, version.entry)
            if may_have_other_key or not has_newest_columns(publication, topic, self._targets[name]):
                return False
        return True

    def _check_free(self, name: str) -> None:
        """Raise `ConfigError` if there is a table before anything was published."""
        try:
            version = self._targets[name].current()
        except TableDamagedError as error:
            raise ConfigError(f"publication {self._name!r} cannot begin: {error}. Remove it first") from error
        if version is not None:
            raise ConfigError(
                f"publication {self._name!r} cannot begin: there is a table already, {self._targets[name].place}. "
                "Remove it first, or choose another location"
            )

    def _begin(self) -> None:
        """Seal, and note the intent. Plans again if another process rewrites or deletes what was planned."""
        reason: Exception | None = None
        for _ in range(_ATTEMPTS):
            state = self._log.follow()
            publication = require_publication(state, self._name)
            try:
                action = self._planned(publication, state)
                self._log.commit(lambda _, action=action: (action,), writer=WRITER)  # type: ignore[misc]
            except (SegmentsReplacedError, StagedFileExpiredError, OffsetOutOfRangeError) as error:
                self._tell(f"planning again: {error}")
                reason = error
                continue
            return
        text = f"publication {self._name!r}: planned {_ATTEMPTS} times; publish again. At last: {reason}"
        raise SegmentsReplacedError(text) from reason

    def _planned(self, publication: Publication, base: State) -> BeginPublish:
        """The request for a version that stands for the newest entry of ``base``; all it has is sealed."""
        topics = [topic_of(base, *pair) for pair in publication.topics]
        ends = version_ends(self._log, publication, base)
        cuts = [
            cut for topic in topics if not is_merged(publication, topic) for cut in _cuts(base, topic, ends)
        ]
        if cuts:
            self._tell(f"sealing {len(cuts)} partitions as they are after entry {base.seq}")
        sealed = seal(self._log, cuts, writer=WRITER)
        ranges = []
        for topic in topics:
            if len(topic_of(sealed, topic.name, topic.topic_id).schemas) != len(topic.schemas):
                raise SegmentsReplacedError(f"topic {topic.name!r} has other columns by now")
            for number in range(topic.partitions):
                key = (topic.topic_id, number)
                start, end = base.partitions[key].start, ends[key]
                if sealed.partitions[key].start != start:
                    raise SegmentsReplacedError(f"{topic.name}-{number} starts at another offset by now")
                _, pages = pages_of(key, sealed.partitions[key], start, end)
                if not is_merged(publication, topic):
                    self._contents.files(topic, number, Pin(start, end, pages), len(topic.schemas))
                ranges.append(PinnedRange(topic.topic_id, number, start, end, checksum(pages)))
        schemas = tuple((topic.name, len(topic.schemas)) for topic in topics)
        assert self._epoch is not None
        return BeginPublish(
            *(self._name, self._epoch, publication.sequence + 1, base.seq, tuple(ranges), base.timestamp_ms),
            schemas=schemas,
        )

    # -- In the tables ----------------------------------------------------------------------------------

    def _finish(self, *, rebuild: bool) -> Publication:
        """Bring the version that was begun into all tables, and note it. The publication after that."""
        publication = self._publication()
        version = publication.begun
        if version is None:
            return publication
        natives = []
        for name, topic_id in publication.topics:
            topic = topic_of(self._log.state, name, topic_id)
            natives.append((name, self._commit(publication, version, topic, rebuild=rebuild).native))
        released = tuple(name for name, _ in publication.topics) if is_copied(publication) else ()
        assert self._epoch is not None
        action = EndPublish(self._name, self._epoch, version.sequence, tuple(natives), released)
        self._log.commit(lambda _: (action,), writer=WRITER)
        for name, _ in publication.topics:
            self._targets[name].maintain()
        return self._publication()

    def _commit(
        self, publication: Publication, version: PublicationVersion, topic: Topic, *, rebuild: bool
    ) -> Version:
        """Bring the version into one table, whatever it is now."""
        target, stamp = self._targets[topic.name], self._contents.stamp(publication, version, topic.name)
        reason: Exception | None = None
        for _ in range(_ATTEMPTS):
            try:
                head = target.current()
            except TableDamagedError as error:
                self._remove(target, str(error))
                head = None
            if head is not None and head.stamp == stamp and not (rebuild and reason is None):
                return head
            if head is not None:
                head = self._usable(publication, head, target, stamp, rebuild=rebuild and reason is None)
            self._tell(f"version {version.sequence} of {target.place}")
            try:
                change = self._contents.change(publication, version, topic, head)
                return target.commit(head, change, stamp, self._contents.footer)
            except TableChangedError as error:
                reason = error
            except TableDamagedError as error:
                if head is None and isinstance(reason, TableDamagedError):
                    raise  # Of a table that was removed just now.
                reason = error
                self._remove(target, str(error))
        raise TableChangedError(f"{target.place}: tried {_ATTEMPTS} times, at last: {reason}") from reason

    def _usable(
        self, publication: Publication, head: Version, target: Target, stamp: Stamp, *, rebuild: bool
    ) -> Version | None:
        """The table if the next version can be made from it; None after it was removed."""
        old = head.stamp
        if old is None or (old.log_id, old.publication) != (stamp.log_id, stamp.publication):
            raise ConfigError(
                f"{target.place} is not the one that publication {self._name!r} has made: another program has put "
                "it there. Remove it, and publish again"
            )
        before = publication.published
        if rebuild or before is None or old != self._contents.stamp(publication, before, stamp.topic):
            # One from a backup, or of a log from a backup: its files need not be the log's.
            self._remove(target, "" if rebuild else f"{target.place} is not as it was published")
            return None
        return head

    def _remove(self, target: Target, why: str) -> None:
        """Remove a table, if this publisher may still write. With a reason it warns: earlier versions are gone then."""
        self._take_over()
        if why:
            _LOG.warning("%s: it is published again as a whole, and its earlier versions are gone", why)
        target.drop()


def _cuts(state: State, topic: Topic, ends: Mapping[PartitionKey, int]) -> list[Cut]:
    oldest = oldest_version(topic)
    cuts = []
    for number in range(topic.partitions):
        key = topic.topic_id, number
        cuts.append(Cut(topic.name, *key, state.partitions[key].start, ends[key], oldest))
    return cuts
