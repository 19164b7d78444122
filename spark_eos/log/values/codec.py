"""The codec of a topic's values: one by one for clients, whole columns for Spark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from spark_eos.log.values.problems import Problems
from spark_eos.protocol.state import Topic

ColumnEncoder: TypeAlias = "Callable[[pa.RecordBatch], tuple[pa.Array, Problems]]"
"""Gives the value of each row as binary, null where it cannot be encoded, and the reasons."""


class ValueCodec(ABC):
    """Values of one topic as bytes, as Python's objects, and as columns. Immutable."""

    format: str
    """The ``value.format`` of the topic."""

    settings_text: str
    """All settings that decide what bytes mean; equal texts, equal values."""

    @property
    def payload(self) -> str:
        """What a value is, without its header: ``avro`` or ``json``."""
        return self.format.partition("-")[0]

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

    @abstractmethod
    def encode_json(self, value: Any) -> bytes:
        """The bytes of a JSON value that a person has typed (`loads` with `WrittenFloat.of`). Raises as `encode`."""

    @abstractmethod
    def json_of(self, data: bytes) -> bytes:
        """The JSON of stored bytes, on one line, for people to read. Raises as `decode`."""

    def written_json(self, data: bytes) -> bytes | None:
        """The JSON that the writer wrote: every digit, and every field that is there twice. None: it is no JSON."""
        return None


class ValueFormat(Protocol):
    """Formats of values as an extension brings them (`spark_eos.extending.Extension.value_formats`)."""

    def check(self, topic: str, config: Mapping[str, str], *, typed: bool) -> None:
        """Raise `ConfigError`, naming the setting, unless the settings of a topic fit together."""

    def kept(self, topic: str, old: Mapping[str, str], new: dict[str, str]) -> dict[str, str]:
        """The settings after a change, with what the records that are there are read with. Raises `ConfigError`."""

    def registered(
        self, topic: str, stays: Mapping[str, str], new: Mapping[str, object]
    ) -> Mapping[str, object]:
        """The settings, and what a schema registry knows of them. Raises `ConfigError`, `SchemaRegistryError`."""

    def codec_of(self, topic: Topic, user_info: str | None, registry_url: str | None) -> ValueCodec:
        """The codec of a topic. Raises `ConfigError` if a schema of it cannot be used."""
