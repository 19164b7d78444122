"""Record the options of Kafka's own command line tools: python scripts/kafka_options.py.

Maven brings Kafka's jars, each tool is asked for its help, and the names of its options go into
tests/cli/kafka_options.json, which the table of docs/reference/kafka-commands.md is checked against.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORDED = ROOT / "tests/cli/kafka_options.json"

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
}

# Lines that begin an option: of joptsimple without, of argparse4j with an indent and a short form.
_OPTION = re.compile(r"^ {0,2}(?:-\w(?: \w+)?, )?(--[a-z][A-Za-z.-]*[A-Za-z])", re.MULTILINE)
_COMMANDS = re.compile(r"^commands:\n  COMMAND\n(.*)", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^    ([a-z-]+|forceTerminateTransaction)(?:\s|$)", re.MULTILINE)


def options(text: str) -> list[str]:
    """The options that a help text names, each once, in its order."""
    return list(dict.fromkeys(_OPTION.findall(text)))


def recorded(classpath: str) -> dict[str, list[str]]:
    """The options of all tools; those of a command of a tool stand behind its name."""
    found = {}
    for tool, name in TOOLS.items():
        text = _help(classpath, name)
        found[tool] = options(text)
        commands = _COMMANDS.search(text)
        for command in _COMMAND.findall(commands[1]) if commands else ():
            found[f"{tool} {command}"] = options(_help(classpath, name, command))
    return found


def _help(classpath: str, name: str, *command: str) -> str:
    java = shutil.which("java")
    if java is None:
        raise SystemExit("Kafka's tools need Java, and there is no java on the PATH")
    done = subprocess.run(  # noqa: S603
        [java, "-XX:TieredStopAtLevel=1", "-cp", classpath, name, *command, "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    text = done.stdout + done.stderr
    if "--" not in text:
        raise SystemExit(f"{name}: no help in {text!r}")
    return text


def main() -> None:
    """Ask the tools, and write what they have."""
    sys.path.insert(0, str(ROOT))
    from benchmarks import jars

    classpath = os.pathsep.join(map(str, jars.fetch("kafka", jars.BROKER, alone=False)))
    version = jars.BROKER[1].rsplit(":", 1)[1]
    record = {"version": version, "tools": recorded(classpath)}
    RECORDED.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
