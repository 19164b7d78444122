"""The tables of a publication: where each one is, opened in the publication's format."""

from __future__ import annotations

from collections.abc import Mapping

from spark_eos.extensions.tables.settings import identifier_of, is_copied
from spark_eos.extensions.tables.target import Target
from spark_eos.log import paths
from spark_eos.log.log import Log
from spark_eos.protocol.publication import Publication
from spark_eos.storage import NO_SETTINGS, Settings, settings_of
from spark_eos.storage.two_stores import is_apart
from spark_eos.storage.urls import data_settings_of


def location_of(log: Log, publication: Publication, topic: str, topic_id: str) -> str:
    """The folder that the files of a topic's table are relative to, as a path or URL.

    It lies with the data files of the log, if the table shares them; else it has the topic's name, in the location of
    the publication.
    """
    if is_copied(publication):
        return f"{publication.config['location'].rstrip('/')}/{topic}"
    return f"{log.data_location.rstrip('/')}/{paths.table_folder(topic, topic_id).rstrip('/')}"


def _of_log(log: Log, root: str) -> Settings:
    """The log's own settings for a table: beside its data files they are those of that store."""
    settings = log.store.settings
    is_beside = is_apart(log.state.data_url) and root.startswith(f"{log.data_location.rstrip('/')}/")
    return data_settings_of(root, settings) if is_beside else settings_of(root, settings)


def open_targets(
    log: Log, publication: Publication, settings: Settings = NO_SETTINGS
) -> Mapping[str, Target]:
    """The tables by topic. ``settings`` are those of the object store in which copies are."""
    targets: dict[str, Target] = {}
    for topic, topic_id in publication.topics:
        root = location_of(log, publication, topic, topic_id)
        own = settings_of(root, settings) or _of_log(log, root)
        if publication.format == "delta":
            from spark_eos.extensions.tables.delta.target import DeltaTarget

            targets[topic] = DeltaTarget(root, own)
        else:
            from spark_eos.extensions.tables.iceberg.target import IcebergTarget

            targets[topic] = IcebergTarget(
                root,
                identifier_of(publication.config["namespace"], topic),
                publication.config["catalog"],
                own,
                is_shared=not is_copied(publication),
            )
    return targets
