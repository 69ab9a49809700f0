"""Blocks in which handlers of signals wait."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from contraflow import threads


@pytest.fixture
def seen() -> Iterator[list[int]]:
    """The signals that the program's own handlers were called with."""
    found: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda n, frame: found.append(n)) for number in numbers]
    yield found
    for number, handler in zip(numbers, before):
        signal.signal(number, handler)


def send(number: int) -> None:
    os.kill(os.getpid(), number)
    for _ in range(1000):  # Python looks for signals here
        pass


def made() -> tuple[threads.Undisturbed, Any]:
    lock = threads.recursive_lock()
    return threads.Undisturbed(lock), lock


def test_handlers_are_called_at_the_end_in_the_order_of_the_signals(seen):
    undisturbed, _ = made()
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    with undisturbed:
        with undisturbed:
            send(signal.SIGTERM)
            send(signal.SIGINT)
        assert seen == []
    assert seen == [signal.SIGTERM, signal.SIGINT]
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == handlers
    send(signal.SIGINT)
    assert seen[2:] == [signal.SIGINT]


def test_two_of_them_at_once(seen):
    (one, _), (other, _) = made(), made()
    with one, other:
        send(signal.SIGINT)
        assert seen == []
    assert seen == [signal.SIGINT]


def test_an_interrupt_is_raised_behind_the_block_and_the_lock_is_free():
    undisturbed, lock = made()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    reached = []

    def block() -> None:
        with undisturbed:
            send(signal.SIGINT)
            reached.append(True)

    try:
        with pytest.raises(KeyboardInterrupt):
            block()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert reached == [True]
    free: list[bool] = []
    other = threading.Thread(target=lambda: free.append(lock.acquire(timeout=10)))
    other.start()
    other.join()
    assert free == [True]


def test_an_error_in_the_block_comes_first(seen):
    undisturbed, _ = made()

    def block() -> None:
        with undisturbed:
            send(signal.SIGINT)
            raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        block()
    assert seen == [signal.SIGINT]


def test_other_threads_take_the_lock_only(seen):
    undisturbed, _ = made()
    inside, over = threading.Event(), threading.Event()

    def work() -> None:
        with undisturbed:
            inside.set()
            over.wait(60)

    other = threading.Thread(target=work)
    other.start()
    assert inside.wait(60)
    send(signal.SIGINT)
    assert seen == [signal.SIGINT]
    over.set()
    other.join()


def test_signals_that_the_program_does_not_handle_are_left_alone():
    undisturbed, _ = made()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with undisturbed:
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_that_another_thread_has_forked_has_its_main_thread(seen):
    undisturbed, _ = made()
    status: list[int] = []

    def fork() -> None:
        child = os.fork()
        if not child:
            with undisturbed:
                send(signal.SIGINT)
                early = list(seen)
            os._exit(0 if (early, seen) == ([], [signal.SIGINT]) else 1)
        status.append(os.waitpid(child, 0)[1])

    other = threading.Thread(target=fork)
    other.start()
    other.join()
    assert status == [0]


def test_a_thread_that_was_never_started_is_not_waited_for(monkeypatch):
    """An interrupt may come between noting a task and starting its thread."""
    monkeypatch.setattr(threads, "_STARTING", 0.05)
    task = threads.Task(int, ())
    threads._running.add(task)
    threads._finish()
    assert task not in threads._running


def test_a_thread_that_begins_and_ends_while_it_is_waited_for():
    """The one that waited held the lock by then that it went on to wait for."""
    task = threads.Task(int, ())
    threads._running.add(task)
    late = threading.Timer(0.05, task._run)
    late.start()
    waiting = threading.Thread(target=threads._finish, daemon=True)
    waiting.start()
    waiting.join(60)
    late.join()
    assert not waiting.is_alive()
    assert task.wait() == 0


def test_work_that_has_begun_is_waited_for_at_the_end():
    begun, done = threading.Event(), []

    def work() -> None:
        begun.set()
        threading.Event().wait(0.2)
        done.append(True)

    threads.start(work)
    assert begun.wait(60)
    threads._finish()
    assert done == [True]
