"""What the shell is offered for a word: names of topics, from the log that the line names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_eos.clients.admin import Admin


def topic_names(ctx: Any, incomplete: str) -> list[str]:
    """The names of topics that begin so; none if the log cannot be read."""
    return _from_log(ctx, incomplete, lambda client: client.list_topics())


def group_ids(ctx: Any, incomplete: str) -> list[str]:
    """The ids of groups that begin so."""
    return _from_log(ctx, incomplete, lambda client: client.list_groups())


def _from_log(ctx: Any, incomplete: str, names: Callable[[Admin], list[str]]) -> list[str]:
    url = ctx.params.get("url")
    if not url:
        return []
    from spark_eos.cli.options import admin

    try:
        all_names = names(admin(url, ctx.params.get("command_config")))
    except Exception:  # noqa: BLE001  (whatever it is: the command says it, completion offers nothing)
        return []
    before, comma, prefix = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in all_names if name.startswith(prefix)]
