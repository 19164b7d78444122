"""Bugs planted in the code of the running process: functions get the code that they have in another text of a module.

The functions themselves, and all that they name, stay those of the module: an object that is compared by ``is`` is
there once.
"""

from __future__ import annotations

import importlib
import inspect
import types
from collections.abc import Iterator
from typing import Any

__all__ = ["codes", "plant"]


def codes(file: str, text: str) -> Iterator[tuple[types.FunctionType, types.CodeType]]:
    """The functions and methods of a module, by its ``file`` in the repository, and their code if it were ``text``."""
    real = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    twin = types.ModuleType(real.__name__)
    # An action is declared once, by the module itself.
    text = text.replace("\ndeclare(", "\n(lambda *_, **__: None)(")
    exec(compile(text, file, "exec"), vars(twin))  # noqa: S102
    planted = _functions(twin)
    for name, function in _functions(real).items():
        if name in planted:
            yield function, planted[name].__code__


def plant(file: str, text: str) -> None:
    """Let the functions of the module have their code in ``text``, until this process ends."""
    for function, code in codes(file, text):
        function.__code__ = code


def _functions(module: types.ModuleType) -> dict[str, types.FunctionType]:
    own = [one for one in vars(module).values() if getattr(one, "__module__", None) == module.__name__]
    members: list[Any] = [one for owner in own if inspect.isclass(owner) for one in vars(owner).values()]
    found = [one.fget if isinstance(one, property) else one for one in [*own, *members]]
    return {
        one.__qualname__: one
        for one in found
        if isinstance(one, types.FunctionType) and one.__module__ == module.__name__
    }
