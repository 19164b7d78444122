"""The option ``kafka.options``: what becomes of settings of Kafka's transport, which nothing here needs."""

from __future__ import annotations

from collections.abc import Container, Mapping

from spark_eos.config.kafka.names import RENAMED, kafka_name
from spark_eos.config.option import Option, Table, Use
from spark_eos.config.reader import OptionReader, Problems, parse
from spark_eos.config.store import only_store_options, read_store_options, without_store_options
from spark_eos.config.values import Choice, Fixed

KAFKA_OPTIONS = "kafka.options"
USED_IN = "config/kafka/transport.py"


def kafka_options(used_in: str, *, uses: frozenset[Use] = frozenset()) -> Option:
    """The row about it, for the tables that have it."""
    return Option(
        KAFKA_OPTIONS,
        Choice("refuse", "ignore", any_case=True),
        "refuse",
        "With `ignore`, settings of Kafka's transport (servers, security, fetching, sending) are dropped.",
        used_in,
        "eoslog",
        uses=uses,
    )


class Transport:
    """The settings of the transport among those that were given, by why nothing needs them."""

    def __init__(self, *, ignore: bool) -> None:
        self.ignore = ignore
        self._names: dict[str, list[str]] = {}

    def takes(self, name: str, own_names: Container[str], spelled: str | None = None) -> bool:
        """Whether a name without a row is one of the transport's; it is kept then, as it was ``spelled``."""
        setting = kafka_name(name, own_names)
        if setting is None or not setting.is_transport:
            return False
        self._names.setdefault(setting.why, []).append(spelled or name)
        return True

    def report(self, problems: Problems, hint: str = "") -> None:
        """Add one problem, about all of them, unless they are dropped. ``hint`` is its last line."""
        names = [name for group in self._names.values() for name in group]
        if self.ignore or not names:
            return
        subject = (
            f"option {names[0]} is a setting" if len(names) == 1 else f"{len(names)} options are settings"
        )
        reasons = [f"      {', '.join(group)}: {why}" for why, group in self._names.items()]
        text = (
            f"{subject} of Kafka's transport, which is not needed here: leave out what follows, or set "
            f"{KAFKA_OPTIONS}=ignore, which drops exactly that, and nothing that changes what is read or written"
        )
        problems.add("Kafka's transport", "\n".join([text, *reasons, *([f"      {hint}"] if hint else [])]))


def ignores(table: Table, value: object) -> bool:
    """Whether the option says so. Raises `ConfigError`."""
    return bool(parse(table, table[KAFKA_OPTIONS], value) == "ignore")


def client_settings(
    table: Table, other_table: Table, config: Mapping[str, object]
) -> tuple[OptionReader, Problems]:
    """What was given to a client, read, and all that is wrong with it, settings of its store among that.

    Settings of Kafka's transport are dropped if ``kafka.options`` says so, and with them those that have one allowed
    value. ``other_table`` is the table of the other kind of client.
    """
    problems = Problems()
    client_config = without_store_options(config)
    ignore = False
    with problems.about(KAFKA_OPTIONS):
        ignore = ignores(table, client_config.get(KAFKA_OPTIONS, "refuse"))
    transport, settings = Transport(ignore=ignore), {}
    for name, value in client_config.items():
        if name in table:
            if not (ignore and isinstance(table[name].type, Fixed)):
                settings[name] = value
            continue
        if transport.takes(str(name), table):
            continue
        plain = str(name).lower().replace("_", ".")
        setting = RENAMED.get(plain, plain)
        if setting in other_table and setting not in table:
            problems.add(name, f"{name} is a {other_table.noun}, and no {table.noun}: leave it out here")
        else:
            settings[name] = value  # The reader says what it is.
    transport.report(problems)
    read_store_options(only_store_options(config), problems)
    return OptionReader(table, settings, problems), problems
