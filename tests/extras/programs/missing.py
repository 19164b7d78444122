"""Without any extra: what needs one says so in one sentence, with the command to type, and writes nothing.

Each case is one line: what it is, and the words that the error has.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import spark_eos
from spark_eos import Admin, Log, Producer, errors
from spark_eos.clients.table_reader import read_polars
from spark_eos.extensions.mirror.out.kafka_target import KafkaTarget
from spark_eos.extensions.tables.tables import Tables
from spark_eos.extensions.ui.top import command as top
from spark_eos.monitoring import register

KEYS = {"encryption.keys": "env:KEYS", "encryption.key.id": "key"}
OBJECTS = {"value.format": "json", "value.schema": '{"type": "object"}'}
ICEBERG = {"catalog": "c", "namespace": "n"}
OF_SPARK = (
    *("BatchTransaction", "MicroBatchTransaction", "ProgressListener", "query_progress", "read_table"),
    *("require_own_log", "start_query"),
)
"""Of the package's names those that only load with Spark."""


def extra(name: str) -> str:
    return f"pip install 'spark-eos[{name}]'"


def send(url: str, settings: dict[str, str]) -> None:
    with Producer(url, settings) as producer:
        producer.send("orders", b"one")


send("log", {})
top._is_terminal = lambda: True
admin, tables, before = Admin("log"), Tables("log"), Log.open("log").state.seq

CALLS: list[tuple[str, Callable[[], object]]] = [
    *((extra("spark"), lambda name=name: getattr(spark_eos, name)) for name in OF_SPARK),  # type: ignore[misc]
    (extra("spark"), lambda: __import__("spark_eos.spark.datasource")),
    (extra("spark"), lambda: __import__("pyspark_eoslog")),
    (extra("tables"), lambda: tables.create("t", ["orders"], "delta")),
    (extra("tables"), lambda: tables.create("t", ["orders"], "iceberg", config=ICEBERG)),
    (extra("objectstore"), lambda: Admin("s3://bucket/log").list_topics()),
    (extra("machines"), lambda: send("s3://bucket/log", {"machines.listen": "127.0.0.1"})),
    (extra("value-formats"), lambda: admin.create_topic("t", config=OBJECTS)),
    (extra("encryption"), lambda: send("log", KEYS)),
    (extra("encryption"), lambda: send("new", KEYS)),
    (extra("ui"), lambda: top.top("log")),
    (extra("metrics"), lambda: register(Log.open("log"), registry=object())),  # type: ignore[arg-type]
    (extra("metrics"), lambda: register(Log.open("log"), meter_provider=object())),  # type: ignore[arg-type]
    (
        extra("mirror"),
        lambda: KafkaTarget({"bootstrap.servers": "localhost:1"}, "m", refresh_s=1, tell=print),
    ),
    ("pip install 'polars<3,>=1.", lambda: read_polars("log", "orders")),
]

MIRROR = "--name m --topic orders --bootstrap-server localhost:1"
COMMANDS = {
    "tables create log --name t --topic orders": "tables",
    "tables create log --name t --topic orders --format iceberg --config catalog=c --config namespace=n": "tables",
    "topics s3://bucket/log": "objectstore",
    "topics create log t --config value.format=json --config value.schema={}": "value-formats",
    "topics create new t --command-config keys": "encryption",
    f"mirror in log {MIRROR}": "mirror",
    f"mirror in new {MIRROR}": "mirror",
    f"mirror out log {MIRROR}": "mirror",
    "metrics log": "metrics",
    "metrics log --serve 0": "metrics",
    "metrics log --otlp http://localhost:1": "metrics",
    "ui log": "ui",
}

wrong = []
for words, call in CALLS:
    try:
        call()
    except (errors.EosLogError, ModuleNotFoundError) as error:
        told = str(error)
    else:
        told = "nothing"
    if words not in told or "not installed" not in told or "\n" in told:
        wrong.append(f"{words}: {told}")

Path("keys").write_text("".join(f"{name}={value}\n" for name, value in KEYS.items()))
for number, (command, name) in enumerate(COMMANDS.items()):
    own = [Path(sys.executable).with_name("eoslog")] if number % 2 else [sys.executable, "-Im", "spark_eos"]
    done = subprocess.run(
        [*own, *command.split()],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode != 1 or extra(name) not in done.stderr or done.stderr.count("\n") != 1:
        wrong.append(f"eoslog {command}: {done.returncode} {done.stdout}{done.stderr}")

if Path("new").exists() or Log.open("log").state.seq != before:
    wrong.append("something was written")
print(*wrong, sep="\n")
raise SystemExit(bool(wrong))
