"""What is typed wrong is named as it was typed, with the nearest thing that works; no error names a call of Python."""

from __future__ import annotations

import pytest
import typer

from spark_eos import Admin, Producer
from spark_eos.cli.command import app, main
from spark_eos.config.nearest import suggestion
from tests.needing import needs


@pytest.fixture
def url(tmp_path):
    url = str(tmp_path / "log")
    Admin(url).create_topic("orders")
    Admin(url).alter_group_offsets("billing", {("orders", 0): 0})
    with Producer(url, {"transactional.id": "till-1"}) as producer:
        producer.init_transactions()
    return url


def said(capsys, command, url, code):
    arguments = [url if one == "LOG" else one for one in command.split()]
    if code == 2:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
    else:
        assert main(arguments) == code
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("topics lst LOG", "No such command 'lst'; did you mean list?"),
        ("topics lst LOG --json", "No such command 'lst'; did you mean list?"),
        ("topics LOG list", "The command comes first: eoslog topics list LOG"),
        pytest.param(
            "tables LOG publish", "The command comes first: eoslog tables publish LOG", marks=needs("tables")
        ),
        ("LOG status", "The command comes first: eoslog status LOG"),
        ("topics offsets LOG", "No such command 'offsets'; there is eoslog get-offsets"),
        ("topics delete-records LOG", "there is eoslog delete-records"),
        ("topics --list LOG", "No such option '--list': write eoslog topics list"),
        ("topics --create --topic t LOG", "No such option '--create': write eoslog topics create"),
        ("groups --describe --group g LOG", "No such option '--describe': write eoslog groups describe"),
        ("groups lst LOG", "No such command 'lst'; did you mean list?"),
        pytest.param("keys LOG", "there is eoslog encryption keys", marks=needs("encryption")),
        (
            "fence LOG till-1",
            "there is eoslog transactions abort, eoslog transactions force-terminate",
        ),
        ("transactions fencings LOG", "there is eoslog audit"),
        ("fenced LOG", "there is eoslog audit"),
        ("reset LOG", "there is eoslog groups reset-offsets"),
        ("delete-topic LOG orders", "there is eoslog topics delete"),
        ("create LOG orders", "there is eoslog topics create"),
        pytest.param(
            *("create LOG orders", "there is eoslog topics create, eoslog tables create"),
            marks=needs("tables"),
        ),
        ("topic LOG", "did you mean topics?"),
        ("topics list localhost:9092", "'localhost:9092' is a server, and there are none"),
        ("produce localhost:9092 orders", "'localhost:9092' is a server, and there are none"),
        ("lag LOG k:9092", "'k:9092' is a server, and there are none"),
        (
            "groups reset-offsets LOG --group billing --all-topics --by-duration 5",
            "Invalid value for '--by-duration': '5' is not a duration",
        ),
    ],
)
def test_a_command_that_there_is_not(url, capsys, command, hint):
    assert hint.replace("LOG", url) in said(capsys, command, url, 2)


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("consume LOG --topic orders --from-beginning", "'--topic': it is an argument here: eoslog consume URL TOPIC"),
        ("consume LOG --topic=orders", "'--topic': it is an argument here: eoslog consume URL TOPIC"),
        ("produce --url LOG orders", "'--url': it is an argument here: eoslog produce URL TOPIC"),
        ("topics create --topic t LOG", "'--topic': it is an argument here: eoslog topics create URL TOPIC"),
        ("topics delete LOG --topic t", "'--topic': it is an argument here: eoslog topics delete URL TOPIC..."),
        ("describe LOG --topic orders", "'--topic': it is an argument here: eoslog describe URL [TOPIC]..."),
        ("consume --bootstrap-server k:9092 --topic orders", "there are no servers, the argument URL names the log"),
        ("topics list LOG --bootstrap-server=k:9092", "'--bootstrap-server': there are no servers"),
        ("topics --bootstrap-server k:9092 LOG", "'--bootstrap-server': there are no servers"),
        ("consume LOG orders --topics orders", ": --topics"),
    ],
)  # fmt: skip
def test_what_is_an_option_of_kafkas_tools_alone(url, capsys, command, hint):
    told = said(capsys, command, url, 2)
    assert "No such option" in told
    assert hint in told


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("groups delete LOG --group other --group billing", "--group"),
        ("groups delete LOG --group=other --group billing", "--group"),
        ("configs LOG --topic other --topic orders --alter retention.ms=5", "--topic"),
        ("consume LOG orders --offset -1 --json --offset -2", "--offset"),
    ],
)
def test_of_two_values_the_first_is_not_dropped(url, capsys, command, option):
    told = said(capsys, command, url, 2)
    assert f"Option '{option}' is given twice, and takes one value: give it once." in told
    assert Admin(url).list_groups() == ["billing"]
    assert Admin(url).describe_topic("orders").config == {}


def test_behind_two_dashes_no_option_is_refused(url, capsys):
    assert "no topic '--topic'" in said(capsys, "consume LOG -- --topic", url, 1)


def test_a_dash_alone_is_a_value(url, capsys):
    assert "knows no group '-'" in said(capsys, "groups describe LOG --group -", url, 1)


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("configs describe LOG", "'describe' is no argument here; did you mean --describe? eoslog configs takes URL"),
        ("configs alter LOG retention.ms=1", "'alter' is no argument here; did you mean --alter?"),
        ("verify LOG repiar", "'repiar' is no argument here; did you mean --repair?"),
        ("verify LOG/quick x", "'x' is an argument too many: eoslog verify takes URL and options; they are --quick, "),
        ("configs LOG orders", "'orders' is an argument too many: eoslog configs takes URL and options; did you mean"),
        ("configs LOG orders", "did you mean --topic orders?"),
        ("groups describe LOG billing", "did you mean --group billing?"),
        ("transactions abort LOG till-1", "did you mean --transactional-id till-1?"),
        ("configs descirbe LOG", "eoslog configs takes URL and options; they are --entity-type, "),
        ("dump LOG 5", "did you mean --from 5?"),
        ("topics alter LOG orders 5", "'5' is an argument too many: eoslog topics alter takes URL TOPIC and options"),
        ("produce LOG orders value", "'value' is an argument too many: eoslog produce takes URL TOPIC and options"),
    ],
)  # fmt: skip
def test_an_argument_too_many(url, capsys, command, hint):
    assert hint.replace("LOG", url) in said(capsys, command.replace("LOG/", f"{url}/"), url, 2)


def test_a_log_whose_variable_is_not_set(capsys):
    for command in (("topics", "list"), ("status",), ("produce",), ("lag",)):
        with pytest.raises(SystemExit):
            main([*command, "", *(("t",) if command == ("produce",) else ())])
        assert "Invalid value for 'URL" in (told := capsys.readouterr().err)
        assert "it is empty: give the log's folder or URL" in " ".join(told.split())


def _commands(command, path=()):
    """The names of each command, and its arguments, of those that take so many and no more."""
    for name, one in getattr(command, "commands", {}).items():
        yield from _commands(one, (*path, name))
    given = [one for one in command.params if one.param_type_name == "argument"]
    if not hasattr(command, "commands") and all(one.nargs == 1 for one in given):
        yield path, given


def test_no_command_says_that_an_argument_is_unexpected(capsys):
    for path, arguments in _commands(typer.main.get_command(app)):
        with pytest.raises(SystemExit):
            main([*path, *["/no/log"] * len(arguments), "surplus"])
        told = capsys.readouterr().err
        assert "unexpected" not in told
        assert "'surplus' is an argument too many" in told or "Missing option" in told, path


def test_the_list_need_not_be_named(url, capsys):
    for command in (
        ["topics", url],
        ["topics", "--json", url],
        ["topics", url, "--json"],
        ["topics", "list", url],
    ):
        assert main(command) == 0
        assert "orders" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (
            "groups describe LOG --group biling",
            "no group 'biling', with members or committed offsets; did you mean billing?",
        ),
        ("groups delete LOG --group zzz", "known are billing"),
        (
            "transactions describe LOG --transactional-id til-1",
            "no transactional.id 'til-1'; did you mean till-1?",
        ),
        ("transactions force-terminate LOG --transactional-id zzz", "known are till-1"),
        (
            "audit LOG --name til-1",
            "nothing of the name 'til-1'; did you mean till-1?",
        ),
        ("audit LOG --name zzz", "nothing of the name 'zzz'; known are billing, orders"),
        ("consume LOG orderz", "no topic 'orderz'; did you mean 'orders'?"),
        ("history LOG --topic orderz", "no topic 'orderz'; did you mean 'orders'?"),
        ("diff LOG 1 2 --topic orderz", "no topic 'orderz'; did you mean 'orders'?"),
    ],
)
def test_a_name_that_the_log_does_not_know(url, capsys, command, hint):
    text = said(capsys, command, url, 1)
    assert hint in text
    assert "list_" not in text


@pytest.mark.parametrize("command", ["audit LOG --name till-1", "history LOG --topic orders"])
def test_a_name_that_the_log_knows_may_have_nothing(url, capsys, command):
    assert main(command.replace("LOG", url).split()) == 0
    assert capsys.readouterr().err == ""


def test_of_many_names_a_part_is_shown():
    assert suggestion("x", [f"topic-{number}" for number in range(1000)]).endswith(
        "topic-99, … (1000 in all)"
    )
    assert suggestion("x", []) == "there are none"
