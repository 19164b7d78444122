"""Versions of a topic's schema as they are stored, with the ids of their fields."""

from __future__ import annotations

import pyarrow as pa

from spark_eos.protocol.arrow_fields import FIELD_ID, SCHEMA_VERSION


def field(name, type_, field_id=None, nullable=True):
    """A field with its id; one inside of a list or a map has none."""
    return pa.field(name, type_, nullable, field_id and {FIELD_ID: str(field_id).encode()})


def numbered(version, *fields):
    """Fields as (name, type, id), or as `field` makes them."""
    made = [one if isinstance(one, pa.Field) else field(*one) for one in fields]
    metadata = None if version is None else {SCHEMA_VERSION: str(version).encode()}
    return pa.schema(made, metadata).serialize().to_pybytes()
