"""An example or more for each command, which its help shows and a test runs. LOG stands for the log."""

from __future__ import annotations

from spark_eos.extending import all_added

EXAMPLES: dict[str, tuple[str, ...]] = {
    "topics list": ("eoslog topics LOG", "eoslog topics list LOG --topic 'ord.*' --json"),
    "topics describe": ("eoslog topics describe LOG orders prices",),
    "topics create": (
        "eoslog topics create LOG events --partitions 3 --config retention.ms=86400000",
        "eoslog topics create LOG sales --column 'item string not null' --column 'price decimal(10,2)'",
    ),
    "topics alter": (
        "eoslog topics alter LOG orders --partitions 4 --config retention.ms=",
        "eoslog topics alter LOG prices --add-column 'shop string' --widen-column 'cents bigint'",
    ),
    "topics delete": ("eoslog topics delete LOG scratch", "eoslog topics delete LOG gone --if-exists"),
    "describe": ("eoslog describe LOG orders", "eoslog describe LOG --topics-with-overrides"),
    "produce": (
        "echo 'two apples' | eoslog produce LOG orders",
        "printf 'anna\\ttwo apples\\n' | eoslog produce LOG orders --property parse.key=true",
        """echo '{"item": "apple", "cents": 80}' | eoslog produce LOG prices --transactional-id till-1""",
        "eoslog produce LOG orders --file lines.txt --producer-property compression.type=zstd",
    ),
    "consume": (
        "eoslog consume LOG orders | head -3",
        "eoslog consume LOG orders --key --timestamp --partition 0 --offset -2",
        "eoslog consume LOG orders --json | eoslog produce LOG scratch --format json",
        "eoslog consume LOG orders --follow --from-beginning --max-messages 3",
    ),
    "get-offsets": (
        "eoslog get-offsets LOG --topic orders",
        "eoslog get-offsets LOG --topic-partitions orders:0,prices:0- --time 2026-11-24T12:00:00",
    ),
    "transactions list": ("eoslog transactions list LOG --state Ongoing --duration-filter 60000",),
    "transactions describe": ("eoslog transactions describe LOG --transactional-id billing",),
    "transactions describe-producers": (
        "eoslog transactions describe-producers LOG --topic orders --partition 0",
    ),
    "transactions find-hanging": ("eoslog transactions find-hanging LOG",),
    "transactions abort": ("eoslog transactions abort LOG --transactional-id hanging",),
    "transactions force-terminate": ("eoslog transactions force-terminate LOG --transactional-id billing",),
    "transactions resolve": ("eoslog transactions resolve LOG",),
    "groups list": ("eoslog groups list LOG --state Empty",),
    "groups describe": (
        "eoslog groups describe LOG --group audit",
        "eoslog groups describe LOG --all-groups --members",
    ),
    "groups reset-offsets": (
        "eoslog groups reset-offsets LOG --group audit --all-topics --to-earliest",
        "eoslog groups reset-offsets LOG --group audit --topic orders:0 --shift-by -1 --execute",
    ),
    "groups delete": ("eoslog groups delete LOG --group audit",),
    "groups delete-offsets": ("eoslog groups delete-offsets LOG --group audit --topic orders:0",),
    "groups remove-members": ("eoslog groups remove-members LOG --group audit",),
    "status": ("eoslog status LOG",),
    "lag": (
        "eoslog lag LOG",
        "eoslog lag LOG --group audit --totals --json",
        "eoslog lag LOG IN --checkpoint checkpoint",
    ),
    "configs": (
        "eoslog configs LOG",
        "eoslog configs LOG --alter offsets.retention.minutes=20160",
        "eoslog configs LOG --topic orders --add-config retention.ms=3600000 --delete-config max.message.bytes",
    ),
    "clock": ("eoslog clock LOG",),
    "expire": ("eoslog expire LOG",),
    "maintain": ("eoslog maintain LOG --dry-run", "eoslog maintain LOG --only snapshot,roll"),
    "vacuum": ("eoslog vacuum LOG --dry-run",),
    "delete-records": ("eoslog delete-records LOG --to orders:0=1",),
    "verify": ("eoslog verify LOG --quick", "eoslog verify LOG --note"),
    "copy": ("eoslog copy LOG copy-of-the-log", "eoslog copy LOG new-place --close"),
    "data move": (
        "eoslog data move LOG --to data-files --dry-run",
        "eoslog data move LOG --beside-entries",
    ),
    "dump": ("eoslog dump LOG --from 3",),
    "audit": ("eoslog audit LOG --name orders",),
    "history": ("eoslog history LOG --since 2",),
    "diff": ("eoslog diff LOG 1 3",),
}


def examples_of(command_path: str) -> tuple[str, ...]:
    """The examples of ``eoslog topics list``; none of what is no command."""
    return all_examples().get(command_path.partition(" ")[2], ())


def all_examples() -> dict[str, tuple[str, ...]]:
    """Those of the kernel, and of the extensions."""
    examples: dict[str, tuple[str, ...]] = {**EXAMPLES}
    for _, added in all_added("commands"):
        examples.update(added.examples)
    return examples
