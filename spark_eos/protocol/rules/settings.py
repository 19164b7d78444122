"""Settings of the whole log, as the state has them."""

from __future__ import annotations

from spark_eos.config.log import LOG
from spark_eos.protocol.state import State


def setting(state: State, name: str) -> int:
    """What is set for the log, or the default of `spark_eos.config.log.LOG`.

    Of ``setting:name`` what is set for that name; else what is set for all.
    """
    text = state.config.get(name, state.config.get(name.partition(":")[0]))
    return int(LOG[name].default if text is None else text)


def is_setting(text: str) -> bool:
    """Whether ``text`` is a whole number from 1 up. Part of the rule: it never changes, whatever the table says."""
    # Not int() alone: it takes signs, spaces, underscores and the digits of other scripts.
    return text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= 1
