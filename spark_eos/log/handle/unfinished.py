"""What is said of a place that is no log: nothing is there, or a copy or a restore that has not ended."""

from __future__ import annotations

import json
import shlex

from spark_eos.errors import NotALogError, ObjectNotFoundError
from spark_eos.log import paths
from spark_eos.storage import Store


def not_a_log(store: Store) -> NotALogError:
    """The error of a call that needs a log where none is."""
    return unfinished(store) or NotALogError(
        f"{store.url} is not a log: it has no {paths.entry(0)}. Reading never creates a log; check the path, or write "
        "to it first"
    )


def unfinished(store: Store) -> NotALogError | None:
    """The error of a place with the mark of a copy or a restore that has not ended; None: it has none.

    The mark does not say where the backup or the log is: that may have another name by now.
    """
    try:
        text = bytes(store.read(paths.COPY)).decode(errors="replace")
    except ObjectNotFoundError:
        return None
    try:
        mark = dict(json.loads(text))
    except (ValueError, TypeError):
        mark = {}
    place = shlex.quote(store.url)
    if "backup" in mark:
        work, whence = f"restore of backup {mark['backup']} up to entry {mark.get('entry')}", "REPOSITORY"
        command = f"eoslog restore {whence} {place} --backup {mark['backup']} --to-entry {mark.get('entry')}"
    else:
        work, whence = f"copy of log {mark.get('log_id', text)}", "LOG"
        command = f"eoslog copy {whence} {place}{' --close' if mark.get('close') else ''}"
    return NotALogError(
        f"{store.url} holds an unfinished {work}, and is no log yet. It goes on with `{command}`, with {whence} and "
        f"settings (--command-config) as they were. Or delete {store.url}, and use another place"
    )
