"""What is told where a package of an extra is missing, too old, or broken; and that all is loaded by the one way."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_eos.errors import ConfigError, loading
from spark_eos.errors.loading import Loading
from spark_eos.log.log import Log
from tests.pages.blocks import ROOT
from verification.processes import environment

PACKAGE = ROOT / "spark_eos"

HANDLERS = {
    "extending.py": "an installation without the folder of extensions",
    "errors/loading.py": "the one way",
    "spark/__init__.py": "a name of the package that cannot be imported is such an error",
    "spark/version.py": "what Spark 4.1 does not have",
    "extensions/encryption/keys.py": "a user's module",
    "extensions/tables/iceberg/catalog.py": "what pyiceberg itself loads for a catalog",
}
"""Modules that name `ImportError` or `ModuleNotFoundError`, and why."""

OPTIONAL = {
    *(
        "confluent_kafka",
        "cryptography",
        "deltalake",
        "fastjsonschema",
        "h11",
        "httpx",
        "obstore",
        "opentelemetry",
    ),
    *("polars", "prometheus_client", "pyiceberg", "starlette", "textual", "uvicorn"),
}
BEHIND = {
    "extensions/ui/top/view.py": "extensions/ui/top/command.py",
    "extensions/metrics/prometheus.py": "extensions/metrics/cli/command.py",
    "extensions/machines/certificate.py": "extensions/machines/open.py",
    "extensions/machines/client.py": "extensions/machines/open.py",
    "extensions/machines/encrypted.py": "extensions/machines/open.py",
    "extensions/machines/server.py": "extensions/machines/open.py",
    "storage/objects/multipart.py": "storage/objects/clients.py",
    "extensions/tables/delta/stats.py": "extensions/tables/delta/target.py",
    "extensions/tables/iceberg/columns.py": "extensions/tables/iceberg/catalog.py",
    "extensions/tables/iceberg/files.py": "extensions/tables/iceberg/catalog.py",
    "extensions/tables/iceberg/target.py": "extensions/tables/iceberg/catalog.py",
    "extensions/tables/stamps.py": "extensions/tables/iceberg/catalog.py",
    "extensions/ui/app.py": "extensions/ui/cli.py",
    "extensions/ui/files.py": "extensions/ui/cli.py",
    "extensions/ui/security.py": "extensions/ui/cli.py",
    "extensions/ui/server.py": "extensions/ui/cli.py",
}
"""Modules that load a package, and the one that has done so by `Loading` before they are reached."""


AGAIN = "pip install --force-reinstall"


def install(folder: Path, name: str, version: str, code: str) -> None:
    """A package that is found before the real one."""
    module = folder / name.replace("-", "_")
    module.mkdir(parents=True)
    (module / "__init__.py").write_text(code)
    described = folder / f"{module.name}-{version}.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def test_a_package_that_is_missing():
    with (
        pytest.raises(ConfigError) as caught,
        Loading("eoslog ui", "ui", "starlette", "not-there"),
    ):
        import not_there  # type: ignore[import-not-found]  # noqa: F401
    assert str(caught.value) == (
        "eoslog ui needs the package not-there, which is not installed: pip install 'spark-eos[ui]'"
    )


def test_the_package_alone_where_its_extra_has_much_else():
    with (
        pytest.raises(ConfigError, match=r"not-there, which is not installed: pip install 'not-there'$"),
        Loading("read_polars", "demo", "not-there", alone=True),
    ):
        import not_there  # noqa: F401


def test_a_package_that_is_too_old(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "textual", "3.2.1", "")
    with (
        pytest.raises(
            ConfigError,
            match=r"^it needs textual 8 or newer, and this is 3\.2\.1: pip install 'spark-eos\[ui\]'$",
        ),
        Loading("it", "ui", "textual"),
    ):
        raise AssertionError("it was loaded")
    install(tmp_path, "polars", "1.3", "")
    with (
        pytest.raises(ConfigError, match=r"and this is 1\.3: pip install 'polars<3,>=1\.[0-9]+'$"),
        Loading("it", "demo", "polars", alone=True),
    ):
        raise AssertionError("it was loaded")


@pytest.mark.parametrize("version", ["8", "8.0.0", "8.0.0rc1", "10.2", "9"])
def test_a_package_that_is_new_enough(version, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "textual", version, "")
    with Loading("it", "ui", "textual"):
        pass


def test_zeros_at_the_end_of_a_version_say_nothing(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(loading, "_required_versions", lambda _: {"textual": "<9,>=8.0.0"})
    install(tmp_path, "textual", "8", "")
    with Loading("it", "ui", "textual"):
        pass


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import not_there", r"No module named 'not_there'"),
        ("raise ImportError('libsome.so: no such file\\nand more')", r"libsome\.so: no such file"),
        ("from sys import not_there", r"cannot import name 'not_there' from 'sys' \(unknown location\)"),
        ("raise KeyError", "KeyError"),
    ],
)
def test_a_package_that_is_broken_is_not_called_missing(code, told, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "broken-one", "1.0", code)
    with (
        pytest.raises(
            ConfigError,
            match=rf"^it needs broken-one, and loading fails \({told}\): {AGAIN} 'spark-eos.ui.'$",
        ) as caught,
        Loading("it", "ui", "broken-one"),
    ):
        import broken_one  # type: ignore[import-not-found]  # noqa: F401
    assert caught.value.__cause__ is not None


def test_ctrl_c_while_it_loads_is_none_of_its_business():
    with pytest.raises(KeyboardInterrupt), Loading("it", "ui", "not-there"):
        raise KeyboardInterrupt


@pytest.mark.deep("broken")
@pytest.mark.parametrize(
    ("version", "code", "told"),
    [
        (
            "0.1",
            "",
            "eoslog ui needs starlette 1.7 or newer, and this is 0.1: pip install 'spark-eos[ui]' [CONFIG]\n",
        ),
        (
            "1.8",
            "raise ImportError('it is broken')",
            f"eoslog ui needs starlette, uvicorn, and loading fails (it is broken): {AGAIN} 'spark-eos[ui]' [CONFIG]\n",
        ),
    ],
    ids=["too old", "broken"],
)
def test_the_command_says_it_in_one_line(version, code, told, tmp_path):
    Log.create(tmp_path / "log")
    install(tmp_path / "packages", "starlette", version, code)
    done = subprocess.run(
        [sys.executable, "-m", "spark_eos", "ui", tmp_path / "log"],
        env=environment(PYTHONPATH=f"{tmp_path / 'packages'}:{ROOT}"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"eoslog: {told}")


def modules_with(pattern: str) -> dict[str, str]:
    """The texts of the package's modules that have such a line."""
    texts = {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}
    return {name: text for name, text in texts.items() if re.search(pattern, text, re.MULTILINE)}


def test_nothing_else_handles_a_package_that_is_missing():
    assert {*modules_with(r"^[^#\"`]*\b(ImportError|ModuleNotFoundError)\b")} == {*HANDLERS}


def imported(node: ast.AST) -> Iterator[str]:
    """The optional packages that code imports, other than by `Loading` and for its types."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.With) and ast.unparse(node.items[0].context_expr).startswith("Loading("):
        return
    names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    yield from (name for name in names if name.partition(".")[0] in OPTIONAL)
    for child in ast.iter_child_nodes(node):
        yield from imported(child)


def test_optional_packages_are_loaded_by_the_one_way():
    loads = {*modules_with(r"^ +with Loading\(")} - {"errors/loading.py"}
    found = modules_with(rf"^ *(import|from) ({'|'.join(sorted(OPTIONAL))})\b")
    bare = {name for name, text in found.items() if [*imported(ast.parse(text))]}
    assert bare - loads == {*BEHIND}
    assert {*BEHIND.values()} <= loads
