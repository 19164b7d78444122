"""What is wrong with a docstring in NumPy style: a section that is missing, or names what is not there."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import spark_eos
from spark_eos import errors, testing

__all__ = ["doctests_of", "problems", "public_objects", "sections"]

NAMED = re.compile(r"\*{0,2}(\w+)")


def sections(text: str) -> dict[str, str]:
    """The sections of a docstring by title; what stands before the first one under an empty title."""
    found, title = {"": ""}, ""
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line and re.fullmatch(r"-{3,}", following) and len(line) == len(following):
            title = line
            found[title] = ""
        elif not re.fullmatch(r"-{3,}", line):
            found[title] += line + "\n"
    return found


def entries(section: str) -> set[str]:
    """The names that a section of parameters or errors explains: those at its left margin."""
    heads = [line.partition(" : ")[0] for line in section.splitlines() if line and not line.startswith(" ")]
    return {name for head in heads for name in NAMED.findall(head)}


def raised(function: Any) -> set[str]:
    """The errors of spark_eos that a function's own body raises by name."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError):  # Made by a decorator, as a dataclass's methods.
        return set()
    calls = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    names = {call.func.id for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)}
    return names & {*errors.__all__}


ELSEWHERE = re.compile(r"\b[Aa]s\s+`(\w+)(?:\.(\w+))?`")
"""Where the rest of a call is documented: what is the same is written once."""


def told_elsewhere(text: str) -> dict[str, str]:
    """The sections of the public call that a docstring refers to before its first section."""
    reference = ELSEWHERE.search(sections(text)[""])
    if reference is None:
        return {}
    name, part = reference.groups()
    thing = getattr(spark_eos, name, None) or getattr(testing, name, None)
    text = inspect.getdoc(getattr(thing, part, None) if part else thing)
    if not text:
        return {}
    told, told_further = sections(text), told_elsewhere(text)
    return {title: told.get(title, "") + told_further.get(title, "") for title in (*told, *told_further)}


def problems_of_call(function: Any, text: str, *, with_result: bool = True) -> Iterator[str]:
    """What the docstring of a function, or of the class whose ``__init__`` it is, lacks or has too much."""
    found, elsewhere = sections(text), told_elsewhere(text)
    signature = inspect.signature(function)
    wanted = {name for name in signature.parameters if name not in {"self", "cls"}}
    told = entries(found.get("Parameters", ""))
    told_in_all = told | entries(elsewhere.get("Parameters", ""))
    yield from (f"no parameter {name}" for name in sorted(wanted - told_in_all))
    yield from (f"a parameter {name} that is not there" for name in sorted(told - wanted))
    gives = signature.return_annotation not in NOTHING
    if with_result and gives and not {"Returns", "Yields"} & {*found, *elsewhere}:
        yield "no Returns"
    if not gives and "Returns" in found:
        yield "Returns, though it returns nothing"
    told = entries(found.get("Raises", ""))
    told_in_all = told | entries(elsewhere.get("Raises", ""))
    yield from (f"no {name} in Raises" for name in sorted(raised(function) - told_in_all))
    yield from (f"an error {name} that is not there" for name in sorted(told - {*errors.__all__, *OTHERS}))


NOTHING = {None, "None", "NoReturn", "asyncio.Future[None]", inspect.Signature.empty}
OTHERS = {"AssertionError", "CrashPointsError"}


def problems(name: str, thing: Any) -> list[str]:
    """What is wrong with the docstring of a class, function or property, and those of a class's public parts."""
    found = [f"{name}: {problem}" for problem in _own_problems(thing)]
    if inspect.isclass(thing) and not issubclass(thing, BaseException):
        for part, value in inspect.getmembers_static(thing):
            if (
                part.startswith(("_", "test_"))
                or not _is_ours(value, thing)
                or _is_declared_below(part, thing)
            ):
                continue
            found += [f"{name}.{part}: {problem}" for problem in _own_problems(value)]
    return found


def _own_problems(thing: Any) -> Iterator[str]:
    call = thing.__func__ if isinstance(thing, (classmethod, staticmethod)) else thing
    text = inspect.getdoc(call) or ""
    if not text:
        yield "no docstring"
        return
    if re.search(r"\bRaises `|^Raises [A-Z`]", text, re.MULTILINE):
        yield "errors in the text: they have a section, Raises"
    if inspect.isclass(thing):
        yield from _problems_of_class(thing, text)
    elif isinstance(call, property):
        return
    else:
        yield from problems_of_call(inspect.unwrap(call), text)


def _problems_of_class(thing: type, text: str) -> Iterator[str]:
    if issubclass(thing, errors.EosLogError):
        if f"Code: ``{thing.code}``." not in text:
            yield f"no code: it is {thing.code}"
    elif dataclasses.is_dataclass(thing) or hasattr(thing, "_fields"):
        names = {field.name for field in dataclasses.fields(thing)} if dataclasses.is_dataclass(thing) else ()
        told = entries(sections(text).get("Attributes", sections(text).get("Parameters", "")))
        wanted = {*(names or getattr(thing, "_fields", ()))}
        yield from (f"no attribute {name}" for name in sorted(wanted - told))
        yield from (f"an attribute {name} that is not there" for name in sorted(told - wanted))
    elif inspect.isfunction(thing.__init__) and not issubclass(thing, (enum.Enum, BaseException)):
        yield from problems_of_call(thing.__init__, text, with_result=False)


def _is_ours(value: Any, owner: type) -> bool:
    value = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
    value = value.fget if isinstance(value, property) else value
    if not inspect.isfunction(value):
        return False
    return value.__module__.startswith("spark_eos") and not dataclasses.is_dataclass(owner) | hasattr(
        owner, "_fields"
    )


def _is_declared_below(part: str, owner: type) -> bool:
    """Whether a method overrides one of a base class, which documents it."""
    return sum(bool(getattr(vars(base).get(part), "__doc__", "")) for base in owner.__mro__[1:]) > 0 and (
        part in vars(owner)
    )


def public_objects(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The classes and functions that a module exports, by their names."""
    for name in module.__all__:
        thing = getattr(module, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            yield f"{module.__name__}.{name}", thing


def doctests_of(thing: Any) -> int:
    """How many examples its docstring and those of its parts have."""
    parts = [value for name, value in inspect.getmembers(thing) if not name.startswith("_")]
    texts = [inspect.getdoc(part) or "" for part in (thing, *parts)]
    return sum(text.count(">>> ") for text in texts)
