"""Breaks of what a forked process must not share with its parent, and of what is loaded before the first commit."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_CLIENTS, _LOG = ("tests/clients/test_forks.py",), ("tests/log/test_forks.py",)
_STORAGE, _IMPORTS = ("tests/storage/test_forks.py",), ("tests/test_imports.py",)
_PRODUCER, _CONSUMER = "spark_eos/clients/producer/producer.py", "spark_eos/clients/consumer/consumer.py"
_PRODUCER_BASE, _CONSUMER_BASE = "spark_eos/clients/producer/base.py", "spark_eos/clients/consumer/base.py"
_FORKS, _COMMIT, _PARTS = (
    "spark_eos/storage/forks.py",
    "spark_eos/log/commit/loop.py",
    "spark_eos/log/components.py",
)

MUTANTS = (
    # -- clients ----------------------------------------------------------------------------------------
    Mutant(
        "a-child-goes-on-with-the-producer",
        _PRODUCER_BASE,
        "        self._lock = threading.RLock()\n        self._refuse_calls()\n",
        "        self._lock = threading.RLock()\n",
        "children of a producer send records under its id and its sequence numbers",
        _CLIENTS,
    ),
    Mutant(
        "a-child-closes-its-parents-producer",
        _PRODUCER,
        "        if self._is_foreign:\n            return\n        try:\n            if timeout is None",
        "        try:\n            if timeout is None",
        "the end of a forked process aborts the transaction of its parent",
        _CLIENTS,
    ),
    Mutant(
        "a-child-flushes-its-parents-records",
        _PRODUCER,
        '        self._check_process("flush")\n',
        "",
        "a forked process sends the records that wait in its parent",
        _CLIENTS,
    ),
    Mutant(
        "a-child-goes-on-with-the-consumer",
        _CONSUMER_BASE,
        "        self._check_process(call)\n        if self._closed:",
        "        if self._closed:",
        "a forked process reads and commits as the member of a group that its parent is",
        _CLIENTS,
    ),
    Mutant(
        "a-child-leaves-its-parents-group",
        _CONSUMER,
        "        if self._closed or self._is_foreign:\n",
        "        if self._closed:\n",
        "the end of a forked process takes its parent out of the group",
        _CLIENTS,
    ),
    Mutant(
        "a-child-waits-for-its-parents-thread",
        "spark_eos/clients/producer/futures.py",
        "        self._functions: dict[int, OnDelivery] = {}\n        tell_in_child(self)\n",
        "        self._functions: dict[int, OnDelivery] = {}\n",
        "a forked process that waits for a record of its parent waits for ever",
        _CLIENTS,
    ),
    Mutant(
        "a-child-calls-its-parents-callbacks",
        "spark_eos/clients/producer/futures.py",
        "        self._done_callbacks: list[Any] = []\n",
        "",
        "a forked process tells the application that a record failed which its parent sends",
        _CLIENTS,
    ),
    Mutant(
        "a-copy-passes-for-the-producer",
        _FORKS,
        "    def __reduce_ex__(self",
        "    def __not_asked__(self",
        "a copy of a producer has its id and its sequence numbers",
        (*_CLIENTS, *_LOG),
    ),
    # -- the log ----------------------------------------------------------------------------------------
    Mutant(
        "a-child-waits-for-its-parents-locks",
        _PARTS,
        "        self._make(before.state)\n",
        "",
        "a forked process waits for ever for a lock that another thread of its parent held",
        _LOG,
    ),
    Mutant(
        "a-child-was-never-away",
        _PARTS,
        "        self.tail.goes_on_from(before)\n",
        "",
        "a forked process believes a slot to be free that was retired and deleted long before the fork",
        _LOG,
    ),
    Mutant(
        "a-child-repeats-its-parents-request",
        _PARTS,
        "        if request_id in self._of_the_parent:\n",
        "        if not request_id:\n",
        "parent and child both repeat a request whose outcome is not known",
        _LOG,
    ),
    Mutant(
        "a-child-goes-on-with-the-commit",
        "spark_eos/log/commit/slots.py",
        "            self._check_process()  # Before both send it, if this thread has forked meanwhile.\n",
        "",
        "of a commit in which its thread forked, parent and child both say that it was theirs",
        _LOG,
    ),
    Mutant(
        "a-fork-by-a-library-goes-on",
        _COMMIT,
        "        if self._pid != os.getpid():\n",
        "        if not self._pid:\n",
        "a process that was forked by a library in C commits as its parent does",
        _LOG,
    ),
    Mutant(
        "a-child-deletes-what-its-parent-stages",
        "spark_eos/storage/posix/files.py",
        "        if self._made_in == generation():  # Else",
        "        if True:  # Else",
        "a forked process deletes the file that its parent is writing",
        (*_CLIENTS, *_LOG, *_STORAGE),
    ),
    Mutant(
        "a-child-abandons-what-its-parent-staged",
        "spark_eos/log/data/writer.py",
        "        if self._is_foreign:\n            return",
        "        if False:\n            return",
        "a forked process deletes the files that its parent has staged",
        _LOG,
    ),
    # -- stores -----------------------------------------------------------------------------------------
    Mutant(
        "a-child-writes-into-its-parents-upload",
        "spark_eos/storage/posix/direct_io.py",
        "        if self._made_in != generation():\n",
        "        if False:\n",
        "a forked process writes into the memory and the file of its parent's upload",
        _STORAGE,
    ),
    Mutant(
        "a-child-keeps-its-parents-lead",
        "spark_eos/storage/group_channel.py",
        "        _close(self._descriptors)\n",
        "",
        "no process can lead as long as a child of the leader lives, though the leader is dead",
        _STORAGE,
    ),
    Mutant(
        "a-child-frees-its-parents-lead",
        "spark_eos/storage/group_channel.py",
        "        _close(self._descriptors)\n",
        "        if self._lock >= 0:\n            fcntl.flock(self._lock, fcntl.LOCK_UN)\n",
        "a fork ends the lead of the parent, and two lead",
        _STORAGE,
    ),
    Mutant(
        "a-child-writes-into-its-own-memory",
        "spark_eos/storage/memory.py",
        "        if self._space.made_in != generation():\n",
        "        if False:\n",
        "records of a forked process are acknowledged in a log that nobody else sees",
        _LOG,
    ),
    Mutant(
        "a-lock-is-taken-in-a-child",
        _FORKS,
        '    def forked(self) -> None:\n        """See `Forked`."""\n        self._lock = threading.Lock()\n',
        '    def forked(self) -> None:\n        """See `Forked`."""\n',
        "no log can be opened in a process that was forked while another thread opened one",
        (*_STORAGE, *_LOG),
    ),
    Mutant(
        "one-failure-keeps-it-from-the-others",
        _FORKS,
        "        except Exception as error:",
        "        except ZeroDivisionError as error:",
        "what fails in a forked process keeps others from being told of the fork",
        _STORAGE,
    ),
    # -- loaded before ----------------------------------------------------------------------------------
    Mutant(
        "the-first-snapshot-parses-schemas",
        "spark_eos/log/warmup.py",
        "    snapshots.schemas()\n",
        "",
        "the schemas of snapshots are parsed in the commit that crosses the first boundary",
        _IMPORTS,
    ),
    Mutant(
        "the-first-commit-loads-pandas",
        _PRODUCER_BASE,
        "        ready_for_columns()\n",
        "",
        "the first commit of a process loads pandas while it leads all others",
        _IMPORTS,
    ),
)
