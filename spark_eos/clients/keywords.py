"""Settings of a client as a program gives them: a mapping, keywords, names with dots or with underscores."""

from __future__ import annotations

from collections.abc import Mapping

from spark_eos.config.option import Table
from spark_eos.config.store import STORE
from spark_eos.errors import ConfigError

_WORDS = str.maketrans(".-", "__")


def given_settings(
    table: Table, config: Mapping[str, object] | None, keywords: Mapping[str, object]
) -> dict[str, object]:
    """What was given, under the names of the table and of the stores' settings; other names stay as they are.

    A keyword of None is a setting that was not given, as in kafka-python. Raises `ConfigError` for a setting that was
    given twice.
    """
    pairs = [(str(name), value) for name, value in (config or {}).items()]
    pairs += [(name, value) for name, value in keywords.items() if value is not None]
    if not pairs:
        return {}
    names = {name.translate(_WORDS): name for name in (*STORE, *table)}
    settings: dict[str, object] = {}
    spelling_of: dict[str, str] = {}
    for spelling, value in pairs:
        name = names.get(spelling.translate(_WORDS), spelling)
        if name in settings:
            raise ConfigError(
                f"{table.noun} {name} is given twice, as {spelling_of[name]!r} and as {spelling!r}: give it once"
            )
        settings[name], spelling_of[name] = value, spelling
    return settings
