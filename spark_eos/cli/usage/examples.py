"""An example or more for each command, which its help shows and a test runs. LOG stands for the log."""

from __future__ import annotations

__all__ = ["EXAMPLES", "examples_of"]

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
    "top": ("eoslog top LOG --json --count 1",),
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
    "tables create": ("eoslog tables create LOG --name shop --topic prices --format delta",),
    "tables publish": ("eoslog tables publish LOG --name daily",),
    "tables list": ("eoslog tables list LOG",),
    "tables versions": ("eoslog tables versions LOG --name daily",),
    "tables drop": ("eoslog tables drop LOG --name daily",),
    "verify": ("eoslog verify LOG --quick",),
    "encryption keys": ("eoslog encryption keys LOG --key 2025-11",),
    "encryption rotate": ("eoslog encryption rotate LOG --command-config keys.properties",),
    "copy": ("eoslog copy LOG copy-of-the-log", "eoslog copy LOG new-place --close"),
    "data move": (
        "eoslog data move LOG --to data-files --dry-run",
        "eoslog data move LOG --beside-entries",
    ),
    "backup": ("eoslog backup LOG backups", "eoslog backup LOG backups --name tuesday"),
    "restore": (
        "eoslog restore backups restored --backup monday",
        "eoslog restore backups of-entry-3 --to-entry 3",
    ),
    "backups list": ("eoslog backups list backups",),
    "backups delete": ("eoslog backups delete backups monday",),
    "backups vacuum": ("eoslog backups vacuum backups",),
    "backups verify": ("eoslog backups verify backups",),
    "mirror in": (
        "eoslog mirror in LOG --name shop --bootstrap-server kafka:9092 --topic orders,payments",
        "eoslog mirror in LOG --name shop --bootstrap-server kafka:9092 --topic-pattern 'shop[.].*' --groups '.*'",
        "eoslog mirror in LOG --name shop --bootstrap-server kafka:9092 --partitions orders:0-3 --once",
    ),
    "mirror offsets": (
        "eoslog mirror offsets LOG --name shop",
        "eoslog mirror offsets LOG --name shop --topic orders --json",
    ),
    "mirror out": (
        "eoslog mirror out LOG --name shop --bootstrap-server kafka:9092 --topic orders,payments",
        "eoslog mirror out LOG --name back --bootstrap-server kafka:9092 --reverse shop --groups '.*'",
    ),
    "mirror sent": (
        "eoslog mirror sent LOG --name shop --bootstrap-server kafka:9092",
        "eoslog mirror sent LOG --name shop --bootstrap-server kafka:9092 --topic orders --partition 0 --log 4711",
    ),
    "mirror wait": ("eoslog mirror wait LOG --name shop --bootstrap-server kafka:9092 --topic orders",),
    "mirror group": ("eoslog mirror group LOG --name shop --bootstrap-server kafka:9092 --group billing",),
    "mirror checkpoint": (
        "eoslog mirror checkpoint LOG --name shop --checkpoint /data/job/checkpoint",
        "eoslog mirror checkpoint LOG --name shop --checkpoint s3a://bucket/job --batch 412",
    ),
    "mirror check": (
        "eoslog mirror check LOG --name shop --bootstrap-server kafka:9092 --before producers",
        "eoslog mirror check LOG --name shop --bootstrap-server kafka:9092 --before end --ignore-groups 'test-.*'",
    ),
    "dump": ("eoslog dump LOG --from 3",),
    "audit": ("eoslog audit LOG --name orders",),
    "history": ("eoslog history LOG --since 2",),
    "diff": ("eoslog diff LOG 1 3",),
    "metrics": ("eoslog metrics LOG", "eoslog metrics LOG --partitions --json"),
    "ui": ("eoslog ui LOG --port 8080", "eoslog ui LOG --allow-writes"),
}


def examples_of(command_path: str) -> tuple[str, ...]:
    """The examples of ``eoslog topics list``; none of what is no command."""
    return EXAMPLES.get(command_path.partition(" ")[2], ())
