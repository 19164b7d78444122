"""The benchmarks' own code, on results that are made up, and on a little real work. Nothing here depends on speed."""

from __future__ import annotations

import importlib
import json
import math
import os
import random
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks import gate, jars, limits, machine, page, plots, results
from benchmarks.__main__ import WORKLOADS, main
from benchmarks.bench import Bench
from benchmarks.direct import Query
from benchmarks.large_shapes import MEMORY_MB, ROWS, SHAPES, SNAPSHOT_MB, measured
from benchmarks.pairing import Taken, faster, interval, less, rounds
from benchmarks.peers import Peers
from benchmarks.results import Figure, Ratio, Result
from benchmarks.rows import table
from benchmarks.workloads import (
    backups,
    long_page,
    looking,
    monitored,
    publish_beside,
    publish_cost,
    publish_growth,
    shapes,
    sink,
    source,
    writers,
)
from benchmarks.workloads import bytes as bytes_on_disk
from spark_eos import Consumer, Producer, TopicPartition
from spark_eos.log.log import Log
from tests.starting import run

ROOT = Path(__file__).parent.parent
MODULES = {name: importlib.import_module(f"benchmarks.workloads.{name}") for name in WORKLOADS}
RUN = {
    "when": "2026-01-01",
    "commit": "abc",
    "command": "scripts/bench",
    "others": 0.034,
    "machine": "a machine",
}


def made_up(name="sink", value=2.0):
    return Result(
        name,
        ratios=[Ratio("100 B", "Kafka", (value, 1.0, 4.0), target=1.5), Ratio("100 B", "Parquet", (0.5,))],
        figures=[
            Figure("100 B", "eoslog", (3.0, 1.0, 2.0), "rows/s"),
            Figure("100 B", "Kafka", (1234.0,), "rows/s"),
            Figure("addBatch", "eoslog → eoslog", (70.0,), plots.STACKED),
            Figure("walCommit", "eoslog → eoslog", (20.0,), plots.STACKED),
        ],
        curves={"ms": [(0.0, 1.0), (10.0, 1.5)]},
        notes=["Left out: Delta, because it rains."],
        run=RUN,
    )


# -- pairing --------------------------------------------------------------------------------------------


def test_contenders_take_turns_there_and_back_and_warming_up_does_not_count():
    order = []

    def contender(name):
        return lambda: order.append(name) or Taken(float(len(order)))

    runs = rounds({"a": contender("a"), "b": contender("b")}, 2, warm_up=1, say=lambda _: None)
    assert order == ["b", "a", "a", "b", "b", "a"]
    assert [taken.clock for taken in runs["a"]] == [3.0, 6.0]
    assert [taken.clock for taken in runs["b"]] == [4.0, 5.0]


def test_ratios_are_taken_within_a_round():
    ours, theirs = [Taken(1.0), Taken(4.0)], [Taken(2.0), Taken(2.0)]
    assert faster(ours, theirs) == (2.0, 0.5)
    assert less(ours, theirs) == (0.5, 2.0)


def test_the_interval_of_a_mean_of_ratios():
    assert interval([0.5, 2.0]).mean == pytest.approx(1.0)
    same = interval([0.9] * 10)
    assert same == pytest.approx((0.9, 0.9, 0.9))
    chance = random.Random(7)
    hits = 0
    for seed in range(60):
        found = interval([math.exp(chance.gauss(-0.02, 0.1)) for _ in range(40)], samples=400, seed=seed)
        assert found.low < found.mean < found.high
        hits += found.low < math.exp(-0.02) < found.high
    assert hits >= 50
    assert interval([1.0, 1.1, 0.9]) == interval([1.0, 1.1, 0.9])


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only /proc knows of other processes")
def test_the_processor_time_of_children_counts():
    """In a process of its own: this one may have children of other tests, whose time goes when they are killed."""
    run("processor_time_of_children")


# -- results and the page -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "at_most", "met", "doubtful"),
    [
        ((1.0, 2.0, 3.0), False, True, True),
        ((1.0, 1.4, 3.0), False, False, True),
        ((1.6, 1.7), False, True, False),
        ((1.0, 1.4, 1.4), True, True, False),
        ((1.0, 1.6, 1.7), True, False, True),
    ],
)
def test_a_target_is_met_by_the_median(values, at_most, met, doubtful):
    ratio = Ratio("x", "y", values, 1.5, at_most=at_most)
    assert (ratio.met, ratio.doubtful) == (met, doubtful)


def test_without_a_target_nothing_is_met():
    ratio = Ratio("x", "y", (1.0,))
    assert (ratio.met, ratio.doubtful) == (None, False)


def test_results_are_kept(tmp_path):
    path = tmp_path / "below" / "results.json"
    assert results.load(path) == {}
    results.save(path, {"sink": made_up()})
    assert results.load(path) == {"sink": made_up()}


def test_digits_that_say_nothing_are_not_kept(tmp_path):
    results.save(tmp_path / "r.json", {"sink": made_up(value=1.23456789)})
    assert results.load(tmp_path / "r.json")["sink"].ratios[0].values[0] == 1.235


def test_the_page():
    shown = page.page({"sink": made_up()}, MODULES, ["sink"], {})
    summary, section = shown.split("## Batch sink")
    row = "100 B | Kafka | 2.00 × | 1.00 – 4.00 | ≥ 1.50 × | yes, within the spread |"
    assert f"| Batch sink: {row}" in summary
    assert "Parquet" not in summary.split("## Targets")[1], "only what has a target is in the summary"
    assert f"| {row}" in section
    assert "| 100 B | Parquet | 0.50 × | 0.50 – 0.50 |  |  |" in section
    assert "| rows/s | eoslog | Kafka |" in section
    assert "| 100 B | 2.00 | 1,234 |" in section
    assert "*Left out: Delta, because it rains.*" in section
    assert "![Batch sink](benchmarks/sink.png)" in section
    assert "`growth`" in section.split("Not measured yet:")[1]


def test_a_target_that_is_missed_stands_out():
    shown = page.page({"sink": made_up(value=1.2)}, MODULES, [], {})
    assert "| **no**, within the spread |" in shown
    assert ".png" not in shown


def test_what_is_unknown_is_left_empty():
    found = Result("cpu", figures=[Figure("x", "eoslog", (math.nan,), "s")], run=RUN)
    assert "| x |  |" in page.page({"cpu": found}, MODULES, [], {})


def test_what_each_release_had_stands_beside_what_is_measured_now(tmp_path):
    releases = tmp_path / "releases.json"
    results.keep_release(releases, "0.1.0", {"sink": made_up(value=1.75)})
    results.keep_release(releases, "0.2.0", {})
    shown = page.page(
        {"sink": made_up(), "cpu": made_up("cpu")}, MODULES, [], results.load_releases(releases)
    )
    head, _, sink_row, cpu_row = shown.split("## Targets\n")[1].split("\n\n")[0].splitlines()
    assert head.endswith("| met | 0.1.0 | 0.2.0 |")
    assert sink_row.endswith("| yes, within the spread | 1.75 × |  |")
    assert cpu_row.endswith("| yes, within the spread |  |  |")


def test_figures_say_how_busy_others_kept_the_machine():
    assert "others kept 0.034 cores busy" in page.page({"sink": made_up()}, MODULES, [], {})


def test_the_page_says_whether_all_is_of_one_commit():
    later = made_up()
    later.run = {**RUN, "commit": "def"}
    assert "All was measured at commit abc." in page.page({"sink": made_up()}, MODULES, [], {})
    shown = page.page({"sink": made_up(), "cpu": later}, MODULES, [], {})
    assert "The workloads were not measured at one commit: at abc `sink`; at def `cpu`." in shown


@pytest.mark.deep
def test_pictures(tmp_path):
    assert plots.draw(made_up(), "Title", tmp_path / "new" / "sink.png")
    first = (tmp_path / "new" / "sink.png").read_bytes()
    assert first.startswith(b"\x89PNG")
    plots.draw(made_up(), "Title", tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes() == first, "the same results give the same file"
    assert not plots.draw(Result("empty"), "Title", tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()


def test_the_page_of_the_repository_is_that_of_its_results():
    folder = ROOT / "docs" / "quality" / "benchmarks"
    found = results.load(folder / "results.json")
    drawn = [path.stem for path in folder.glob("*.png")]
    assert set(drawn) <= set(found) <= set(MODULES)
    releases = results.load_releases(folder / "releases.json")
    assert (ROOT / "docs" / "quality" / "benchmarks.md").read_text(encoding="utf-8") == page.page(
        found, MODULES, drawn, releases
    )


def test_every_workload_can_be_run_and_has_a_text():
    for module in MODULES.values():
        assert module.TITLE
        assert module.TEXT.strip()
        assert callable(module.run)


# -- peers ----------------------------------------------------------------------------------------------


def test_without_maven_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(jars.Missing, match="apt-get install maven"):
        jars.fetch("connectors", jars.CONNECTORS, alone=True)


def test_jars_are_fetched_once_and_again_when_the_list_changes(tmp_path, monkeypatch):
    maven = tmp_path / "mvn"
    asked = tmp_path / "asked"
    maven.write_text(
        "#!/bin/sh\n"
        f'echo x >> "{asked}"\n'
        'for one; do case "$one" in -DoutputDirectory=*) to="${one#*=}";; esac; done\n'
        '/bin/mkdir -p "$to" && : > "$to/a.jar"\n'
    )
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for artifacts, times in ((("g:a:1",), 1), (("g:a:1",), 1), (("g:a:2",), 2)):
        (jar,) = jars.fetch("some", artifacts, alone=True)
        assert jar.name == "a.jar"
        assert len(asked.read_text().split()) == times


# -- a little real work ---------------------------------------------------------------------------------


@pytest.fixture
def bench(tmp_path):
    return Bench(Peers(tmp_path, alone=True), tmp_path, quick=True, repeat=1)


@pytest.fixture
def spark_bench(bench, spark):
    bench.peers.__dict__["spark"] = spark
    limits.register(spark)
    return bench


@pytest.mark.deep
def test_each_workload_has_names_of_its_own_and_leaves_nothing(tmp_path, monkeypatch):
    """Python's workers remember logs by their paths, the broker its topics; a full run once filled the disk."""
    folders, names = [], []

    def run(bench):
        assert not any(folder.exists() for folder in folders)
        folders.append(bench.folder)
        for _ in range(2):
            names.append(bench.fresh("log").name)
            (bench.folder / names[-1]).mkdir()
        with bench.passing("log") as path:
            path.mkdir()
        assert not path.exists()
        if len(folders) == 2:
            raise OSError("full")
        return Result(WORKLOADS[len(folders) - 1])

    for name in WORKLOADS[:3]:
        monkeypatch.setattr(f"benchmarks.workloads.{name}.run", run)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr(machine.Others, "cores", lambda _: 0.0)
    given = ["--folder", tmp_path / "run", "--write", tmp_path / "docs"]
    given += [part for name in WORKLOADS[:3] for part in ("--only", name)]
    monkeypatch.setattr("sys.argv", ["bench", *map(str, given)])
    with pytest.raises(SystemExit, match=f"failed.*: {WORKLOADS[1]}$"):
        main()
    assert len(set(folders)) == 3
    assert len(set(names)) == 6
    assert not any((tmp_path / "run").iterdir())
    assert results.load(tmp_path / "docs" / "benchmarks" / "results.json").keys() == {"limits", "source"}


@pytest.mark.deep
def test_batch_sink_and_source_beside_their_limits(spark_bench):
    bench, spark = spark_bench, spark_bench.peers.spark
    frame = spark.createDataFrame([(b"k", b"v")] * 100, "key binary, value binary")
    found = Result("sink", run=RUN)
    case = sink._compared(bench, "100 rows", frame, partitions=4, warm_up=0)
    sink.ratios(found, case, 0.7)
    case.figures(found, lambda taken: 100 / taken.clock, "rows/s")
    targets = {"no-op": 0.7, "Arrow files": None, "Parquet": None}
    assert {ratio.against: ratio.target for ratio in found.ratios} == targets
    assert {figure.contender for figure in found.figures} == {"eoslog", *targets}
    assert all(value > 0 for figure in found.figures for value in figure.values)
    names = [
        name
        for name, read, there in source.contenders(bench, source.written(bench, frame), typed=False)
        if there and read()
    ]
    limits = ["bare, all columns", "read, not mapped", "read, not mapped, all columns"]
    assert names == ["bare", "eoslog", "eoslog, two columns", *limits, "Parquet"]
    assert set(bench.peers.left_out) == {"Kafka", "Delta"}


def test_a_query_without_spark_copies_everything_once(bench):
    url = str(bench.fresh("log"))
    Log.create(url).ensure_topic("in")
    query = Query(url, bench.fresh("checkpoint"))
    with Producer(url) as producer:
        for seed in range(3):
            producer.send_arrow("in", table(10, 8, seed, keyed=False))
            producer.flush()
            query.micro_batch()
    with Consumer(url) as consumer:
        copies = {}
        for topic in ("in", "out"):
            consumer.assign([TopicPartition(topic, 0)])
            consumer.seek_to_beginning()
            copies[topic] = []
            while len(copies[topic]) < 30:
                copies[topic] += [record.value for record in consumer.poll(timeout_ms=1_000)]
    assert copies["in"] == copies["out"]


@pytest.mark.deep
@pytest.mark.parametrize("delay", [0.0, 0.001])
def test_many_writers(bench, delay):
    found = writers.writers(bench, 2, 0.5, delay)
    assert found.rate > 0
    assert 0 < found.p50 <= found.p99


def test_the_cost_of_publishing(bench):
    found = Result("publish_cost", run=RUN)
    publish_cost.cost(bench, found, "1,000 records", table(1_000, 100, keyed=False))
    contenders = {publish_cost.NOT_SEALED, publish_cost.SEALED, publish_cost.PLAIN}
    assert {figure.contender for figure in found.figures} == contenders
    assert {ratio.against for ratio in found.ratios} == {publish_cost.PLAIN}


@pytest.mark.deep
def test_a_writer_whose_records_are_counted(bench):
    taken = publish_beside._write_beside(bench, publish_beside.ALONE, 0.2, [])
    assert 0 < taken.clock <= 0.2 / publish_beside.ROWS


def test_publishes_of_a_log_that_grows(bench, monkeypatch):
    monkeypatch.setattr(publish_growth, "_PARTS", 1)
    found = Result("publish_growth", run=RUN)
    with (
        closing(publish_growth._Growing(bench)) as old,
        closing(publish_growth._Growing(bench)) as young,
    ):
        publish_growth.growth(bench, found, old, young, 100)
    sizes = [figure.median for figure in found.figures if figure.unit == "kB of the snapshot"]
    assert sizes == sorted(sizes)
    assert all(
        figure.median >= publish_growth.PARTITIONS for figure in found.figures if "files" in figure.unit
    )
    (curve,) = found.curves.values()
    assert [at for at, _ in curve] == list(range(0, 100, publish_growth.EVERY))


def test_backups_of_a_log_that_grows(bench, monkeypatch):
    monkeypatch.setattr(backups, "BACKUPS", 2)
    found = Result("backups", run=RUN)
    increments = backups.growth(bench, found, 5)
    assert len(increments) == 2
    assert all(one.read > 0 and one.written > 0 for one in increments)
    assert {figure.unit for figure in found.figures} == {"requests", "kB", "ms"}


def test_the_page_of_a_long_log(bench, monkeypatch):
    monkeypatch.setattr("benchmarks.long_log.WIDE", 20)
    found = Result("long_page", run=RUN)
    costs = long_page.looked_at(bench, found, 1500)
    assert costs["newest entries"][0] > costs["overview again"][0] == 0
    assert {figure.unit for figure in found.figures} == {"requests", "ms", "MB"}


@pytest.mark.deep("queries", "transactional ids", "groups", "entries")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_large_shape_on_a_small_scale(shape):
    costs = measured(shape, 600)
    assert {*costs} == {"commit", "poll", "plan", "cold open", "snapshot", SNAPSHOT_MB, MEMORY_MB}
    assert all(value > 0 for what, value in costs.items() if what != MEMORY_MB)


@pytest.mark.deep
def test_shapes_are_measured_size_by_size(bench):
    found = Result("shapes", run=RUN)
    shapes.shaped(bench, found, "queries", (2, 4))
    shapes.shaped(bench, found, ROWS, (1, 2))
    assert [(ratio.what, ratio.against) for ratio in found.ratios] == [
        (f"{what}, 4 queries", "2") for what in ("commit", "poll", "plan")
    ]
    assert {figure.unit for figure in found.figures} == {"queries", ROWS}
    assert plots._panels(found) == {"queries": [], ROWS: []}
    assert {*shapes.SIZES} == {*SHAPES, ROWS}


def test_the_point_where_a_curve_bends():
    flat = {
        10: {"commit": 1.0, "open": 1.0},
        100: {"commit": 1.4, "open": 1.6},
        1000: {"commit": 0.9, "open": 9.0},
    }
    assert shapes.bends(flat) == "flat: commit; grows: open from 100 on"
    assert shapes.bends({10: {"plan": 0.0}, 100: {"plan": 0.001}}) == "flat: plan"


@pytest.mark.deep
def test_a_writer_that_is_monitored(bench):
    found = Result("monitored", run=RUN)
    monitored.monitored(bench, found, 0.7, 1)
    assert [ratio.target for ratio in found.ratios] == [0.98, 1.02] * 2
    assert {ratio.against for ratio in found.ratios} == {monitored.ALONE}
    assert all(figure.median > 0 for figure in found.figures)
    assert len(found.figures) == 3


@pytest.mark.deep
@pytest.mark.skipif(sys.platform == "win32", reason="it stops processes, and makes a terminal")
def test_a_writer_whose_log_is_looked_at(bench):
    found = Result("looking", run=RUN)
    looking.looking(bench, found, 0.2, 1, settle_s=0.1)
    assert [ratio.target for ratio in found.ratios] == [0.98, 1.02, None]
    assert {ratio.against for ratio in found.ratios} == {looking.ALONE}
    shown = {(figure.case, figure.unit) for figure in found.figures}
    assert {("the page", "polls/s"), ("the page", "requests/s"), ("metrics", "requests/s")} < shown
    assert len({case for case, unit in shown if unit == "seconds of the processor a minute"}) == 3
    assert all(figure.median > 0 for figure in found.figures if figure.unit == "commits/s")
    assert any("95 % interval" in note for note in found.notes)


def test_bytes_of_a_folder(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "below" / "b").write_bytes(b"678")
    assert bytes_on_disk.size(str(tmp_path)) == 8


# -- the gate -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratios", "slower"),
    [
        ([1.3, 1.3, 1.3, 1.3], True),
        ([1.1, 1.1, 1.1, 1.1], False),
        ([1.4, 1.4, 1.4, 0.9], True),
        ([1.6, 1.6, 0.9, 0.9], False),  # Not in three rounds of four.
        ([0.5, 0.5, 0.5, 0.5], False),
    ],
)
def test_slower_is_more_than_the_tolerance_and_most_of_the_time(ratios, slower):
    for which in ("clock", "processor"):
        base = [{"send": (2.0, 2.0)} for _ in ratios]
        tree = [{"send": (2.0 * one, 2.0) if which == "clock" else (2.0, 2.0 * one)} for one in ratios]
        (verdict,) = gate.judge(base, tree, 0.15)
        assert verdict.slower == slower
        assert getattr(verdict, which) == pytest.approx(ratios)
    lines = gate.table([verdict], "v1")
    assert ("SLOWER" in lines[-1]) == slower


@pytest.mark.deep
def test_the_gate_does_the_work_with_the_tree_it_was_given(tmp_path):
    names = ["read-keyed", "consume"]
    took = gate.run(ROOT, tmp_path / "work", names)
    assert list(took) == names
    assert all(clock > 0 and processor > 0 for clock, processor in took.values())
    assert not (tmp_path / "work").exists()


def test_the_gate_measures_no_other_tree(tmp_path):
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "gate_work.py"),
        str(tmp_path),
        str(tmp_path),
        "open",
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode
    assert f"meant to measure {tmp_path}" in done.stderr


def test_every_page_of_work_does_something(tmp_path):
    from benchmarks.gate_work import PIECES

    for name in ("micro-batches", "send_arrow"):
        place = tmp_path / name
        place.mkdir()
        PIECES[name](place)()
        entries = [path for path in (place / "log" / "_log").iterdir() if path.stat().st_size]
        assert len(entries) > 5, name
    assert json.loads(json.dumps(sorted(PIECES)))


def test_what_others_do_meanwhile_is_seen(monkeypatch):
    ours = os.getpid()
    parents = {1: 0, 2: 0, 10: 1, 20: 2, ours: 10, 40: ours, 50: 40}
    before = dict.fromkeys(parents, 1.0)
    after = {**before, 2: 2.0, 10: 2.0, 20: 2.0, ours: 9.0, 40: 9.0, 50: 9.0, 60: 0.5}
    now, stolen = iter([0.0, 4.0]), iter([7.0, 7.5])
    looks = iter([(parents, before), ({**parents, 60: 10}, after)])
    monkeypatch.setattr(machine, "_adopt_orphans", lambda: None)
    monkeypatch.setattr(machine, "_processes", lambda: next(looks))
    monkeypatch.setattr(machine, "_has_kernel_threads", lambda: True)
    monkeypatch.setattr(machine, "_stolen_seconds", lambda: next(stolen))
    monkeypatch.setattr("benchmarks.machine.time.monotonic", lambda: next(now))
    assert machine.Others().cores() == (1.0 + 0.5 + 0.5) / 4


def test_what_was_measured_on_a_busy_machine_is_not_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.workloads.limits.run", lambda _: Result("limits"))
    monkeypatch.setattr("signal.signal", lambda *_: None)
    given = ["--folder", tmp_path / "run", "--write", tmp_path / "docs", "--only", "limits"]
    monkeypatch.setattr("sys.argv", ["bench", *map(str, given)])
    monkeypatch.setattr(machine.Others, "cores", lambda _: 0.21)
    with pytest.raises(SystemExit, match=r"limits$"):
        main()
    assert "not kept: others kept 0.21 cores busy while limits was measured" in capsys.readouterr().out
    assert not (tmp_path / "docs").exists()
    monkeypatch.setattr(machine.Others, "cores", lambda _: 0.19)
    main()
    assert results.load(tmp_path / "docs" / "benchmarks" / "results.json")["limits"].run["others"] == 0.19


def test_folders_of_a_benchmark_may_lie_anywhere(tmp_path):
    """`machine.spread` is a hint to ext4, and nothing to other file systems."""
    machine.spread(tmp_path)
    machine.spread(tmp_path / "is not there")


def test_ext4_takes_the_hint(tmp_path):
    if machine.place(tmp_path) != "ext4" or not shutil.which("lsattr"):
        pytest.skip("needs temporary folders on ext4, and lsattr")
    machine.spread(tmp_path)
    command = ["lsattr", "-d", str(tmp_path)]
    flags = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[0]
    assert "T" in flags
