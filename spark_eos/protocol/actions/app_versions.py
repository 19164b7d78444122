"""Versions of batch jobs: a write that is repeated under the same version writes nothing (Delta's ``txn`` action).

A job without a checkpoint has nothing by which a second attempt could be known as one. So the user names the job
(``txnAppId``) and counts its writes (``txnVersion``), and the log keeps the last version that it has committed. The
version is in the entry of the rows: without that, a job that dies between the two writes its rows a second time.

Versions are kept for each topic, as Delta keeps them for each table: a job that writes one version to two topics, one
after the other, writes both. A write to several topics in one entry has a version of its own, without a topic.
"""

from __future__ import annotations

from typing import NamedTuple

from spark_eos.errors import InvalidRequestError
from spark_eos.protocol.actions.declaration import Bounds, Fate, Field, declare
from spark_eos.protocol.encoding.avro import LONG, STRING, optional_of
from spark_eos.protocol.replace import replace
from spark_eos.protocol.state import AppVersion, State


class SetAppVersion(NamedTuple):
    """The job ``app_id`` has written ``version``: to the topic with the id ``topic_id``, or (None) to several."""

    app_id: str
    version: int
    topic_id: str | None = None


def is_committed(state: State, action: SetAppVersion) -> bool:
    """Whether the job has committed this version, or a later one."""
    last = state.app_versions.get((action.app_id, action.topic_id or ""))
    return last is not None and action.version <= last.version


def set_app_version(state: State, action: SetAppVersion) -> tuple[State, None]:
    """Versions of a job only rise, so what comes a second time is refused as a whole, with its rows."""
    if not action.app_id:
        raise InvalidRequestError("a version needs the job whose it is: set txnAppId")
    if is_committed(state, action):
        raise InvalidRequestError(
            f"txnAppId {action.app_id!r} has committed version "
            f"{state.app_versions[action.app_id, action.topic_id or ''].version}, so version {action.version} was "
            "written before. Nothing was written"
        )
    if action.topic_id is not None and not _is_there(state, action.topic_id):
        raise InvalidRequestError(
            f"txnAppId {action.app_id!r} writes version {action.version} to topic id {action.topic_id}, which is not "
            "in the log: the topic was deleted meanwhile"
        )
    version = AppVersion(action.version, state.timestamp_ms)
    versions = state.app_versions.set((action.app_id, action.topic_id or ""), version)
    return replace(state, app_versions=versions), None


def _fate(state: State, action: SetAppVersion) -> Fate:
    if action.topic_id is not None and not _is_there(state, action.topic_id):
        return Fate.UNKNOWN  # The versions of a topic go with it.
    # A later version, or another process that writes the same one, leaves the same trace as this request.
    return Fate.UNKNOWN if is_committed(state, action) else Fate.NOT_APPLIED


def _is_there(state: State, topic_id: str) -> bool:
    return any(topic.topic_id == topic_id for topic in state.topics.values())


declare(
    SetAppVersion,
    number=22,
    fields=(
        Field("app_id", STRING),
        Field("version", LONG, bounds=Bounds(least=0)),
        Field("topic_id", optional_of(STRING)),
    ),
    rule=set_app_version,
    fate=_fate,
)
