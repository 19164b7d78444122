"""All that is public is documented in NumPy style, and its examples run."""

from __future__ import annotations

import doctest
import enum
import importlib
import inspect

import pytest

import spark_eos
from spark_eos import errors
from tests.docstrings import doctests_of, problems, public_objects

MODULES = (
    "spark_eos",
    "spark_eos.errors",
    "spark_eos.monitoring",
    "spark_eos.extensions.tables",
    "spark_eos.testing",
)
"""Their exports are public."""

PUBLIC = {
    name: thing for module in MODULES for name, thing in public_objects(importlib.import_module(module))
}

WITHOUT_EXAMPLE = {"spark_eos.testing.CrashStore"}
"""`crash_points` makes it."""


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_what_is_public_is_documented(name):
    assert problems(name, PUBLIC[name]) == []


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_what_is_public_has_an_example(name):
    thing = PUBLIC[name]
    is_simple = inspect.isclass(thing) and (
        issubclass(thing, (BaseException, enum.Enum)) or hasattr(thing, "__match_args__")
    )
    assert is_simple or name in WITHOUT_EXAMPLE or doctests_of(thing)


MODULES_WITH_EXAMPLES = sorted(
    {
        base.__module__
        for thing in PUBLIC.values()
        for base in (thing.__mro__ if inspect.isclass(thing) else (thing,))
        if base.__module__.startswith("spark_eos")
    }
    # They need a session of Spark: tests/spark/test_start.py.
    - {
        "spark_eos.spark.start",
        "spark_eos.spark.progress",
        "spark_eos.spark.listener",
        "spark_eos.spark.table",
    }
)


@pytest.mark.parametrize("module", MODULES_WITH_EXAMPLES)
def test_examples_run(module):
    assert doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS).failed == 0


# -- The check itself -------------------------------------------------------------------------------------


def documented(a, *rest) -> int:
    """Do it.

    Parameters
    ----------
    a
        One.
    *rest
        More.

    Returns
    -------
    int
        Two.

    Raises
    ------
    ConfigError
        ``a`` is wrong.
    """
    if rest:
        raise errors.ConfigError
    raise ConfigError(a)


ConfigError = errors.ConfigError


class Documented:
    """One.

    Parameters
    ----------
    a
        Its start.
    """

    def __init__(self, a):
        self.a = a


def pause(*partitions) -> None:
    """Leave partitions out. As `Consumer.pause`."""


def test_what_is_documented_passes():
    assert problems("f", documented) == []
    assert problems("C", Documented) == []
    assert problems("e", errors.ConfigError) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("    a\n        One.\n", "", "no parameter a"),
        ("    *rest\n", "    *rest, b\n", "a parameter b that is not there"),
        ("Returns\n    -------", "What\n    ----", "no Returns"),
        ("Raises\n    ------", "Wrong\n    -----", "no ConfigError in Raises"),
        ("    ConfigError\n", "    ConfigError, OtherError\n", "an error OtherError that is not there"),
        ("Do it.", "Do it. Raises `ConfigError`.", "errors in the text: they have a section, Raises"),
        (documented.__doc__, "", "no docstring"),
    ],
)
def test_what_is_not_documented_is_found(monkeypatch, old, new, problem):
    monkeypatch.setattr(documented, "__doc__", documented.__doc__.replace(old, new, 1))
    assert f"f: {problem}" in problems("f", documented)


def test_a_class_documents_how_it_is_made(monkeypatch):
    monkeypatch.setattr(Documented, "__doc__", "One.")
    assert problems("C", Documented) == ["C: no parameter a"]


def test_a_method_without_a_docstring_is_found(monkeypatch):
    monkeypatch.setattr(spark_eos.Consumer.seek, "__doc__", "Go there.")
    assert problems("C", spark_eos.Consumer) == [
        "C.seek: no parameter at",
        "C.seek: no parameter offset",
        "C.seek: no InvalidRequestError in Raises",
    ]


def test_an_error_names_its_code(monkeypatch):
    monkeypatch.setattr(errors.ConfigError, "__doc__", "Wrong.")
    assert problems("e", errors.ConfigError) == ["e: no code: it is CONFIG"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("Consumer.pause", "Consumer.stop", "no parameter partitions"),
        ("Consumer.pause", "Consumer.paused", "no parameter partitions"),
        ("As `Consumer.pause`", "Pauses", "no parameter partitions"),
    ],
)
def test_what_is_told_elsewhere_is_told_there(monkeypatch, old, new, problem):
    assert problems("pause", pause) == []
    monkeypatch.setattr(pause, "__doc__", pause.__doc__.replace(old, new))
    assert problems("pause", pause) == [f"pause: {problem}"]
