"""How several processes share the tests: longest files first; a test that ended its process is not run again."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
LONGEST = (
    "log/test_forks.py",
    "clients/test_forks.py",
    "pages/test_pages.py",
    "spark/test_killed_again.py",
    "spark/test_versions.py",
    "jobs/test_jobs.py",
    "spark/test_exactly_once.py",
    "extensions/mirror/test_migration.py",
    "spark/test_connect.py",
    "jobs/test_pipelines.py",
    "jobs/test_delta.py",
    "spark/test_checkpoints.py",
    "jobs/test_notebook.py",
    "spark/test_evolution.py",
    "extensions/mirror/test_mirror_out.py",
    "testing/test_simulator.py",
    "testing/test_explorer.py",
    "spark/test_transactions.py",
    "spark/test_fencing.py",
    "chaos/test_chaos.py",
    "spark/test_cluster.py",
    "extensions/tables/test_delta_spark.py",
    "clients/test_at_exit.py",
    "spark/test_bad_input.py",
    "extensions/mirror/test_mirror_in.py",
    "specification/test_commit.py",
    "testing/test_spark_calls.py",
    "maintenance/test_rolling.py",
    "spark_calls/test_recordings.py",
)
"""What forks, while the process is small: a copy of a large one takes longer. Then the files that take longest, in that
order: begun last, one of them would run alone at the end."""


def pytest_collection_modifyitems(items):
    """All other files stay in their order, and so do the tests of each."""
    places = {TESTS / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Of `--dist loadfile`. A test that ended its process: pytest-xdist would run it in one process after another."""
    if config.option.dist != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def schedule(self):
            super().schedule()
            # A process begins a test when it knows what follows: it gets two files at once, as the first ones do.
            for node in self.nodes:
                self._reschedule(node)

        def _assign_work_unit(self, node):
            """One process has the files with ``spark`` in their path: a session takes a core for some seconds.

            Where none of its own kind is left, a process gets the first of the others.
            """
            has_spark = node is self.nodes[0]
            scope = next((name for name in self.workqueue if ("spark" in name) == has_spark), None)
            if scope is not None:
                self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

        def remove_node(self, node):
            work = self.assigned_work[node]
            crashed = next((name for file in work.values() for name, done in file.items() if not done), None)
            for file in work.values():
                if crashed in file:
                    file[crashed] = True
            # A process that gets a file of which all is done would get nothing after it.
            self.assigned_work[node] = {name: file for name, file in work.items() if not all(file.values())}
            super().remove_node(node)
            return crashed

    return Scheduling(config, log)
