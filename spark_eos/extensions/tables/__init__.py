"""Topics as tables of open formats: Delta and Iceberg over the log's own sealed files, or over copies of them."""

from __future__ import annotations

from spark_eos.extending import Extension

__all__ = ["EXTENSION"]

EXTENSION = Extension(
    names={"spark_eos.Tables": "tables:Tables"},
    commands={"tables": "cli:ADDED"},
    maintenance={"publish": "maintaining:step"},
    table_versions={"eoslog": "stamps:stamped_version"},
)
