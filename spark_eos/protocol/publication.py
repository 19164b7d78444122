"""Publications: topics that are published together as tables, and what each version of the tables needs of the log.

A version of the tables stands for one entry of the log. The state *pins* the index pages that hold the version's
offsets: their data files stay as long as the version is there, whatever the log itself still needs. Pages are
immutable and shared with the partitions' own indexes, so a pin costs a few references.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from immutables import Map

from spark_eos.protocol.index import Index, IndexPage, IndexRow, Load, in_memory

RETENTION_MS = 7 * 24 * 3600 * 1000
"""How long files stay that a table has dropped, if the publication has no ``retention.ms``."""


class Pin(NamedTuple):
    """The offsets ``start`` to ``end - 1`` of a partition in a version, and the index pages that hold them.

    The pages may begin before and end after these offsets. There are none if there are no offsets, or if the table has
    copies of the records and needs the log's files no more (`EndPublish.released`).
    """

    start: int
    end: int
    pages: tuple[IndexPage, ...] = ()

    def rows(self, load: Load = in_memory) -> Iterator[IndexRow]:
        """The rows of these offsets, in order."""
        for row in Index(self.pages).scan(self.start, load):
            if row.base_offset >= self.end:
                return
            yield row

    @property
    def is_whole(self) -> bool:
        """Whether all its offsets are still pinned."""
        return bool(self.pages) or self.start == self.end


class PublicationVersion(NamedTuple):
    """A version of all tables of a publication: the topics as they were after ``entry``.

    ``sequence`` numbers the versions of a publication. ``epoch`` is that of the publisher that began it, by the entry
    ``begun_seq``; ``timestamp_ms`` the log's time at ``entry``, as the publisher says. ``schemas`` says by topic how
    many versions its schema had, ``natives`` by topic the version of its table in the table's own format, once it is
    known.
    """

    sequence: int
    entry: int
    epoch: int
    begun_seq: int
    timestamp_ms: int
    schemas: Map[str, int]
    pins: Map[tuple[str, int], Pin]
    natives: Map[str, int] = Map()


class Publication(NamedTuple):
    """Topics that are published together: names with ids, always in the same order.

    ``epoch`` is that of the publisher that may write now. ``published`` is the newest version that all tables are known
    to have, ``begun`` the one after it, which some of them may have. ``first`` is the sequence before the first one.
    """

    name: str
    format: str
    config: Map[str, str]
    topics: tuple[tuple[str, str], ...]
    epoch: int = 0
    first: int = 0
    published: PublicationVersion | None = None
    begun: PublicationVersion | None = None

    @property
    def newest(self) -> PublicationVersion | None:
        """The newest version, begun or published."""
        return self.begun or self.published

    @property
    def sequence(self) -> int:
        """The sequence of the newest version; the next one is one more."""
        newest = self.newest
        return self.first if newest is None else newest.sequence

    @property
    def versions(self) -> tuple[PublicationVersion, ...]:
        """The versions that are pinned, the older one first."""
        return tuple(version for version in (self.published, self.begun) if version is not None)

    @property
    def retention_ms(self) -> int:
        """How long files stay for readers of earlier versions, once the newest one does not have them."""
        return int(self.config.get("retention.ms", RETENTION_MS))

    def shares(self, topic_id: str) -> bool:
        """Whether the table of a topic may refer to the log's own files: it was not said that it has copies."""
        pins = () if self.published is None else self.published.pins.items()
        return all(pin.is_whole for key, pin in pins if key[0] == topic_id)
