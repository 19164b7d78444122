"""The codec of a topic's values: one by one for clients, whole columns for Spark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from spark_eos.log.values.problems import Problems
from spark_eos.log.values.settings import ValueSettings, value_settings
from spark_eos.protocol.state import Topic

__all__ = ["ColumnEncoder", "ValueCodec", "codec_for", "codec_of"]

ColumnEncoder: TypeAlias = "Callable[[pa.RecordBatch], tuple[pa.Array, Problems]]"
"""Gives the value of each row as binary, null where it cannot be encoded, and the reasons."""


class ValueCodec(ABC):
    """Values of one topic as bytes, as Python's objects, and as columns. Immutable."""

    def __init__(self, settings: ValueSettings) -> None:
        self.settings = settings

    @property
    @abstractmethod
    def fields(self) -> Sequence[pa.Field] | None:
        """The columns of a value; None if the topic has no schema to say so. Raises `SchemaMismatchError`."""

    @abstractmethod
    def encode(self, value: Any) -> bytes:
        """The bytes of a value that is not None. Raises `ValueError` with the reason."""

    @abstractmethod
    def decode(self, data: bytes) -> Any:
        """The value of bytes. Raises `ValueError` with the reason, `SchemaRegistryError`."""

    @abstractmethod
    def decode_columns(self, values: pa.Array, fields: Sequence[pa.Field]) -> tuple[list[pa.Array], Problems]:
        """The columns of a binary array; of a null, and of a row with a problem, all are null.

        ``fields`` are those that are wanted, of `fields`; or of a topic without a schema any.
        Raises `SchemaRegistryError`.
        """

    @abstractmethod
    def encoder(self, columns: pa.Schema) -> ColumnEncoder:
        """Encodes rows with these columns. Raises `SchemaMismatchError` if the topic cannot take them."""


def codec_of(
    topic: Topic, user_info: str | None = None, registry_url: str | None = None
) -> ValueCodec | None:
    """The codec of a topic; None if its values have no format. The registry may be given from outside."""
    settings = value_settings(topic.name, topic.config)
    if settings is None:
        return None
    return codec_for(
        settings._replace(user_info=user_info, registry_url=registry_url or settings.registry_url)
    )


@lru_cache(maxsize=64)
def codec_for(settings: ValueSettings) -> ValueCodec:
    """The codec of such settings."""
    if settings.payload == "avro":
        from spark_eos.log.values.avro.codec import AvroCodec

        return AvroCodec(settings)
    from spark_eos.log.values.json_codec import JsonCodec

    return JsonCodec(settings)


def without(array: pa.Array, problems: Problems) -> pa.Array:
    """The array, null in each row with a problem."""
    if not problems:
        return array
    keep = np.flatnonzero(~problems.mask(len(array)))
    indices = np.full(len(array), -1, np.int64)
    indices[keep] = keep
    return array.take(pa.array(indices, mask=indices < 0))
