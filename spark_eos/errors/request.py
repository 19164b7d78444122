"""Errors of calls that are not possible as they are."""

from __future__ import annotations

from spark_eos.errors.base import InvalidRequestError


class ConfigError(InvalidRequestError, ValueError):
    """A setting or option is unknown, malformed, or contradicts another one. Change it. Code: ``CONFIG``."""


class ConcurrentModificationError(InvalidRequestError):
    """Two threads have called the same consumer at the same time. It is for one thread at a time, as Kafka's.

    Make a consumer for each thread, or lock the calls. Code: ``CONCURRENT_MODIFICATION``.
    """


class IllegalStateError(InvalidRequestError):
    """The call does not fit the state of the client, for instance a commit without a begin.

    Change the order. Code: ``ILLEGAL_STATE``.
    """


class UnknownTopicOrPartitionError(InvalidRequestError, KeyError):
    """The log has no such topic, or the topic no such partition.

    Create it, or check the name. Code: ``UNKNOWN_TOPIC_OR_PARTITION``.
    """


class TopicExistsError(InvalidRequestError):
    """The topic exists already. Use it, or choose another name. Code: ``TOPIC_EXISTS``."""


class InvalidRecordError(InvalidRequestError, ValueError):
    """A row cannot be stored in its topic, for instance because a value is missing.

    Change the row. Code: ``INVALID_RECORD``.
    """


class InvalidTimestampError(InvalidRecordError):
    """A timestamp is further from now than its topic allows (``message.timestamp.after.max.ms``).

    Change the row. Code: ``INVALID_TIMESTAMP``.
    """


class SerializationError(InvalidRecordError):
    """A serializer of the producer failed, or a deserializer of the consumer. The cause is its own error.

    Change the key or value, or the serializer. Code: ``SERIALIZATION``.
    """


class RecordDeserializationError(SerializationError):
    """A deserializer failed for a stored record (KIP-334). The position is that of the record.

    Seek to the offset after it, or change the deserializer. Code: ``RECORD_DESERIALIZATION``.

    Attributes
    ----------
    topic_partition
        The partition of the record, a `TopicPartition`.
    offset
        The offset of the record.
    """

    def __init__(self, message: str, topic_partition: tuple[str, int] = ("", -1), offset: int = -1) -> None:
        super().__init__(message)
        self.topic_partition = topic_partition
        self.offset = offset


class SchemaMismatchError(InvalidRequestError, ValueError):
    """Columns do not fit the topic: one is missing, unknown, or of another type.

    Change the rows, or add columns to the topic by `Admin.alter_topic`. Code: ``SCHEMA_MISMATCH``.
    """


class InconsistentGroupProtocolError(InvalidRequestError):
    """The members of a group have no ``partition.assignment.strategy`` in common.

    Set one that all have. Code: ``INCONSISTENT_GROUP_PROTOCOL``.
    """


class GroupIdNotFoundError(InvalidRequestError, KeyError):
    """The log knows no such group, or the group no such member. Check the name. Code: ``GROUP_ID_NOT_FOUND``."""


class GroupNotEmptyError(InvalidRequestError):
    """The group has members. Stop them first. Code: ``GROUP_NOT_EMPTY``."""


class OffsetOutOfRangeError(InvalidRequestError):
    """The offset lies before the start or after the end of its partition, or behind an open transaction.

    Seek to another one. What lies behind an open transaction is deleted or replaced when it has
    ended. Code: ``OFFSET_OUT_OF_RANGE``.
    """


class NoOffsetForPartitionError(InvalidRequestError):
    """Nothing is committed, and ``auto.offset.reset`` is ``none``.

    Seek, or set it. Code: ``NO_OFFSET_FOR_PARTITION``.
    """


class NotALogError(InvalidRequestError):
    """There is no log at this URL. Check the URL; `Log.create` makes a log. Code: ``NOT_A_LOG``."""


class LogExistsError(InvalidRequestError):
    """There is a log at this URL already. Open it, or choose another URL. Code: ``LOG_EXISTS``."""


class UnsupportedVersionError(InvalidRequestError):
    """The log has a format of a newer version. Install that one. Code: ``UNSUPPORTED_VERSION``."""
