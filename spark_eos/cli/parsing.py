"""How arguments are read, where typer reads them otherwise: several values of an option, missing values, names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand, TyperGroup

from spark_eos.cli.usage.columns import tables_of
from spark_eos.cli.usage.examples import examples_of
from spark_eos.config.nearest import nearest, suggestion

_SEVERAL = "..."
"""The metavar of an option that takes several values at once ends with this: ``--alter NAME=VALUE...``."""

_OPTIONAL = "["
"""The metavar of an option of which Kafka has the bare word begins with this: ``--alter [NAME=VALUE]...``."""

_GROUPED = re.compile(r"-?[0-9]{1,3}(,[0-9]{3})+")
"""A whole number as the tables and the page write it: it can be copied from there."""

_WHOLE = {"BYTES", "COUNT", "ENTRY|TIME", "MS", "N", "OFFSET", "SEQ"}
"""What has one of these metavars is one whole number. Where several may be given, a comma is between two of them."""

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
        if not ctx.resilient_parsing:
            self._refuse_options(ctx, args)
        ctx.allow_extra_args = True
        extra: list[str] = super().parse_args(ctx, [*self._separated(ctx, args)])
        if extra and not ctx.resilient_parsing:
            self._refuse_extra(ctx, args, extra[0])
        return extra

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Help, with the columns of tables, and with examples, which are not wrapped: they are lines of a shell."""
        super().format_help(ctx, formatter)
        for table in tables_of(ctx.command_path):
            with formatter.section(f"Columns of {table.of}" if table.of else "Columns"):
                formatter.write_dl([*table.meanings.items()])
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
        numeric = {
            name
            for param in self.params
            if param.metavar in _WHOLE
            for name in (param.opts if param.param_type_name == "option" else ("",))
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
            else:
                is_copied = (waiting or several) in numeric and _GROUPED.fullmatch(argument)
                if several and not waiting:
                    yield several
                waiting = ""
                yield argument.replace(",", "") if is_copied else argument
                continue
            yield argument

    def _refuse_options(self, ctx: Any, args: list[str]) -> None:
        """End with a usage error if an argument is named as an option, as Kafka's tools have it."""
        options = {name: param for param in self.params for name in param.opts}
        arguments = self._arguments()
        with_a_value = set()
        for argument in args[: args.index("--") if "--" in args else None]:
            name = argument.partition("=")[0]
            param = options.get(name)
            if _takes_one_value(param):
                if param in with_a_value:
                    # Kafka's tools refuse it, or do it for both: the first one must not be dropped in silence.
                    ctx.fail(f"Option {name!r} is given twice, and takes one value: give it once.")
                with_a_value.add(param)
            if name.startswith("--") and name not in options:
                if name in _SERVERS:
                    ctx.fail(f"No such option {name!r}: there are no servers, the argument URL names the log")
                if name[2:].upper() in (argument.strip("[.]") for argument in arguments):
                    ctx.fail(
                        f"No such option {name!r}: it is an argument here: "
                        f"{ctx.command_path} {' '.join(arguments)}"
                    )

    def _arguments(self) -> list[str]:
        return [
            param.metavar or param.name.upper()
            for param in self.params
            if param.param_type_name == "argument"
        ]

    def _refuse_extra(self, ctx: Any, args: list[str], extra: str) -> None:
        """End with a usage error about an argument too many: it seems to be an option, or to be the value of one."""
        options = {name[2:]: name for param in self.params for name in param.opts if name.startswith("--")}
        arguments = self._arguments()
        takes = f"{ctx.command_path} takes {' '.join(arguments)} and options"
        bare = next((argument for argument in args if argument in options), extra)
        near = nearest(bare, options)
        if near:
            ctx.fail(f"{bare!r} is no argument here; did you mean {options[near]}? {takes}")
        # What a command with more arguments is about is among them.
        is_name = "/" not in extra and not arguments[1:]
        name_options = [name for name in options.values() if is_name and name in _NAMING]
        hint = (
            f"did you mean {name_options[0]} {extra}?"
            if name_options
            else f"they are {', '.join(options.values())}"
        )
        ctx.fail(f"{extra!r} is an argument too many: {takes}; {hint}")


_NAMING = (
    "--group",
    "--name",
    "--transactional-id",
    "--topic",
    "--to",
    "--decider",
    "--from",
    "--since",
    "--key",
)
"""Options whose values name what a command is about: they are often given without them."""

_SERVERS = ("--bootstrap-server", "--bootstrap-controller", "--broker-list", "--zookeeper")
"""Options by which Kafka's tools know their servers."""


def _is_option(argument: str) -> bool:
    return (
        len(argument) > 1 and argument[0] == "-" and " " not in argument and not _NUMBER.fullmatch(argument)
    )


def _takes_one_value(param: Any) -> bool:
    return (
        param is not None
        and param.param_type_name == "option"
        and not (param.multiple or param.count or param.is_flag)
    )


class Commands(TyperGroup):
    """Commands that have a name in common, such as ``eoslog groups``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments into ``ctx.params``."""
        self._refuse_options(ctx, args)
        return super().parse_args(ctx, args)

    def _refuse_options(self, ctx: Any, args: list[str]) -> None:
        """End with a usage error if a command is named as an option, as Kafka's tools have it."""
        if args and args[0] not in self.commands and not ctx.resilient_parsing:
            for argument in args:
                if argument.startswith("--") and argument[2:] in self.commands:
                    ctx.fail(f"No such option {argument!r}: write {ctx.command_path} {argument[2:]}")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that ``args`` begins with."""
        name = args[0]
        if name not in self.commands and not ctx.resilient_parsing:
            self._refuse_order(ctx, args)
            self._refuse(ctx, name)
        return super().resolve_command(ctx, args)

    def _refuse_order(self, ctx: Any, args: list[str]) -> None:
        """End with a usage error if the log is named before the command."""
        if args[1:] and args[1] in self.commands:
            ctx.fail(f"The command comes first: {ctx.command_path} {args[1]} {args[0]}")

    def _refuse(self, ctx: Any, name: str) -> None:
        """End with a usage error about a command that there is not, with the nearest one that there is."""
        ctx.fail(f"No such command {name!r}; {self._near(ctx, name) or suggestion(name, self.commands)}")

    def _near(self, ctx: Any, name: str) -> str | None:
        """Commands with these words in their names; else those that do, or list, it; or one of nearly its name."""
        stems = _stems(name)
        for command_name in self.commands:
            if _stems(command_name) == stems:
                return f"did you mean {command_name}?"
        every = [*_paths(ctx.find_root().command)]
        paths = [
            path
            for path, _ in every
            if stems <= _stems(" ".join(path)) and not stems <= _stems(" ".join(path[:-1]))
        ]
        helps = [
            (path, (command.help or "").partition("\n")[0]) for path, command in every if path not in paths
        ]
        verbs = [path for path, text in helps if name == text.partition(" ")[0].lower()]
        # What has happened is in a list: `fencings` is none of the verb `fence`.
        paths += verbs or [
            path for path, text in helps if stems and stems in map(_stems, text.partition(": ")[2].split(","))
        ]
        if paths:
            return f"there is {', '.join(' '.join(['eoslog', *path]) for path in paths[:_MOST_HINTS])}"
        return suggestion(name, self.commands) if nearest(name, self.commands) else None


_MOST_HINTS = 4


def _stems(text: str) -> set[str]:
    """The words of a text, as far as their endings do not matter: fence, fences, fenced."""
    return {re.sub("(?<=...)(es|ed|e|s|ings?)$", "", word) for word in re.findall("[a-z]+", text.lower())}


def _paths(command: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The names of all commands, each after those that it stands under, and the command."""
    for name, subcommand in getattr(command, "commands", {}).items():
        yield (*before, name), subcommand
        yield from _paths(subcommand, (*before, name))


class ListedCommands(Commands):
    """Commands of which ``list`` need not be named: ``eoslog topics LOG`` is ``eoslog topics list LOG``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments into ``ctx.params``."""
        self._refuse_options(ctx, args)
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            following = args[1] if len(args) > 1 else ""
            if (
                following
                and not _is_option(args[0])
                and not _is_option(following)
                and not ctx.resilient_parsing
            ):
                self._refuse_order(ctx, args)
                if self._near(ctx, args[0]):
                    self._refuse(ctx, args[0])
            args = ["list", *args]
        return super().parse_args(ctx, args)
