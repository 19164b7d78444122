"""Stops a job between its two commits: the log has the batch, and Spark has not been told so yet.

On the PYTHONPATH of a job this module is imported by each of its Python processes. The one in which the sink commits
waits for its end behind the first batch after the one that EOSLOG_TEST_STOP names: a line "BATCH FILE".
"""

from __future__ import annotations

import os
import signal
import sys
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from pathlib import Path

_SINK = "spark_eos.spark.sink.sink"


class _Patching(MetaPathFinder):
    """Imports the sink as it is, and puts the stop behind its commit."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname != _SINK:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            _stop_after_commits(module)

        spec.loader.exec_module = exec_module
        return spec


def _stop_after_commits(module):
    last, _, file = os.environ["EOSLOG_TEST_STOP"].partition(" ")
    for one in vars(module).values():
        if isinstance(one, type) and one.__module__ == _SINK and "commit" in vars(one):
            one.commit = _stopping(one.commit, int(last), Path(file))


def _stopping(commit, last, file):
    def committed(self, messages, batchId):
        commit(self, messages, batchId)
        if batchId > last:
            file.write_text(str(batchId))
            while True:
                signal.pause()

    return committed


if "EOSLOG_TEST_STOP" in os.environ:
    sys.meta_path.insert(0, _Patching())
