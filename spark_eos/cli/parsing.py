"""How arguments are read, where typer reads them otherwise: several values of an option, missing values, names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand, TyperGroup

from spark_eos.cli.usage.examples import examples_of
from spark_eos.config.nearest import suggestion

__all__ = ["Command", "Commands", "ListedCommands"]

_SEVERAL = "..."
"""The metavar of an option that takes several values at once ends with this: ``--alter NAME=VALUE...``."""

_OPTIONAL = "["
"""The metavar of an option of which Kafka has the bare word begins with this: ``--alter [NAME=VALUE]...``."""

_NUMBER = re.compile(r"-[0-9]+|-[0-9]*\.[0-9]+")


class Command(TyperCommand):
    """A command of ``eoslog``.

    ``--alter A=1 B=2`` is ``--alter A=1 --alter B=2`` for options with several values. An option is never the value of
    the option before it: ``groups delete LOG --group --json`` is refused, and does not delete a group ``--json``. An
    option whose value is optional is left out where it has none: ``configs LOG --alter --add-config A=1``.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments into ``ctx.params``."""
        if ctx.resilient_parsing and args and _is_option(args[-1]):
            # The value of this option is being completed: without it, the arguments before it would not be parsed.
            args = args[:-1]
        return super().parse_args(ctx, [*self._separated(ctx, args)])

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Help, with the examples at its end, which are not wrapped: they are lines of a shell."""
        super().format_help(ctx, formatter)
        examples = examples_of(ctx.command_path)
        if examples:
            formatter.write("\nExamples (LOG is the log's URL):\n")
            formatter.write("".join(f"  {example}\n" for example in examples))

    def _separated(self, ctx: Any, args: list[str]) -> Iterator[str]:
        metavars = {
            name: param.metavar or ""
            for param in self.params
            if param.param_type_name == "option" and not getattr(param, "is_flag", False)
            for name in param.opts
        }
        waiting = several = ""
        for position, argument in enumerate(args):
            following = args[position + 1 : position + 2]
            if _is_option(argument):
                is_bare = not following or _is_option(following[0])
                if is_bare and metavars.get(argument, "").startswith(_OPTIONAL):
                    waiting = several = ""
                    continue
                if waiting and not ctx.resilient_parsing:
                    ctx.fail(f"Option {waiting!r} needs a value: {metavars[waiting] or 'TEXT'}.")
                if argument == "--":
                    yield from args[position:]
                    return
                waiting = argument if argument in metavars else ""
                several = waiting if metavars.get(waiting, "").endswith(_SEVERAL) else ""
            elif waiting:
                waiting = ""
            elif several:
                yield several
            yield argument


def _is_option(argument: str) -> bool:
    return (
        len(argument) > 1 and argument[0] == "-" and " " not in argument and not _NUMBER.fullmatch(argument)
    )


class Commands(TyperGroup):
    """Commands that have a name in common, such as ``eoslog groups``."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that ``args`` begins with."""
        name = args[0]
        if name not in self.commands and not _is_option(name) and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}; {suggestion(name, self.commands)}")
        return super().resolve_command(ctx, args)


class ListedCommands(Commands):
    """Commands of which ``list`` need not be named: ``eoslog topics LOG`` is ``eoslog topics list LOG``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments into ``ctx.params``."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)
