"""Recordings: what each Spark did, without what differs between two times of the same.

A folder for each minor version has what that Spark did otherwise than those before it.
"""

from __future__ import annotations

import json
from pathlib import Path

from spark_eos.spark.version import TRIED
from verification.simulator.spark_calls import Call

__all__ = ["FOLDER", "calls", "difference", "keep", "kept", "normal"]

FOLDER = Path(__file__).parent / "recordings"

POLL = {"initialOffset", "latestOffset", "reportLatestOffset"}
"""What an idle query calls again and again, as often as there is time."""


def normal(notes):
    """The notes of a life cycle in normal form: processes and objects have names, idle looks are told once."""
    lines = [json.loads(line) for line in notes.splitlines()]
    lines = _without_races(_of_the_living([line for line in lines if line.get("call") != "stop"]))
    processes, names = _processes(lines), _names(lines)
    found = []
    for line in lines:
        if "deed" in line:
            found.append({"deed": line["deed"]})
            continue
        made_by = line.get("made_by")
        told = {
            "in": _role(processes[line["pid"]], line),
            "who": line["who"],
            "object": names[line["object"]],
            "of": names.get(made_by, "another life") if made_by else None,
            "call": line["call"],
            "args": line["args"] or None,
            "answer": line.get("answer"),
            "error": line.get("error"),
            "task": line.get("task"),
            "offsets": line["offsets"],
            "commits": line["commits"],
        }
        found.append({name: value for name, value in told.items() if value is not None})
    return _once(found)


def _of_the_living(lines):
    """Python processes may outlive their driver by a moment: what they still do is left out."""
    found, alive = [], True
    for line in lines:
        deed = line.get("deed", "")
        alive = (alive or deed.startswith("a driver starts")) and not deed.startswith("the driver is killed")
        if deed or alive:
            found.append(line)
    return found


def _without_races(lines):
    """Of the two Python processes of one task either may begin first: the source's is told first."""
    found = []
    for line in lines:
        task = line.get("task")
        at = len(found)
        if task and line["who"] != "sink":
            while at and found[at - 1].get("task") == task and found[at - 1]["who"] == "sink":
                at -= 1
        found.insert(at, line)
    return found


def _processes(lines):
    """What is done in each process, by its pid."""
    done = {}
    for line in lines:
        if "pid" in line:
            done.setdefault(line["pid"], set()).add((line["who"], line["call"]))
    return done


def _role(done, line):
    if line.get("task"):
        return "task"
    calls = {call for _, call in done}
    was_killed_early = "reader" in calls and "pickled" not in calls
    if was_killed_early or calls & {"getDefaultReadLimit", "latestOffset", "partitions"}:
        return "reader"
    if ("sink", "unpickled") in done:
        return "committer"
    if "schema" in calls:
        return "look-up"
    return "planner"


def _names(lines):
    names, counts = {}, {}
    for line in lines:
        if "object" in line and line["object"] not in names:
            counts[line["kind"]] = counts.get(line["kind"], 0) + 1
            names[line["object"]] = f"{line['kind']} {counts[line['kind']]}"
    return names


def _once(lines):
    """Looks that find nothing new, told once: a block of looks that is followed by the same again goes."""
    found = []
    for line in lines:
        found.append(line)
        for size in range(1, 7):
            last = found[-size:]
            if found[-2 * size : -size] == last and len(found) >= 2 * size and _looks(last):
                del found[-size:]
                break
    return _whole(found)


def _looks(lines):
    return all(line.get("call") in POLL for line in lines)


def _whole(lines):
    """Without looks that a stop cut short: those before the end of a life that began as the ones before them did."""
    found = []
    for line in lines:
        if line.get("deed", "").startswith("the query") and found:
            for size in range(1, 6):
                tail = found[-size:]
                if not _looks(tail):
                    break
                if any(found[-size - block :][:size] == tail for block in range(size, 7)):
                    del found[-size:]
                    break
        found.append(line)
    return found


def keep(name, version, lines, folder=FOLDER):
    """Keep a recording by this Spark, or that it did what is kept already."""
    minor = ".".join(version.split(".")[:2])
    older, then = kept(minor, folder).get(name, (None, None))
    is_news = then is None or difference(then, lines) is not None
    place, heard = (minor, []) if is_news else (older["folder"], older["spark"])
    heard = [one for one in heard if not one.startswith(f"{minor}.")]
    head = {"cycle": name, "spark": sorted([*heard, version])}
    path = Path(folder, place, f"{name}.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(line) for line in [head, *(lines if is_news else then)]) + "\n")


def kept(spark=TRIED[-1], folder=FOLDER):
    """What is kept of a minor version, by the cycle: the head, with the folder it is in, and the lines."""
    found = {}
    for minor in TRIED[: TRIED.index(spark) + 1]:
        for path in sorted(Path(folder, minor).glob("*.jsonl")):
            head, *lines = map(json.loads, path.read_text().splitlines())
            found[path.stem] = ({**head, "folder": minor}, lines)
    return found


def difference(then, now):
    """Where two recordings begin to differ, for people; None if they are the same.

    Spark plans the sources of a query in any order: each of several is compared for itself, without names of objects.
    """
    sources = sorted({line["who"] for line in then if line.get("who", "sink") != "sink"})
    if len(sources) < 2:
        return _difference(then, now)
    found = (_difference(_of_source(then, who), _of_source(now, who)) for who in sources)
    return next((one for one in found if one), None)


def _of_source(lines, who):
    hidden = {"object", "of", "task", "args", "answer"}
    return [
        {name: value for name, value in line.items() if line["who"] == who or name not in hidden}
        | ({"object": "", "of": "", "task": ""} if line["who"] == who else {})
        for line in lines
        if line.get("who") == who or (line.get("who") == "sink" and "task" not in line)
    ]


def _difference(then, now):
    for number, (old, new) in enumerate(zip([*then, None], [*now, None], strict=False)):
        if old != new:
            before = "\n".join(map(json.dumps, now[max(0, number - 3) : number]))
            was, became = json.dumps(old), json.dumps(new)
            return (
                f"line {number + 1}, after\n{before}\nthe recording has\n{was}\nand Spark now did\n{became}"
            )
    return None


def calls(lines):
    """The lines of a recording as the grammar takes them."""
    for line in lines:
        deed = line.get("deed", "")
        if deed in {"the query has ended", "the query goes on", "the query is stopped"} or deed.startswith(
            ("the query fails", "the driver is killed", "a driver starts")
        ):
            yield Call("", "", _FATES.get(deed.partition(":")[0], "stopped"))
        elif "call" in line:
            failed = "error" in line
            owner = line["who"].removeprefix("source ")
            args = tuple(line.get("args", ()))
            yield Call(
                *(line["in"], owner, line["call"], line["object"], line.get("of"), args, line.get("answer")),
                *(failed, line["offsets"], line["commits"]),
            )


_FATES = {"the query has ended": "the query ends", "the query fails": "the query fails"}
