"""The alert rules, the dashboard and the runbooks: they name metrics that there are, and commands that work."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import typer
import yaml

from spark_eos import Admin, TopicPartition
from spark_eos.cli.command import app, main
from spark_eos.extensions.metrics.metric import LABELS, Kind
from spark_eos.extensions.metrics.table import METRICS
from spark_eos.maintenance.vacuum import Vacuum
from spark_eos.monitoring.troubles import of_state
from tests.extensions.metrics.metrics_world import one_of_everything

ROOT = Path(__file__).parents[3]
RULES = ROOT / "conf/prometheus/eoslog-alerts.yml"
RULE_TESTS = Path(__file__).with_name("alerts_test.yml")
BOOKS = ROOT / "docs/runbooks"
URL = "https://github.com/spark-eos/spark-eos/blob/main/docs/runbooks/"

ALERTS = {
    rule["alert"]: rule
    for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    for rule in group["rules"]
}
PAGES = {name: rule["annotations"]["runbook_url"].removeprefix(URL) for name, rule in ALERTS.items()}

SAMPLES = {
    f"{metric.prometheus_name}{suffix}": {*metric.prometheus_labels, *more}
    for metric in METRICS.values()
    for suffix, more in (
        {"_bucket": ("le",), "_count": (), "_sum": ()} if metric.kind is Kind.HISTOGRAM else {"": ()}
    ).items()
}
"""The names of all samples, with their labels."""

_NAME = re.compile(r"\b(?:eoslog|messaging|db)_[a-z0-9_]+\b")
_GIVEN = re.compile(r"\b((?:eoslog|messaging|db)_[a-z0-9_]+)\{([^}]*)\}")


def wrong_names(query):
    """Metrics and labels of a query that there are not."""
    wrong = {*_NAME.findall(query)} - {*SAMPLES}
    for name, labels in _GIVEN.findall(query):
        wrong |= {*re.findall(r"(\w+)\s*[=!]~?", labels)} - SAMPLES.get(name, set()) - {"instance", "job"}
    return wrong


def test_wrong_names_are_found():
    assert wrong_names('rate(eoslog_up{log="x",tpic="y"}[5m]) > eoslog_down') == {"tpic", "eoslog_down"}
    assert wrong_names('db_client_operation_duration_seconds_bucket{le="1",error!~"|X"}') == set()


# -- Rules ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_names_metrics_of_the_table(alert):
    rule = ALERTS[alert]
    assert wrong_names(rule["expr"]) == set()
    assert _NAME.findall(rule["expr"])
    assert rule["labels"]["severity"] in {"critical", "warning"}
    labels = {*re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])}
    assert labels <= {short for short, _ in LABELS.values()} | {"instance"}


OWN_NUMBERS = {
    "EoslogGroupBehind": {0.5},  # How quickly it falls behind, which `eoslog status` does not look at.
    "EoslogQueryBehind": {0.5},
    "EoslogSnapshotsMissing": {of_state.UNSEALED},
    "EoslogStorageErrors": {0.05},
    "EoslogStorageSlow": {1.0},
    "EoslogGarbage": {1e9, 0.5},
}
"""Limits that are no settings of the log."""


def test_no_rule_has_a_limit_that_is_a_setting():
    """Else `eoslog status` and the page tell what no alert tells, once the setting is changed."""
    found = {
        alert: {float(one) for one in re.findall(r"[<>]=?\s*(\d[\d.e]*)", rule["expr"])} - {0.0}
        for alert, rule in ALERTS.items()
    }
    assert {alert: numbers for alert, numbers in found.items() if numbers} == OWN_NUMBERS


def test_quantiles_are_compared_with_a_bound_of_a_bucket():
    """Between two bounds a quantile is a guess: of calls of 1.1 s it would be 4.8 s."""
    expr = ALERTS["EoslogStorageSlow"]["expr"]
    assert float(expr.rpartition(">")[2]) in METRICS["db.client.operation.duration"].bounds


def test_every_alert_is_tested_to_fire_and_to_be_silent():
    found = {}
    for test in yaml.safe_load(RULE_TESTS.read_text("utf-8"))["tests"]:
        for one in test["alert_rule_test"]:
            found.setdefault(one["alertname"], []).append(bool(one["exp_alerts"]))
            assert set().union(*(wrong_names(series["series"]) for series in test["input_series"])) == set()
    assert found == {name: [True, False] for name in ALERTS}


needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not here: scripts/servers promtool installs it"
)


def run_promtool(*arguments):
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def rule_alone(folder, alert):
    """A file of rules that has this one only: promtool evaluates each rule in each minute."""
    path = folder / f"{alert}-rule.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "alone", "rules": [ALERTS[alert]]}]}))
    return path


@needs_promtool
@pytest.mark.parametrize(
    "arguments",
    [("check", "rules", RULES), pytest.param(("test", "rules", RULE_TESTS), marks=pytest.mark.deep)],
    ids=["check", "test"],
)
def test_promtool_passes_the_rules(arguments):
    run_promtool(*arguments)


@needs_promtool
def test_each_rule_passes_its_tests(tmp_path):
    """Without the other rules, which takes a quarter of the time."""
    whole = yaml.safe_load(RULE_TESTS.read_text("utf-8"))
    paths = []
    for alert in ALERTS:
        own = [test for test in whole["tests"] if test["alert_rule_test"][0]["alertname"] == alert]
        paths.append(tmp_path / f"{alert}-test.yml")
        paths[-1].write_text(
            yaml.safe_dump({**whole, "rule_files": [str(rule_alone(tmp_path, alert))], "tests": own})
        )
    run_promtool("test", "rules", *paths)


# -- Dashboard ------------------------------------------------------------------------------------------


def test_the_dashboard_names_metrics_of_the_table():
    board = json.loads((ROOT / "conf/grafana/eoslog.json").read_text("utf-8"))
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(queries) >= len(panels) > 20
    for query in queries:
        assert _NAME.findall(query), query
        assert wrong_names(query) == set()
        assert "log=~" in query, "the variable chooses logs"
    for panel in panels:
        labels = {*re.findall(r"{{(\w+)}}", " ".join(target["legendFormat"] for target in panel["targets"]))}
        assert labels <= {short for short, _ in LABELS.values()}
        assert panel["description"].endswith(".")
    (variable,) = [one for one in board["templating"]["list"] if one["name"] == "log"]
    assert wrong_names(variable["definition"]) == set()


@needs_promtool
def test_the_queries_of_the_dashboard_are_queries(tmp_path):
    board = json.loads((ROOT / "conf/grafana/eoslog.json").read_text("utf-8"))
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    rules = [
        {"record": f"query:{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, query in enumerate(queries)
    ]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "board", "rules": rules}]}))
    run_promtool("check", "rules", path)


# -- Runbooks -------------------------------------------------------------------------------------------


def commands(page):
    """The commands in the blocks of a page."""
    blocks = re.findall(r"^ *```bash\n(.*?)^ *```", page, re.DOTALL | re.MULTILINE)
    return [line.strip() for block in blocks for line in block.splitlines()]


TITLES = ["What it means", "What to look at", "What to do"]


def test_every_alert_has_its_runbook_and_no_page_is_left_over():
    assert {*PAGES.values(), "index.md"} == {path.name for path in BOOKS.glob("*.md")}
    index = (BOOKS / "index.md").read_text("utf-8")
    for alert, name in PAGES.items():
        page = (BOOKS / name).read_text("utf-8")
        assert page.startswith(f"# {alert}: ")
        assert ALERTS[alert]["expr"].strip() in page
        titles = re.findall(r"^## (.*)", page, re.MULTILINE)
        assert titles == TITLES
        assert commands(page), name
        assert f"[`{alert}`]({name}) | {ALERTS[alert]['labels']['severity']} |" in index
        assert wrong_names(page) == set()


VALUES = {
    "TOPIC": "orders",
    "GROUP": "billing",
    "QUERY": "copy",
    "ID": "teller",
    "PUBLICATION": "nightly",
}
WRITING = {
    "abort",
    "force-terminate",
    "expire",
    "alter",
    "--repair",
    "--rebuild",
    "publish",
    "vacuum",
    "maintain",
    "--mend",
    "remove-members",
    "delete",
    "--execute",
    "--note",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    url = str(tmp_path_factory.mktemp("runbooks") / "log")
    with one_of_everything(url):
        Admin(url).alter_group_offsets("stopped", {TopicPartition("orders", 0): 0})
        yield url


ALL = sorted(
    {command for name in {*PAGES.values()} for command in commands((BOOKS / name).read_text("utf-8"))}
)
# Those that only look come first, so that all find the log as it was.
ALL.sort(key=lambda command: bool(WRITING & {*command.split()}) and "--dry-run" not in command)


@pytest.mark.parametrize("command", ALL)
def test_the_commands_of_the_runbooks_work(command, world, capsys, monkeypatch):
    monkeypatch.setattr(Vacuum, "_due_in", lambda *_: 0.0)  # The minute for running readers has passed.
    program, *arguments = command.split()
    assert program == "eoslog"
    assert "LOG" in arguments
    # Offsets are reset for a group whose consumers have stopped.
    values = {**VALUES, "LOG": world, **({"GROUP": "stopped"} if "reset-offsets" in arguments else {})}
    assert main([values.get(word, word).replace("TOPIC:", "orders:") for word in arguments]) == 0
    assert capsys.readouterr().out


def test_commands_in_the_text_exist():
    """Those in single backticks: ``eoslog maintain LOG --watch 300``."""
    root = typer.main.get_command(app)
    seen = 0
    for path in BOOKS.glob("*.md"):
        for line in re.findall(r"`eoslog ([^`]+)`", path.read_text("utf-8")):
            words, command = line.split(), root
            while words and words[0] in getattr(command, "commands", {}):
                command = command.commands[words.pop(0)]
            assert command is not root, line
            options = {name for param in getattr(command, "params", ()) for name in param.opts}
            assert {word for word in words if word.startswith("--")} <= options, line
            seen += 1
    assert seen > 10
