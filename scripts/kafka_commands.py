"""docs/reference/kafka-commands.md; scripts/generate writes it.

The table has every option of Kafka's command line tools, as scripts/kafka_options.py recorded them, and what there is
here. A cell that begins with ``eoslog`` names a command and its options, and a test parses it; any other cell says why
there is none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/kafka-commands.md"
RECORDED = ROOT / "tests/cli/kafka_options.json"

BROKERS = "there are no brokers: the argument `URL` names the log"
CONFIG = "--command-config"
REPLICAS = "there are no replicas: the storage keeps copies"
ALWAYS = "there are no internal topics"
TIERS = "there are no tiers"
JAVA = "there are no Java classes: `--format` says how"
IDS = "there are no quotas"
VERSION, HELP = "eoslog --version", "eoslog --help"
LOG_FILES = "the log's files have another format; entries are shown in words"


def ours(command: str, *options: str, note: str = "") -> tuple[str, str]:
    """A command of eoslog with options, and what is different."""
    return " ".join(["eoslog", command, *options]), note


def same(command: str, *names: str) -> dict[str, tuple[str, str]]:
    """Options that have the same names."""
    return {name: ours(command, name) for name in names}


def common(command: str) -> dict[str, tuple[str, str] | str]:
    """What all tools have."""
    return {
        "--bootstrap-server": BROKERS,
        "--command-config": ours(command, CONFIG),
        "--help": ours(command, "--help"),
        "--version": (VERSION, ""),
    }


PRODUCER_SETTING = {
    "--batch-size": "batch.size",
    "--max-block-ms": "max.block.ms",
    "--max-memory-bytes": "buffer.memory",
    "--max-partition-memory-bytes": "batch.size",
    "--message-send-max-retries": "retries",
    "--timeout": "linger.ms",
    "--compression-codec": "compression.type",
    "--request-required-acks": "acks",
}
"""The setting behind an option of the console producer."""

GROUPS = "groups reset-offsets"

ROWS: dict[str, dict[str, tuple[str, str] | str]] = {
    "kafka-topics": {
        **common("topics"),
        "--alter": ours("topics alter"),
        "--at-min-isr-partitions": REPLICAS,
        "--config": ours("topics create", "--config"),
        "--create": ours("topics create"),
        "--delete": ours("topics delete"),
        "--delete-config": ours("configs", "--delete-config", note="Kafka dropped it from this tool"),
        "--describe": ours("topics describe"),
        "--exclude-internal": ALWAYS,
        "--if-exists": ours("topics delete", "--if-exists", note="also of `topics describe`"),
        "--if-not-exists": ours("topics create", "--if-not-exists"),
        "--list": ours("topics list"),
        "--partition-size-limit-per-response": BROKERS,
        "--partitions": ours("topics create", "--partitions", note="also of `topics alter`; default 1"),
        "--replica-assignment": REPLICAS,
        "--replication-factor": REPLICAS,
        "--topic": ours(
            "topics list",
            "--topic",
            note="a regular expression; elsewhere an argument. `topics alter` and `delete` take names alone: a slip in "
            "an expression deletes nothing",
        ),
        "--topic-id": ours("topics describe", "--topic-id"),
        "--topics-with-overrides": ours("topics describe", "--topics-with-overrides"),
        "--unavailable-partitions": REPLICAS,
        "--under-min-isr-partitions": REPLICAS,
        "--under-replicated-partitions": REPLICAS,
    },
    "kafka-configs": {
        **common("configs"),
        **same(
            "configs",
            "--add-config",
            "--add-config-file",
            "--alter",
            "--delete-config",
            "--describe",
            "--topic",
        ),
        "--all": "all settings are always shown, with their defaults",
        "--bootstrap-controller": BROKERS,
        "--broker": "there are no brokers: settings of brokers are the log's, `eoslog configs URL`",
        "--broker-defaults": "as `--broker`",
        "--broker-logger": "there are no brokers",
        "--client": IDS,
        "--client-defaults": IDS,
        "--client-metrics": "clients push no metrics: there is no broker that takes them",
        "--entity-default": "settings of brokers are the log's, without a default above them",
        "--entity-name": ours("configs", "--entity-name"),
        "--entity-type": ours("configs", "--entity-type", note="topics, and brokers for the log's own"),
        "--group": "groups have no settings: members bring them",
        "--ip": IDS,
        "--ip-defaults": IDS,
        "--user": IDS,
        "--user-defaults": IDS,
    },
    "kafka-console-producer": {
        **common("produce"),
        **{
            option: ours("produce", "--producer-property", note=f"`{setting}=…`")
            for option, setting in PRODUCER_SETTING.items()
        },
        **same("produce", "--command-property", "--producer-property", "--property", "--reader-property"),
        "--command-config": ours("produce", CONFIG, note="settings of the producer and of the store"),
        "--line-reader": JAVA,
        "--metadata-expiry-ms": BROKERS,
        "--request-timeout-ms": BROKERS,
        "--retry-backoff-ms": BROKERS,
        "--socket-buffer-size": BROKERS,
        "--producer.config": ours("produce", CONFIG),
        "--reader-config": "properties are few: give `--property`",
        "--sync": "the command ends when all is durable; how fast it goes is `linger.ms`",
        "--topic": ours("produce", note="the argument `TOPIC`"),
    },
    "kafka-console-consumer": {
        **common("consume"),
        **same("consume", "--command-property", "--consumer-property", "--formatter-property", "--property"),
        **same("consume", "--from-beginning", "--group", "--isolation-level", "--max-messages", "--offset"),
        **same("consume", "--partition", "--skip-message-on-error", "--timeout-ms"),
        "--command-config": ours("consume", CONFIG, note="settings of the consumer and of the store"),
        "--consumer.config": ours("consume", CONFIG),
        "--enable-systest-events": "it is for Kafka's own tests",
        "--formatter": ours("consume", "--format", note="text, json, avro or hex"),
        "--formatter-config": "properties are few: give `--formatter-property`",
        "--include": "one topic at a time: `eoslog topics list URL --topic REGEX` lists those that match",
        "--key-deserializer": JAVA,
        "--topic": ours("consume", note="the argument `TOPIC`"),
        "--value-deserializer": JAVA,
    },
    "kafka-consumer-groups": {
        **common("groups list"),
        "--all-groups": ours("groups describe", "--all-groups"),
        "--all-topics": ours(GROUPS, "--all-topics"),
        **same(
            GROUPS, "--by-duration", "--dry-run", "--execute", "--shift-by", "--to-current", "--to-datetime"
        ),
        **same(GROUPS, "--to-earliest", "--to-latest", "--to-offset"),
        "--delete": ours("groups delete"),
        "--delete-offsets": ours("groups delete-offsets"),
        "--describe": ours("groups describe"),
        "--export": "`--json` prints the same offsets, one object a line",
        "--from-file": "`Admin.alter_group_offsets` takes any offsets",
        "--group": ours("groups describe", "--group"),
        "--list": ours("groups list"),
        "--members": ours("groups describe", "--members"),
        "--offsets": ours("groups describe", "--offsets"),
        "--reset-offsets": ours(GROUPS),
        "--state": ours("groups describe", "--state", note="`groups list --state` chooses by it"),
        "--timeout": "there is no coordinator to wait for",
        "--topic": ours(GROUPS, "--topic"),
        "--type": "there is one type of groups",
        "--validate-regex": "groups subscribe with Python's regular expressions, in the client",
        "--verbose": ours("groups describe", "--members", note="the partitions of members are always shown"),
    },
    "kafka-delete-records": {
        **common("delete-records"),
        "--offset-json-file": ours(
            "delete-records", "--offset-json-file", note="or `--to TOPIC:PARTITION=OFFSET`"
        ),
    },
    "kafka-dump-log": {
        "--cluster-metadata-decoder": ours("dump", note="the entries are the metadata"),
        "--deep-iteration": "entries are always shown whole",
        "--files": ours("dump", "--from", note="the log, not its files"),
        "--help": ours("dump", "--help"),
        "--index-sanity-check": ours("verify", "--quick"),
        "--key-decoder-class": JAVA,
        "--max-bytes": LOG_FILES,
        "--max-message-size": LOG_FILES,
        "--offsets-decoder": ours("dump", note="commits of offsets are actions of entries"),
        "--print-data-log": ours("consume", "--json", note="records, with partition and offset"),
        "--remote-log-metadata-decoder": TIERS,
        "--share-group-state-decoder": "there are no share groups",
        "--skip-record-metadata": LOG_FILES,
        "--transaction-log-decoder": ours("history", note="or `eoslog dump`"),
        "--value-decoder-class": JAVA,
        "--verify-index-only": ours("verify", "--quick"),
        "--version": (VERSION, ""),
    },
    "kafka-transactions": common("transactions"),
    "kafka-transactions list": {
        "--help": ours("transactions list", "--help"),
        **same("transactions list", "--duration-filter", "--transactional-id-pattern"),
    },
    "kafka-transactions describe": {
        "--help": ours("transactions describe", "--help"),
        **same("transactions describe", "--transactional-id"),
    },
    "kafka-transactions describe-producers": {
        "--help": ours("transactions describe-producers", "--help"),
        "--broker-id": BROKERS,
        **same("transactions describe-producers", "--topic", "--partition"),
    },
    "kafka-transactions abort": {
        "--help": ours("transactions abort", "--help"),
        **same(
            "transactions abort",
            "--topic",
            "--partition",
            "--start-offset",
            "--producer-id",
            "--producer-epoch",
        ),
        "--coordinator-epoch": "there is no coordinator",
    },
    "kafka-transactions find-hanging": {
        "--help": ours("transactions find-hanging", "--help"),
        "--broker-id": BROKERS,
        **same("transactions find-hanging", "--max-transaction-timeout", "--topic", "--partition"),
    },
    "kafka-transactions forceTerminateTransaction": {
        "--help": ours("transactions force-terminate", "--help"),
        "--transactionalId": ours("transactions force-terminate", "--transactional-id"),
    },
    "kafka-get-offsets": {
        **common("get-offsets"),
        "--exclude-internal-topics": ALWAYS,
        **same("get-offsets", "--partitions", "--topic", "--topic-partitions"),
        "--time": ours(
            "get-offsets", "--time", note="also ISO 8601; there are no tiers, so -5 and -6 find nothing"
        ),
    },
}

HEAD = """# Kafka's commands, and ours

Every option of the command line tools of Kafka {version}, and what there is here. `scripts/kafka_options.py` asks
Kafka's own tools for their options; a test compares them with this table, and the commands in it with `eoslog`'s. The
page is written by `scripts/kafka_commands.py`.

Everywhere, `--bootstrap-server` is the argument `URL`. What differs in the behaviour of a command:
[the command eoslog](cli.md).
"""


def page(_text: str = "") -> str:
    """The whole page."""
    version = json.loads(RECORDED.read_text(encoding="utf-8"))["version"]
    return "\n".join([HEAD.format(version=version), *_tables()])


def _tables() -> Iterator[str]:
    for tool, rows in ROWS.items():
        yield from (f"## {tool}", "", "| Kafka | here | |", "|---|---|---|")
        for option, row in sorted(rows.items()):
            found, note = ("–", row) if isinstance(row, str) else (f"`{row[0]}`", row[1])
            yield f"| `{option}` | {found} | {note} |"
        yield ""
