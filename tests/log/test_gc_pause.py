"""The garbage collector waits while very much is made, and goes on as before."""

from __future__ import annotations

import gc
import os
import threading

import pytest

from spark_eos.log.gc_pause import paused


@pytest.fixture(autouse=True)
def collects():
    yield
    assert gc.isenabled()


def test_it_waits_and_goes_on():
    with paused(when=False):
        assert gc.isenabled()
    with paused(when=True):
        assert not gc.isenabled()
        with paused(when=True):
            assert not gc.isenabled()
        assert not gc.isenabled()


def test_it_goes_on_after_an_error():
    with pytest.raises(KeyError), paused(when=True):
        raise KeyError


def test_it_stays_off_if_the_program_has_switched_it_off():
    gc.disable()
    try:
        with paused(when=True):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_blocks_of_threads_overlap():
    begun, end = threading.Event(), threading.Event()

    def hold():
        with paused(when=True):
            begun.set()
            end.wait(30)

    thread = threading.Thread(target=hold)
    with paused(when=True):
        thread.start()
        assert begun.wait(30)
    assert not gc.isenabled(), "the other block has not ended"
    end.set()
    thread.join(30)


def test_a_child_collects_though_a_thread_of_the_parent_had_it_wait():
    begun, end = threading.Event(), threading.Event()

    def hold():
        with paused(when=True):
            begun.set()
            end.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert begun.wait(30)
    child = os.fork()
    if not child:
        with paused(when=True):
            pass
        os._exit(not gc.isenabled())
    end.set()
    thread.join(30)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
