"""The house has floors (README, Design): a lower floor never imports a higher one."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

FLOORS = {
    "errors": 0,
    "config": 0,
    "extending": 0,
    "serving": 1,
    "storage": 1,
    "protocol": 2,
    "log": 3,
    "clients": 4,
    "cli": 4,
    "maintenance": 4,
    "monitoring": 4,
    "spark": 5,
    "kafka": 5,
}
"""The parts with a floor; each may import those of its own floor and below, but for FORBIDDEN."""

EXTENSION = "extensions."
"""Each folder of `spark_eos.extensions` is a part. It may import what is below Spark, and no other extension."""

EXTENSION_FLOOR = 4

FORBIDDEN = {"errors": {"config"}, "protocol": {"storage"}, "spark": {"storage"}}
"""Parts that are none of this part's business: the protocol does no I/O, Spark sees the log alone."""

ALLOWED_NAMES = {
    ("spark", "spark_eos.storage"): {
        *("NO_SETTINGS", "Settings", "is_object_store", "log_settings_of", "settings_of", "split_settings"),
        *("as_hadoop", "file_exists", "folder_exists", "read_file", "write_file"),
    },
    # For type checkers alone: `spark_eos.extending.public` loads them.
    ("monitoring", "spark_eos.extensions.metrics.registration"): {"Registration", "register"},
    # Where users of aiokafka look for them; without that extension the others are still there.
    ("kafka", "spark_eos.extensions.aio.consumer"): {"AIOConsumer"},
    ("kafka", "spark_eos.extensions.aio.producer"): {"AIOProducer"},
}
"""Names that a part may import from such a part all the same. Spark's floor uses no store: it passes on where a store
is and its settings, and looks into the checkpoint of a query."""

PURE_PARTS = {"config": "config is pure", "protocol": "the protocol is pure"}
"""Parts that have no I/O, no clock and no randomness."""

OUTSIDE = {"testing", "__init__", "__main__", "pyspark_eoslog", "extensions"}
"""Parts without a floor: no part with one may import them. Only the shim and the testing tools, which run the
real source and sink without Spark, may import Spark's part."""

ABOVE_SPARK = {"testing", "pyspark_eoslog"}

PURE = {
    *(
        "__future__",
        "abc",
        "bisect",
        "collections",
        "contextlib",
        "dataclasses",
        "difflib",
        "enum",
        "functools",
        "hashlib",
    ),
    "heapq",
    "urllib.parse",
    *("itertools", "io", "json", "math", "operator", "re", "struct", "types", "typing", "weakref", "zlib"),
    *("fastavro", "google_crc32c", "immutables", "numpy", "pyarrow", "typing_extensions"),
}
"""All that a pure part may import from outside of the package: nothing that has I/O, a clock or randomness
as its business. `open` and `print` are refused by name, of `io` and of Arrow's readers what opens files."""

IMPURE_NAMES = {"open", "print", "input", "exec", "eval", "FileIO", "open_code", "OSFile", "memory_map"}

MADE_OF_SOURCE = {"spark_eos/protocol/rules/predicate.py"}
"""Makes functions from the types that the protocol declares, and of nothing else."""


def violations(files: Mapping[str, str]) -> list[str]:
    """What is wrong with these modules (path relative to the repository -> source), one line each."""
    found = []
    for path, source in sorted(files.items()):
        part, tree = part_of(module_name(path)), ast.parse(source, path)
        if part not in FLOORS and part not in OUTSIDE and not part.startswith(EXTENSION):
            found.append(f"{path}: {part} has no floor: give it one in {Path(__file__).name}")
            continue
        for line, module in imports(tree, path):
            reason = refusal(part, module)
            if reason:
                found.append(f"{path}:{line}: imports {module}: {reason}")
        if part in PURE_PARTS and path not in MADE_OF_SOURCE:
            found += [f"{path}:{line}: uses {name}: {PURE_PARTS[part]}" for line, name in impure_uses(tree)]
    return found


def refusal(part: str, module: str) -> str | None:
    """Why a module of ``part`` may not import ``module``; None if it may."""
    top = module.partition(".")[0]
    if top in {"pyspark", "py4j"} and part not in {"spark", *ABOVE_SPARK}:
        return "only the Spark floor knows Spark"
    if top not in {"spark_eos", "pyspark_eoslog"}:
        return PURE_PARTS.get(part) if not PURE & {top, module} else None
    return refusal_inside(part, part_of(module))


def refusal_inside(part: str, other: str) -> str | None:
    """Why ``part`` may not import the part ``other`` of the package; None if it may."""
    if other == part:
        return None
    if part in OUTSIDE:
        if other == "spark" and part not in {*ABOVE_SPARK, "__init__"}:
            return "only the shim, the package's front and the testing tools import the Spark floor"
        return None
    if other in OUTSIDE:
        return "parts with a floor import one another by name, not the package's front or its testing tools"
    if other.startswith(EXTENSION):
        return f"{other} is an extension: what it adds is found by spark_eos.extending"
    floor = FLOORS.get(part, EXTENSION_FLOOR)
    if FLOORS.get(other, 99) > floor:
        return f"{other} is on a higher floor than {part}"
    if other in FORBIDDEN.get(part, ()):
        return f"{other} is none of {part}'s business"
    return None


def imports(tree: ast.AST, path: str) -> Iterator[tuple[int, str]]:
    """Line and absolute name of everything that is imported, also in functions, also by ``import_module``."""
    package = module_name(path).split(".")
    if not path.endswith("__init__.py"):
        package.pop()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from spark_eos import log` imports spark_eos.log; of other modules, the names do not matter.
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "spark_eos" else [module]
            allowed = ALLOWED_NAMES.get((part_of(module_name(path)), module), set())
            if allowed.issuperset(alias.name for alias in node.names):
                continue
            yield from ((node.lineno, name) for name in names)
        elif isinstance(node, ast.Call) and called(node) in {"import_module", "__import__"}:
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield node.lineno, argument.value


def impure_uses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of what does I/O or asks the clock though its module is a pure one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) in IMPURE_NAMES:
            yield node.lineno, called(node)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name in IMPURE_NAMES)


def called(node: ast.Call) -> str:
    """The last part of the name of what is called: ``f`` for ``f()`` and for ``module.f()``."""
    return getattr(node.func, "id", None) or getattr(node.func, "attr", "")


def module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def part_of(module: str) -> str:
    """``spark_eos.log.commit.tail`` -> log; the package itself -> __init__; the shim -> pyspark_eoslog.

    A public name imported from the package itself (`spark_eos.Producer`) is its front's, too.
    """
    top, _, rest = module.partition(".")
    if top != "spark_eos":
        return top
    part, _, below = rest.partition(".")
    if part == "extensions" and below:
        return f"{part}.{below.partition('.')[0]}"
    return "__init__" if not part or part[0].isupper() else part


def sources() -> dict[str, str]:
    paths = [*ROOT.glob("spark_eos/**/*.py"), *ROOT.glob("pyspark_eoslog.py")]
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


def test_no_floor_imports_a_higher_one():
    assert violations(sources()) == []


def test_every_floor_is_looked_at():
    parts = {part_of(module_name(path)) for path in sources()}
    assert parts >= {*FLOORS, *OUTSIDE}
    assert sum(part.startswith(EXTENSION) for part in parts) > 10


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (
            "spark_eos/storage/posix/store.py",
            "import os\nimport pyarrow\nfrom spark_eos.errors import StorageError",
        ),
        ("spark_eos/storage/memory.py", "from .store import Store"),
        ("spark_eos/config/store.py", "from urllib.parse import urlsplit\nfrom spark_eos import errors"),
        ("spark_eos/protocol/rules/settings.py", "from spark_eos.config.log import LOG"),
        (
            "spark_eos/protocol/state.py",
            "from io import BytesIO\nfrom .types import x\nfrom spark_eos import errors",
        ),
        (
            "spark_eos/log/topics.py",
            "import time\nfrom spark_eos.storage import Store\nfrom ..protocol import State",
        ),
        ("spark_eos/clients/producer/producer.py", "from spark_eos.log import Log"),
        (
            "spark_eos/cli/command.py",
            "from spark_eos.clients import Admin\nfrom spark_eos.maintenance import x",
        ),
        ("spark_eos/spark/sink/sink.py", "import pyspark.sql\nfrom spark_eos.log import Log"),
        ("spark_eos/spark/options.py", "from spark_eos.storage import NO_SETTINGS, split_settings"),
        (
            "spark_eos/testing/contract.py",
            "from spark_eos.storage import Store\nfrom spark_eos.clients import x",
        ),
        ("spark_eos/__init__.py", "from spark_eos.clients import Producer"),
        ("spark_eos/extensions/mirror/x.py", "from spark_eos.cli.output import x\nimport confluent_kafka"),
        ("spark_eos/extensions/mirror/x.py", "from spark_eos.extensions.mirror.plan import x"),
        ("spark_eos/__main__.py", "from spark_eos.cli.command import main"),
        ("pyspark_eoslog.py", "from spark_eos.spark import DefaultSource"),
    ],
)
def test_what_is_allowed(path, source):
    assert violations({path: source}) == []


@pytest.mark.parametrize(
    ("path", "source", "reason"),
    [
        # A lower floor imports a higher one, in each of the ways there are.
        ("spark_eos/storage/posix/store.py", "import spark_eos.log", "higher floor"),
        ("spark_eos/storage/posix/store.py", "from spark_eos.protocol.types import x", "higher floor"),
        ("spark_eos/protocol/state.py", "from ..log import tail", "higher floor"),
        ("spark_eos/protocol/rules/ends.py", "from ...log import tail", "higher floor"),
        ("spark_eos/log/__init__.py", "from ..clients import Producer", "higher floor"),
        ("spark_eos/log/topics.py", "from .. import clients", "higher floor"),
        ("spark_eos/log/commit/tail.py", "from spark_eos import cli", "higher floor"),
        ("spark_eos/clients/x.py", "def f():\n    from spark_eos.spark import sink", "higher floor"),
        ("spark_eos/cli/x.py", "if TYPE_CHECKING:\n    import spark_eos.spark.sink.sink", "higher floor"),
        ("spark_eos/maintenance/x.py", "importlib.import_module('spark_eos.spark')", "higher floor"),
        ("spark_eos/maintenance/x.py", "__import__('spark_eos.spark')", "higher floor"),
        # A floor below that is none of its business.
        ("spark_eos/protocol/state.py", "from spark_eos.storage import Store", "none of protocol's business"),
        (
            "spark_eos/spark/sink/sink.py",
            "from spark_eos.storage.posix.store import x",
            "none of spark's business",
        ),
        ("spark_eos/spark/sink/sink.py", "from spark_eos import storage", "none of spark's business"),
        (
            "spark_eos/spark/sink/sink.py",
            "from spark_eos.storage import Settings, Store",
            "none of spark's business",
        ),
        ("spark_eos/errors.py", "from spark_eos.storage import Store", "higher floor"),
        ("spark_eos/errors.py", "from spark_eos.config.option import Option", "none of errors's business"),
        ("spark_eos/config/store.py", "from spark_eos.storage.settings import Settings", "higher floor"),
        ("spark_eos/config/consumer.py", "from ..protocol import assignors", "higher floor"),
        # The front, the testing tools and the shim are for others.
        ("spark_eos/log/commit/tail.py", "from spark_eos import Producer", "front"),
        ("spark_eos/log/commit/tail.py", "import spark_eos", "front"),
        ("spark_eos/clients/x.py", "from spark_eos.testing import faulty", "testing tools"),
        ("spark_eos/spark/x.py", "import pyspark_eoslog", "front"),
        # Extensions.
        (
            "spark_eos/log/topics.py",
            "def f():\n    from spark_eos.extensions.mirror import x",
            "an extension",
        ),
        ("spark_eos/cli/command.py", "from spark_eos.extensions.backup.cli import app", "an extension"),
        (
            "spark_eos/extensions/mirror/x.py",
            "from spark_eos.extensions.tables.planner import x",
            "an extension",
        ),
        ("spark_eos/extensions/mirror/x.py", "from spark_eos.spark.sink import sink", "higher floor"),
        ("spark_eos/monitoring/x.py", "from spark_eos.extensions.metrics.watch import x", "an extension"),
        # Spark.
        ("spark_eos/clients/x.py", "import pyspark", "knows Spark"),
        ("spark_eos/log/x.py", "from pyspark.sql import SparkSession", "knows Spark"),
        ("spark_eos/__init__.py", "import pyspark", "knows Spark"),
        ("spark_eos/cli/x.py", "import py4j.java_gateway", "knows Spark"),
        # The protocol is pure.
        *(
            ("spark_eos/protocol/x.py", f"import {module}", "pure")
            for module in (
                "os",
                "os.path",
                "time",
                "random",
                "socket",
                "threading",
                "uuid",
                "pathlib",
                "datetime",
            )
        ),
        ("spark_eos/protocol/x.py", "from os import urandom", "pure"),
        ("spark_eos/config/x.py", "import os", "config is pure"),
        ("spark_eos/config/x.py", "import urllib.request", "config is pure"),
        ("spark_eos/config/x.py", "open('f')", "config is pure"),
        ("spark_eos/protocol/x.py", "from io import FileIO", "pure"),
        ("spark_eos/protocol/x.py", "open('f')", "uses open"),
        ("spark_eos/protocol/x.py", "import io\nio.open('f')", "uses open"),
        ("spark_eos/protocol/x.py", "import pyarrow as pa\npa.memory_map('f')", "uses memory_map"),
        ("spark_eos/protocol/x.py", "print()", "uses print"),
        # Whoever adds a part says where it stands.
        ("spark_eos/utils.py", "", "has no floor"),
        ("spark_eos/common/x.py", "", "has no floor"),
    ],
)
def test_what_is_refused(path, source, reason):
    (violation,) = violations({path: source})
    assert violation.startswith(path)
    assert reason in violation
