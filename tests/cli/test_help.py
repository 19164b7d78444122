"""``eoslog --help``, wrong usage and completion; and the page that has the same commands and options."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from scripts import cli_page
from spark_eos import Admin, Consumer, TopicPartition
from spark_eos.cli.command import _built, app, main
from spark_eos.cli.parsing import Command, Commands
from spark_eos.cli.usage.columns import all_tables
from tests.generate import stale
from tests.needing import needs

ROOT = Path(__file__).parent.parent.parent
DRAWN = "╭│─\x1b"


def commands(command, *names):
    """All commands, by the words that call them."""
    if isinstance(command, Commands):
        yield from (
            found for name, child in command.commands.items() for found in commands(child, *names, name)
        )
    else:
        yield names, command


COMMANDS = dict(commands(typer.main.get_command(app)))


def fails(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    return shown.err


ADDED = {
    "backup": (*("backup", "restore", "backups list", "backups delete", "backups vacuum", "backups verify"),),
    "encryption": ("encryption keys", "encryption rotate"),
    "metrics": ("metrics",),
    "mirror": (
        *("mirror in", "mirror offsets", "mirror out", "mirror sent"),
        *("mirror wait", "mirror group", "mirror checkpoint", "mirror check"),
    ),
    "tables": ("tables create", "tables publish", "tables list", "tables versions", "tables drop"),
    "ui": ("top", "ui"),
}
"""The commands of each extension."""


def test_the_commands():
    names = [" ".join(names) for names in COMMANDS]
    added = {name for more in ADDED.values() for name in more}
    assert [name for name in names if name not in added] == [
        *("topics list", "topics describe", "topics create", "topics alter", "topics delete"),
        *("describe", "produce", "consume", "get-offsets"),
        *("transactions list", "transactions describe", "transactions describe-producers"),
        *("transactions find-hanging", "transactions abort"),
        *("transactions force-terminate", "transactions resolve"),
        *("groups list", "groups describe", "groups reset-offsets", "groups delete", "groups delete-offsets"),
        *("groups remove-members", "status", "lag", "configs", "clock", "expire", "maintain", "vacuum"),
        *("delete-records", "verify", "copy", "data move", "audit", "dump", "history", "diff"),
    ]
    assert all(isinstance(command, Command) for command in COMMANDS.values())


@pytest.mark.parametrize("extension", [pytest.param(name, marks=needs(name)) for name in ADDED])
def test_the_commands_of_an_extension(extension):
    names = [" ".join(names) for names in COMMANDS]
    assert tuple(name for name in names if name in ADDED[extension]) == ADDED[extension]


@pytest.mark.parametrize("names", [(), ("topics",), ("groups",), ("transactions",), *COMMANDS], ids=" ".join)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_is_plain_text_on_a_pipe(names, option, capsys):
    assert main([*names, option]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(f"Usage: {' '.join(('eoslog', *names))} ")
    assert not {*DRAWN} & {*shown.out}
    assert shown.err == ""
    assert ("\nCommands:\n" in shown.out) is (names not in COMMANDS)
    if names in COMMANDS:
        assert "--command-config FILE" in shown.out
        # Where a job goes on is the value of an option of Spark: always JSON.
        assert ("--json" in shown.out) is (names != ("mirror", "checkpoint"))


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_every_argument_and_option_has_a_help_text(names):
    for param in COMMANDS[names].params:
        assert param.help[0].isupper() or param.help.startswith("Kafka"), param.name
        assert param.help.endswith((".", "}")), param.name


def test_the_columns_of_each_table_are_in_the_help_of_its_command(capsys):
    """That a command prints no other ones: tests/cli/test_examples.py."""
    for table in all_tables():
        assert main([*table.command.split(), "--help"]) == 0
        _, _, shown = capsys.readouterr().out.partition(f"\nColumns{table.of and f' of {table.of}'}:\n")
        listed = shown.partition("\n\n")[0]
        assert tuple(re.findall("^  ([^ ].*?)  ", listed, re.MULTILINE)) == table.names
        assert "".join("".join(pair) for pair in table.meanings.items()).replace(" ", "") == re.sub(
            r"\s", "", listed
        )


@pytest.mark.parametrize("names", [*COMMANDS], ids=" ".join)
def test_a_command_without_its_log(names, capsys):
    error = fails(capsys, *names)
    assert "Missing" in error
    assert f"Try 'eoslog {' '.join(names)} --help' for help." in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Missing command"),
        (("groups",), "Missing command"),
        (("topcs", "LOG"), "did you mean topics"),
        (("nonsense",), "known are topics, describe, produce, consume"),
        (("groups", "lst"), "did you mean list"),
        (("topics", "LOG", "--jsn"), "--json"),
        (("topics", "LOG", "MORE"), "MORE"),
        (("dump", "LOG", "--from", "x"), "'--from'"),
        (("dump", "LOG", "--from"), "'--from'"),
        (("groups", "delete", "LOG"), "'--group'"),
        (("groups", "delete", "LOG", "--group", "--json"), "'--group' needs a value: GROUP"),
        (("groups", "describe", "LOG", "--group", "g", "--members", "--state"), "'--state': it cannot be used with"),
        (("groups", "reset-offsets", "LOG", "--group", "g", "--to-latest"), "give one of --topic, --all-topics"),
        (("groups", "reset-offsets", "LOG", "--group", "g", "--all-topics"), "give one of --to-earliest, "),
        (("transactions", "list", "LOG", "--producer-id", "1,one"), "'--producer-id': '1,one' is not N"),
        (("maintain", "LOG", "--watch", "soon"), "'--watch': soon is not a number of seconds"),
        (("configs", "LOG", "--alter", "a"), "'--alter': 'a' is not NAME=VALUE"),
        (("configs", "LOG", "--alter=a=1", "b=2"), "b=2"),
        (("history", "LOG", "--since", "soon"), "'--since': 'soon' is neither an entry nor a time"),
        (("copy", "LOG", "TO", "--destination-config", "/none"), "'--destination-config': '/none' cannot be read"),
    ],
)  # fmt: skip
def test_wrong_usage_names_what_is_wrong(arguments, words, capsys):
    error = fails(capsys, *arguments)
    assert words in " ".join(error.split())
    assert not {*DRAWN} & {*error}


def asks(line, shell="bash"):
    """The variables by which a shell asks what it may offer for a line, whose last word is not finished."""
    words = line.split(" ")
    return {
        "bash": {"_EOSLOG_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_EOSLOG_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line},
        "fish": {
            "_EOSLOG_COMPLETE": "complete_fish",
            "_TYPER_COMPLETE_ARGS": line,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            "_TYPER_COMPLETE_WORD_TO_COMPLETE": words[-1],
        },
    }[shell]


def completed(line, shell="bash"):
    """What it is offered."""
    environment = {**os.environ, **asks(line, shell)}
    command = [sys.executable, "-m", "spark_eos"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    if shell == "zsh":
        return re.findall(r'(?:^|\(\()"([^":]+)', done.stdout, re.MULTILINE)
    return [text.partition("\t")[0] for text in done.stdout.split("\n") if text]


@pytest.mark.deep
def test_completion():
    assert completed("eoslog de") == ["describe", "delete-records"]
    assert completed("eoslog groups re") == ["reset-offsets", "remove-members"]
    assert completed("eoslog dump LOG --f") == ["--from"]
    assert completed("eoslog maintain LOG --only vacuum,re") == ["vacuum,retire", "vacuum,retention"]


@pytest.mark.deep
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_the_topics_of_the_log(shell, log_url):
    for name in ("orders", "orders.dead", "bills"):
        Admin(log_url).create_topic(name)
    assert completed("eoslog cons", shell) == ["consume"]
    assert completed(f"eoslog consume {log_url} --isol", shell) == ["--isolation-level"]
    assert completed(f"eoslog consume {log_url} ord", shell) == ["orders", "orders.dead"]
    assert completed(f"eoslog configs {log_url} --topic b", shell) == ["bills"]


def test_completion_of_a_log_that_is_not_there_offers_nothing(log_url, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        for name, text in {**asks(f"eoslog consume {log_url} ord"), "COLUMNS": "80"}.items():
            patch.setenv(name, text)
        assert main([]) == 0
    assert capsys.readouterr().out.split() == []
    assert not Path(log_url).exists()


def test_completion_of_groups(log_url):
    Admin(log_url).create_topic("t")
    with Consumer(log_url, {"group.id": "audit"}) as consumer:
        consumer.commit({TopicPartition("t", 0): 0})
    assert completed(f"eoslog consume {log_url} t --group a") == ["audit"]


SCRIPTS = {
    "bash": (".bash_completions/eoslog.sh", "_EOSLOG_COMPLETE=complete_bash"),
    "zsh": (".zfunc/_eoslog", "_EOSLOG_COMPLETE=complete_zsh"),
    "fish": (".config/fish/completions/eoslog.fish", "_EOSLOG_COMPLETE=complete_fish"),
}


@pytest.fixture
def any_shell(monkeypatch):
    """The commands as they are made where typer does not look which shell it is."""
    _built.cache_clear()
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    yield
    _built.cache_clear()


@pytest.mark.usefixtures("any_shell")
def test_the_scripts_of_completion(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    for shell, (file, words) in SCRIPTS.items():
        for option in ("--show-completion", "--install-completion"):
            assert main([option, shell]) == 0
            assert "complet" in capsys.readouterr().out
        assert words in (tmp_path / file).read_text()


HEAVY = {"pyarrow", "numpy", "fastavro", "pandas", "obstore", "immutables", "rich"}


def loaded(code):
    code = f"import sys\n{code}\nprint(*sorted({HEAVY} & set(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stderr.split()


def test_help_and_completion_load_no_library():
    assert loaded("from spark_eos.cli import main; main(['groups', 'reset-offsets', '--help'])") == []


def test_clients_load_nothing_of_the_command():
    code = "import spark_eos; spark_eos.Producer; spark_eos.Consumer; spark_eos.Admin; spark_eos.start_query"
    code += "\nassert not {'typer', 'rich', 'spark_eos.cli'} & set(sys.modules)"
    assert "rich" not in loaded(code)


@needs(*ADDED)
def test_the_page_has_the_commands_and_options():
    assert stale("scripts.cli_page") == [], "scripts/generate writes it"
    assert cli_page.PAGE.read_text(encoding="utf-8").count("\n### eoslog ") == len(COMMANDS)
