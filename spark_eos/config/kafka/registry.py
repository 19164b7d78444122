"""Options of a schema registry, of all that read values whose schemas may be there."""

from __future__ import annotations

from typing import Any

from spark_eos.config.option import Option
from spark_eos.config.values import Text


def registry_options(used_in: str, **fields: Any) -> tuple[Option, ...]:
    """Where the registry is, and the credentials for it, which no log stores."""
    return (
        Option(
            "schema.registry.basic.auth.user.info",
            Text("user:password"),
            None,
            "The user and password for the schema registry.",
            used_in,
            "Confluent",
            is_secret=True,
            **fields,
        ),
        Option(
            "schema.registry.url",
            Text("a URL"),
            None,
            "The schema registry in which schemas by id are looked up.",
            used_in,
            "Confluent",
            default_text="that of the topic",
            **fields,
        ),
    )
