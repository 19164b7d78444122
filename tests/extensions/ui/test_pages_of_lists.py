"""A list that the page asks for page by page: its order is that of the whole list."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_eos import Admin, Log, Producer, TopicPartition
from spark_eos.extensions.ui.question import Question, page
from spark_eos.storage import MemoryStore
from tests.extensions.ui.asking import Asking

ROWS = [{"name": name, "lag": lag} for name, lag in (("b", 9), ("", 3), ("a", None), ("c", 10), ("d", 2))]


@pytest.mark.parametrize(
    ("by", "names"),
    [("lag", ["c", "b", "", "d", "a"]), ("name", ["a", "b", "c", "d", ""]), ("", ["b", "", "a", "c", "d"])],
)
def test_the_order(by, names):
    """As in the browser: what is not known comes last."""

    def asked(**fields):
        answer = page(Question({"sort": by, "count": 2, **fields}), ROWS, dict, ("name", "lag"))
        return [row["name"] for row in answer["rows"]]

    assert asked() + asked(first=2) + asked(first=4) == names
    assert asked(first=9, count=5) == names, "the last page there is"
    assert asked(reverse=True) == names[:-3:-1]


@pytest.fixture
def ask():
    """Partition 0 was busy and is quiet, an open transaction holds back 1 and 2, and 3 is the busiest one."""
    log = Log.create(MemoryStore())
    admin = Admin(log)
    admin.create_topic("a")
    admin.create_topic("t", 4)
    with Producer(log) as producer, Producer(log, {"transactional.id": "x"}) as open_producer:
        producer.send_arrow("t", pa.table({"value": [b"x"] * 9}), 0)
        producer.flush()
        made = Asking(log)
        producer.send_arrow("t", pa.table({"value": [b"x"] * 5}), 3)
        producer.flush()
        admin.delete_records({TopicPartition("t", 3): 1})
        open_producer.init_transactions()
        open_producer.begin_transaction()
        for partition in (1, 2, 2):
            open_producer.send("t", b"x", partition=partition)
        open_producer.flush()
        yield made
        open_producer.abort_transaction()


@pytest.mark.parametrize(
    ("fields", "partitions"),
    [
        ({"only": "held"}, [1, 2]),
        ({"only": "busy"}, [1, 2, 3]),
        ({"sort": "start"}, [3, 0, 1, 2]),
        ({"sort": "end"}, [0, 3, 2, 1]),
        ({"sort": "rate"}, [3, 2, 1, 0]),
        ({"sort": "held"}, [2, 1, 0, 3]),
    ],
)
def test_the_partitions_of_a_topic(ask, fields, partitions):
    answer = ask("topic", topic="t", **fields)
    assert [row["partition"] for row in answer["page_rows"]] == partitions
    assert (answer["offsets"], answer["held"]) == (16, 3)


@pytest.mark.parametrize("by", ["rate", "held"])
def test_the_topics_by_what_goes_on_in_them(ask, by):
    assert [row["name"] for row in ask("topics", sort=by)["rows"]] == ["t", "a"]
