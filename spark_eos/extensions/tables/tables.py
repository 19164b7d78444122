"""Publications of a log: made, published, listed, dropped; from a table's version to the log's entry and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from spark_eos.clients.admin.base import AdminBase
from spark_eos.clients.validation import as_names
from spark_eos.errors import ConfigError, InvalidRequestError
from spark_eos.extensions.tables.publisher import Published, Publisher
from spark_eos.extensions.tables.settings import check_settings, identifier_of, is_copied, retention_ms
from spark_eos.extensions.tables.stamps import ICEBERG
from spark_eos.extensions.tables.target import Target
from spark_eos.extensions.tables.targets import location_of, open_targets
from spark_eos.extensions.tables.values.decoded import columns_of
from spark_eos.log.data_place import check_apart, lie_in_one_another
from spark_eos.log.log import Log
from spark_eos.log.topics import topic_of
from spark_eos.protocol.actions import CreatePublication
from spark_eos.protocol.actions.publishing.publications import require_publication
from spark_eos.protocol.publication import Publication
from spark_eos.storage.urls import absolute

Tell = Callable[[str], None]


class Table(NamedTuple):
    """The table of one topic."""

    publication: str
    """The name of the publication."""
    format: str
    """``delta`` or ``iceberg``."""
    mode: str
    """``shared``: over the log's own files; ``copied``: with files of its own."""
    topic: str
    """The name of the topic."""
    location: str
    """What a reader opens the table with: a path or URL, or ``iceberg:<catalog>.<namespace>.<table>``."""
    version: int | None
    """The newest version, as the table's own format names it. None: nothing has been published."""
    sequence: int
    """The number of that version in the publication; 0: nothing has been published."""
    entry: int | None
    """The log entry that it stands for."""
    retention_ms: int
    """For how long the files of a version stay after the table has a newer one."""


class TableVersion(NamedTuple):
    """A version of a topic's table, and what it stands for."""

    topic: str
    """The name of the topic."""
    version: int
    """The version as the table's own format names it (Delta's ``versionAsOf``, Iceberg's snapshot id)."""
    sequence: int
    """The number of the version in the publication: tables with the same one stand for the same entry."""
    entry: int
    """The log entry that it stands for: ``as_of`` of a read of the log that gives the same rows, up to the ends in
    ``offsets``.
    """
    timestamp_ms: int
    """The time of that entry."""
    offsets: Mapping[int, tuple[int, int]]
    """The first offset and the end (exclusive) of each partition."""


class Tables(AdminBase):
    """Topics of a log as tables of open formats.

    Parameters
    ----------
    url
        A path or URL of a log, or an open `Log`.
    config
        Settings of an object store.
    settings
        The same by keyword, with ``_`` for ``.``.

    Examples
    --------
    >>> import tempfile
    >>> from deltalake import DeltaTable
    >>> from spark_eos import Admin, Producer
    >>> from spark_eos import Tables
    >>> log = tempfile.mkdtemp()
    >>> with Producer(log) as producer:
    ...     for value in (b"one", b"two"):
    ...         _ = producer.send("orders", value)
    >>> tables = Tables(log)
    >>> tables.create("nightly", ["orders"])
    >>> published = tables.publish("nightly")
    >>> (table,) = tables.list_tables()
    >>> DeltaTable(table.location, version=published.versions["orders"]).to_pyarrow_table()[
    ...     "value"
    ... ].to_pylist()
    [b'one', b'two']
    """

    def create(
        self,
        name: str,
        topics: Sequence[str],
        format: str = "delta",  # noqa: A002  (Spark calls it that)
        *,
        mode: str = "shared",
        location: str | None = None,
        retention_ms: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Make a publication. Nothing is published yet.

        Parameters
        ----------
        name
            A name for the publication.
        topics
            The topics that are published together: all versions of their tables stand for the same entries.
        format
            ``delta`` or ``iceberg``.
        mode
            ``shared``: the tables refer to the log's own files. ``copied``: they have copies, at ``location``.
        location
            The folder or URL in which the tables with copies are, each under its topic's name.
        retention_ms
            For how long the files of a version stay after the table has a newer one (default: 7 days).
        config
            Further settings, of Iceberg tables.

        Raises
        ------
        ConfigError
            Settings that are unknown, or do not fit together.
        SchemaMismatchError
            A topic has a column that the format cannot keep.
        UnknownTopicOrPartitionError
            There is no such topic.
        InvalidRequestError
            There is a publication of this name, or a table at the same place.
        """
        log = self._log()
        state = log.follow()
        topic_list = [topic_of(state, topic, log.url) for topic in as_names(topics, "topic")]
        settings = dict(config or {})
        for argument in ("mode", "location", "retention.ms"):
            if argument in settings:
                raise ConfigError(
                    f"publication {name!r}: {argument} is no setting of config: give it as "
                    f"{argument.replace('.', '_')}, on the command line as --{argument.replace('.', '-')}"
                )
        settings["mode"] = mode
        if location is not None:
            # A publisher may run in another folder.
            settings["location"] = str(absolute(location))
        if retention_ms is not None:
            settings["retention.ms"] = str(retention_ms)
        check_settings(name, format, settings, topic_list)
        pairs = tuple((topic.name, topic.topic_id) for topic in topic_list)
        action = CreatePublication(name, format, tuple(sorted(settings.items())), pairs)
        trial = Publication(name, format, dict(settings), pairs)  # type: ignore[arg-type]  # it is looked at, not kept
        targets = open_targets(log, trial, self._settings)
        for topic in topic_list:
            target = targets[topic.name]
            if is_copied(trial):
                check_apart(log.store, target.files_store(), "table")
                _check_beside_tables(log, name, location_of(log, trial, topic.name, topic.topic_id))
            target.check_schema(columns_of(trial, topic))
        log.commit(lambda _: (action,), writer="tables")

    def publisher(self, name: str, *, tell: Tell = lambda _: None) -> Publisher:
        """Make a publisher of a publication, to publish again and again.

        Parameters
        ----------
        name
            The name of the publication.
        tell
            Is called with what is being done.

        Returns
        -------
        Publisher
            Its first publish takes over from earlier ones.
        """
        log = self._log()
        publication = require_publication(log.follow(), name)
        return Publisher(log, name, self._targets(log, publication), tell=tell)

    def publish(self, name: str, *, rebuild: bool = False, tell: Tell = lambda _: None) -> Published:
        """Make the tables of a publication stand for the newest entry of the log.

        Nothing is written if they do so already. It may be killed at any moment: the next call finishes what was begun.

        Parameters
        ----------
        name
            The name of the publication.
        rebuild
            Make the tables from nothing. Their own histories begin again.
        tell
            Is called with what is being done.

        Returns
        -------
        Published
            The newest version, and whether this call has made it.

        Raises
        ------
        ProducerFencedError
            Another publisher has taken over.
        SchemaMismatchError
            A topic has a column that the format does not have.
        ConfigError
            The table of another program is in the place of one.
        """
        return self.publisher(name, tell=tell).publish(rebuild=rebuild)

    def list_tables(self) -> list[Table]:
        """List the tables of all publications.

        Returns
        -------
        list of Table
            By publication, then in the order of its topics.
        """
        log = self._log()
        publications = log.follow().publications
        return [table for name in sorted(publications) for table in _tables(log, publications[name])]

    def versions(self, name: str, topic: str | None = None) -> list[TableVersion]:
        """List what the tables of a publication have published, as the tables themselves say it.

        Parameters
        ----------
        name
            The name of the publication.
        topic
            Only this topic. None: all.

        Returns
        -------
        list of TableVersion
            The newest first, for each topic.

        Raises
        ------
        InvalidRequestError
            There is no such publication, or it has no such topic.
        """
        log = self._log()
        publication = require_publication(log.follow(), name)
        targets = self._targets(log, publication)
        if topic is not None and topic not in targets:
            raise InvalidRequestError(
                f"publication {name!r} has no topic {topic!r}; it has {', '.join(targets)}"
            )
        table_versions = []
        for topic_name in targets if topic is None else (topic,):
            for version in targets[topic_name].versions():
                stamp = version.stamp
                if stamp is not None and (stamp.log_id, stamp.publication) == (log.log_id, name):
                    table_versions.append(
                        TableVersion(
                            *(topic_name, version.native, stamp.sequence, stamp.entry, stamp.timestamp_ms),
                            offsets=stamp.offsets,
                        )
                    )
        return table_versions

    def version_at(self, name: str, topic: str, entry: int) -> TableVersion:
        """Find the version of a topic's table for a log entry: the newest one that stands for no later entry.

        Parameters
        ----------
        name
            The name of the publication.
        topic
            The name of the topic.
        entry
            The number of a log entry.

        Returns
        -------
        TableVersion
            It stands for this entry, or for an earlier one.

        Raises
        ------
        InvalidRequestError
            The table has no version so old.
        """
        for version in self.versions(name, topic):
            if version.entry <= entry:
                return version
        raise InvalidRequestError(
            f"the table of topic {topic!r} has no version for entry {entry} or an earlier one"
        )

    def drop(self, name: str) -> None:
        """Drop a publication. Tables that share the log's files are removed, those with copies stay as they are.

        Parameters
        ----------
        name
            The name of the publication.
        """
        self.publisher(name).drop()

    def _targets(self, log: Log, publication: Publication) -> Mapping[str, Target]:
        return open_targets(log, publication, self._settings)


def _check_beside_tables(log: Log, name: str, place: str) -> None:
    """Raise `InvalidRequestError` if a table of a publication is there, in it or around it."""
    for publication in log.state.publications.values():
        for topic, topic_id in publication.topics if is_copied(publication) else ():
            other = location_of(log, publication, topic, topic_id)
            if lie_in_one_another(place, other):
                raise InvalidRequestError(
                    f"publication {name!r}: the table {place} would be at the same place as {other}, of publication "
                    f"{publication.name!r}, in it or around it: choose another location"
                )


def _tables(log: Log, publication: Publication) -> list[Table]:
    version = publication.published
    return [
        Table(
            publication.name,
            publication.format,
            "copied" if is_copied(publication) else "shared",
            topic,
            _path(log, publication, topic, topic_id),
            None if version is None else version.natives[topic],
            0 if version is None else version.sequence,
            None if version is None else version.entry,
            retention_ms(publication),
        )
        for topic, topic_id in publication.topics
    ]


def _path(log: Log, publication: Publication, topic: str, topic_id: str) -> str:
    if publication.format == "iceberg":
        name = identifier_of(publication.config["namespace"], topic)
        return f"{ICEBERG}{publication.config['catalog']}.{name}"
    return location_of(log, publication, topic, topic_id)
