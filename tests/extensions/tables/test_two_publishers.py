"""Publishers of one publication that meet: the campaign of scripts/publish-chaos found these."""

from __future__ import annotations

from spark_eos.extensions.tables.publisher import Publisher
from tests.extensions.tables.world import World


def test_what_another_one_begins_before_the_take_over_is_finished_first(tmp_path, monkeypatch):
    """This one has looked and found nothing begun; then the other one begins, and dies."""
    world = World(tmp_path / "log")
    world.tables.create("p", ["events", "orders"])
    world.write()
    look, other = Publisher._is_up_to_date, world.tables.publisher("p")

    def begun_meanwhile(self, publication):
        due = look(self, publication)
        with monkeypatch.context() as patch:
            patch.setattr(Publisher, "_is_up_to_date", look)
            other._take_over()
            other._begin()
            world.write()
        return due

    with monkeypatch.context() as patch:
        patch.setattr(Publisher, "_is_up_to_date", begun_meanwhile)
        done = world.tables.publish("p")
    assert (done.sequence, done.is_new) == (2, True)
    assert world.log.follow().publications["p"].begun is None
    assert world.check() == 4
