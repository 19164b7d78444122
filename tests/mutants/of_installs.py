"""Breaks of what is said in an environment that lacks something, or has another version of it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_LOADING = "spark_eos/errors/loading.py"
_OF_LOADING = ("tests/extras/test_loading.py",)

MUTANTS = (
    Mutant(
        "old-package-is-loaded",
        _LOADING,
        "_release(version) < _release(least[1])",
        "_release(version) < ()",
        "a package that is too old for its extra is loaded, and fails somewhere inside",
        _OF_LOADING,
    ),
    Mutant(
        "broken-package-is-called-missing",
        _LOADING,
        "        if missing and isinstance(error, ModuleNotFoundError):\n",
        "        missing = missing or [*self._packages]\n        if isinstance(error, ImportError):\n",
        "a package that is installed and cannot be loaded is to be installed",
        _OF_LOADING,
    ),
    Mutant(
        "a-log-without-the-global-lock",
        "spark_eos/storage/urls.py",
        "    check_gil(has_gil())\n",
        "",
        "packages that need Python's global lock write a log without it",
        ("tests/storage/test_gil.py",),
    ),
    Mutant(
        "transaction-with-an-untried-spark",
        "spark_eos/spark/transactions/transaction.py",
        "        check_version()\n",
        "",
        "frames of a Spark that was never tried are committed",
        ("tests/spark/test_versions.py", "-k", "transactions_ask_first"),
    ),
)
