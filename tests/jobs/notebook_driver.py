"""Runs a notebook's cells in one namespace with ``dbutils.widgets``. Arguments: the notebook, its widgets as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace


class Widgets:
    """What `dbutils.widgets` does for text widgets: a value that was set stays."""

    def __init__(self, values):
        self._values = dict(values)

    def text(self, name, default_value, label=None):
        self._values.setdefault(name, default_value)

    def get(self, name):
        return self._values[name]


def main(notebook, widgets):
    names = {"dbutils": SimpleNamespace(widgets=Widgets(json.loads(widgets)))}
    for number, cell in enumerate(Path(notebook).read_text("utf-8").split("\n# COMMAND ----------\n")):
        code = cell.strip()
        if not code.splitlines()[-1].startswith("# MAGIC"):
            exec(compile(code, f"{notebook}, cell {number}", "exec"), names)
    print("RAN", number + 1, "cells on", names["spark"].sparkContext.master)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
