"""Loaders with workers. Nothing here may hang, nor leave a thread or process behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
import traceback
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import scripts
from tests.helpers.datasets import (
    Dying,
    Failing,
    FailingAwkwardly,
    Noisy,
    Numbers,
    Shares,
    Unpicklable,
    Where,
    fail,
    use_float64,
)
from tests.helpers.loaders import PROCESSES, SPAWNED, THREADS, both, left, loader, workers

import contraflow as cf
from contraflow.data import (
    DataLoader,
    IterableDataset,
    get_worker_info,
)
from contraflow.data.workers import GRACE

ROOT = Path(__file__).resolve().parents[2]


# --- workers -----------------------------------------------------------------------------------


def noisy(num_workers: int, **options: Any) -> list[Any]:
    """Two shuffled epochs with random numbers, while the loop draws some too."""
    cf.manual_seed(7)
    batches = []
    shuffled = DataLoader(Noisy(11), 3, shuffle=True, num_workers=num_workers, **options)
    for _ in range(2):
        for i, uniform, dropped in shuffled:
            batches.append([i.tolist(), uniform.tolist(), dropped.tolist(), cf.rand(1).item()])
    return batches


def test_any_number_of_threads_gives_the_same():
    expected = noisy(0)
    assert len({str(batch[1]) for batch in expected}) == 8
    for count in (1, 2, 5):
        assert noisy(count) == expected
    assert noisy(2, prefetch_factor=1) == expected
    assert noisy(3, persistent_workers=True) == expected


@pytest.mark.parametrize("kind", [SPAWNED, PROCESSES], ids=["spawn", "forkserver"])
def test_processes_give_the_same(kind):
    assert noisy(2, persistent_workers=True, **kind) == noisy(0)


def test_slow_workers_keep_the_order():
    class Uneven(Numbers):
        def __getitem__(self, i):
            time.sleep(0.02 if i % 3 == 0 else 0.0)
            return i

    assert list(loader(Uneven(12), 3, batch_size=None)) == list(range(12))


@both
def test_streams(kind):
    def numbers(n: int, count: int, **options: Any) -> list[list[int]]:
        cf.manual_seed(3)
        made = loader(Shares(n), count, **options, **(kind if count else {}))
        return [[i for i, _ in batch] for batch in made]

    assert numbers(5, 0, batch_size=2) == [[0, 1], [2, 3], [4]]
    expected = [[0, 2], [1, 3], [4, 6], [5, 7], [8]]
    assert numbers(9, 2, batch_size=2) == expected
    if kind is THREADS:
        assert numbers(9, 2, batch_size=2, drop_last=True) == expected[:-1]
        assert numbers(9, 5, batch_size=2) == [[0, 5], [1, 6], [2, 7], [3, 8], [4]]


def test_streams_repeat_and_know_their_length():
    class Sized(Shares):
        def __len__(self):
            return self.n

    def drawn() -> list[Any]:
        cf.manual_seed(3)
        return list(loader(Sized(7), 2, batch_size=None))

    assert drawn() == drawn()
    assert len({x for _, x in drawn()}) == 7
    assert len(loader(Sized(7), batch_size=3)) == 3
    assert len(loader(Sized(7), batch_size=3, drop_last=True)) == 2
    assert len(loader(Sized(7), batch_size=None)) == 7
    everything = loader(Shares(2, is_shared=False), 3, batch_size=None)
    assert [i for i, _ in everything] == [0, 0, 0, 1, 1, 1]


def test_who_makes_a_batch():
    assert get_worker_info() is None
    assert [worker for _, worker, _, _ in loader(Where(2), 0, batch_size=None)] == [None] * 2
    found = list(loader(Where(6), 3, batch_size=None))
    assert [worker for _, worker, _, _ in found] == [0, 1, 2, 0, 1, 2]
    assert len({thread for *_, thread in found}) == 3
    assert {process for _, _, process, _ in found} == {os.getpid()}


def test_processes_are_started_with_the_settings():
    given = loader(Noisy(2), 1, batch_size=None, worker_init_fn=use_float64, **PROCESSES)
    assert {uniform.dtype for _, uniform, _ in given} == {cf.float64}
    cf.set_default_dtype(cf.float64)
    try:
        given = loader(Noisy(2), 1, batch_size=None, **PROCESSES)
        assert {uniform.dtype for _, uniform, _ in given} == {cf.float64}
    finally:
        cf.set_default_dtype(cf.float32)


def test_no_more_is_made_ahead_than_was_asked():
    asked = []

    class Asked(Numbers):
        def __getitem__(self, i):
            asked.append(i)
            return i

    batches = iter(loader(Asked(100), 2, batch_size=None, prefetch_factor=3))
    next(batches)
    time.sleep(0.1)
    assert sorted(asked) == list(range(7))
    batches.close()


@both
def test_persistent_workers_stay(kind):
    kept = loader(Where(6), 2, batch_size=None, persistent_workers=True, **kind)
    first = [who[2:] for who in kept]
    for _ in kept:
        break
    again = list(kept)
    assert [i for i, *_ in again] == list(range(6))
    assert [who[2:] for who in again] == first
    assert len(set(first)) == 2
    both_at_once = [[a[0], b[0]] for a, b in zip(kept, kept)]
    assert both_at_once == [[i, i] for i in range(6)]
    assert workers()
    del kept
    gc.collect()
    assert left() == []


# --- what goes wrong ---------------------------------------------------------------------------


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


@both
def test_an_error_surfaces_with_its_traceback(kind):
    failing = loader(Failing(9, 4, KeyError("four")), 2, batch_size=2, **kind)
    seen: list[Any] = []
    with pytest.raises(KeyError, match="four") as caught:
        seen.extend(failing)
    assert seen == [[0, 1], [2, 3]]
    text = shown(caught.value)
    assert "datasets.py" in text
    assert "raise self.error" in text
    assert "Raised by DataLoader worker 0 while it made batch 2." in text
    assert left() == []


def test_an_error_that_cannot_be_sent():
    with pytest.raises(RuntimeError, match="Awkward: 1 and 2") as caught:
        list(loader(FailingAwkwardly(2), 1, **PROCESSES))
    assert "raise Awkward(1, 2)" in shown(caught.value)
    with pytest.raises(TypeError, match=r"cannot pickle '_thread\.lock' object"):
        list(loader(Unpicklable(2), 1, **PROCESSES))


@both
def test_an_error_in_worker_init_fn(kind):
    with pytest.raises(KeyError, match="worker 0"):
        list(loader(Numbers(3), 1, worker_init_fn=fail, **kind))


def test_errors_of_samplers_and_of_a_dataset_that_does_not_pickle():
    def sampler():
        yield 0
        raise LookupError("no more")

    with pytest.raises(LookupError, match="no more"):
        list(loader(Numbers(3), 2, sampler=sampler()))
    local = type("Local", (Numbers,), {})(3)
    with pytest.raises(
        TypeError, match="DataLoader: a worker process gets the dataset, collate_fn"
    ):
        list(loader(local, 2, **PROCESSES))


@pytest.mark.parametrize(
    ("kind", "how", "text"),
    [
        (PROCESSES, "kill", r"was ended by signal 9 \(Killed\)"),
        (PROCESSES, "exit", "ended with exit code 3"),
        (SPAWNED, "kill", r"was ended by signal 9 \(Killed\)"),
    ],
    ids=["kill", "exit", "spawn"],
)
@pytest.mark.usefixtures("impatient")
def test_a_dead_process_is_an_error_at_once(kind, how, text):
    """Although the loop waits for the batch of another worker, which will not come for long."""
    begin = time.monotonic()
    match = rf"DataLoader: worker process 1 \(pid \d+\) {text} before it gave batch 3\. It may"
    with pytest.raises(RuntimeError, match=match):
        list(loader(Dying(9, 3, how), 2, batch_size=None, **kind))
    assert time.monotonic() - begin < 20
    assert left() == []


def test_a_process_killed_from_outside():
    batches = iter(loader(Numbers(10_000, 0.001), 2, batch_size=None, **PROCESSES))
    seen = [next(batches) for _ in range(4)]
    os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"was ended by signal 9 \(Killed\)"):
        seen.extend(batches)
    assert seen == list(range(len(seen)))
    assert 4 <= len(seen) < 1000


@both
def test_timeout(kind):
    slow = loader(Numbers(2, 0.5), 1, timeout=0.2, persistent_workers=True, **kind)
    with pytest.raises(RuntimeError, match=r"no batch came within the timeout of 0\.2 seconds\."):
        list(slow)


def interrupted_by_break(batches: DataLoader) -> None:
    for _ in batches:
        break


def interrupted_by_an_error(batches: DataLoader) -> None:
    with pytest.raises(ZeroDivisionError):
        max(1 // 0 for _ in batches)


def interrupted_by_close(batches: DataLoader) -> None:
    iterator = iter(batches)
    next(iterator)
    iterator.close()  # type: ignore[attr-defined]


def interrupted_by_collection(batches: DataLoader) -> None:
    cycle: list[Any] = [iter(batches)]
    cycle.append(cycle)
    next(cycle[0])
    del cycle
    gc.collect()


@pytest.mark.parametrize("seconds", [0.0, 0.01], ids=["quick", "slow"])
@pytest.mark.parametrize(
    "interrupt",
    [
        interrupted_by_break,
        interrupted_by_an_error,
        interrupted_by_close,
        interrupted_by_collection,
    ],
)
@pytest.mark.usefixtures("patient")
def test_nothing_is_left_of_an_interrupted_loop_over_threads(interrupt, seconds):
    interrupt(loader(Numbers(100_000, seconds), 3, batch_size=20))
    assert left() == []


class Slowing(Numbers):
    """The second batch of a hundred would take twice as long as a thread is waited for."""

    def __init__(self, n: int) -> None:
        super().__init__(n, 0.02 * GRACE)
        self.slow = 0  # how many of the slow samples were read

    def __getitem__(self, i):
        if i < 100:
            return i
        self.slow += 1
        return super().__getitem__(i)


class SlowingStream(Slowing, IterableDataset):
    def __iter__(self):
        return map(self.__getitem__, range(self.n))


@pytest.mark.parametrize("dataset", [Slowing(10_000), SlowingStream(10_000)], ids=["map", "stream"])
def test_a_thread_leaves_a_batch_that_nobody_wants(dataset):
    interrupted_by_break(loader(dataset, 1, batch_size=100))
    assert left() == []
    assert dataset.slow < 100


@pytest.mark.parametrize("interrupt", [interrupted_by_break, interrupted_by_collection])
def test_nothing_is_left_of_an_interrupted_loop_over_processes(interrupt):
    interrupt(loader(Numbers(1000), 2, batch_size=2, **PROCESSES))
    assert left() == []


@pytest.mark.usefixtures("impatient")
def test_a_process_that_does_not_end_is_ended():
    batches = iter(loader(Dying(9, 100, ""), 2, sampler=[1, 0, 2, 3], batch_size=None, **PROCESSES))
    assert next(batches) == 1
    begin = time.monotonic()
    batches.close()  # type: ignore[attr-defined]
    assert time.monotonic() - begin < 10
    assert left() == []


def script(text: str, *, kill_after_line: bool = False) -> list[str]:
    """The lines that a program prints; it must end in time."""
    beginning = "import os, time, contraflow as cf\nfrom tests.helpers.datasets import *\n"
    process = subprocess.Popen(
        [sys.executable, "-c", beginning + textwrap.dedent(text)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    lines = [process.stdout.readline()] if kill_after_line else []
    if kill_after_line:
        process.kill()
    rest, _ = process.communicate(timeout=30)
    return [*lines, *rest.splitlines()]


def test_the_interpreter_ends_with_loops_open():
    lines = script(
        """
        loops = [iter(cf.data.DataLoader(Numbers(9), num_workers=2, worker_type=t))
                 for t in ("thread", "process")]
        print([next(loop).item() for loop in loops])
        """
    )
    assert lines == ["[0, 0]"]


LEFT_BEHIND = """
import atexit, threading, time
def workers():
    return [t.name for t in threading.enumerate() if t.name.startswith("DataLoader")]
# Handlers are called in reverse: this one comes behind the library's.
atexit.register(lambda: print(workers()))
import contraflow as cf
class Slow:
    def __len__(self):
        return 9
    def __getitem__(self, i):
        time.sleep(0.2)
        return i
loop = iter(cf.data.DataLoader(Slow(), num_workers=2))
print(next(loop).item(), len(workers()))
del loop
"""


def test_the_interpreter_ends_after_the_workers_of_a_loop_that_is_gone():
    """It would stop them wherever they are, with the locks that they hold."""
    ended = scripts.script(LEFT_BEHIND)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "0 2\n[]\n", "")


def test_the_interpreter_ends_while_workers_of_a_loop_that_is_gone_end():
    lines = script(
        """
        import multiprocessing.util, threading
        from contraflow.data import workers
        workers.GRACE = 0.0  # in which the interpreter waits for them
        def slowly():  # a worker has the time to close its process
            children = multiprocessing.active_children()
            for thread in threading.enumerate():
                if thread.name.startswith("DataLoader"):
                    thread.join(1.0)
            return children
        at_exit = multiprocessing.util._exit_function
        at_exit.__defaults__ = tuple(
            slowly if default is multiprocessing.active_children else default
            for default in at_exit.__defaults__
        )
        loop = iter(cf.data.DataLoader(Numbers(9), num_workers=1, worker_type="process"))
        print(next(loop).item())
        del loop
        """
    )
    assert lines == ["0"]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads Linux's process table")
def test_processes_end_with_the_one_that_has_started_them():
    """Even while their datasets are busy, and even if it was killed."""
    lines = script(
        """
        loop = iter(cf.data.DataLoader(Where(99), None, num_workers=2, worker_type="process"))
        pids = {next(loop)[2] for _ in range(4)}
        slow = iter(cf.data.DataLoader(Dying(9, 99, ""), None, sampler=[1, 0], num_workers=1,
                                       worker_type="process"))
        next(slow)
        import multiprocessing
        print(*(p.pid for p in multiprocessing.active_children()), flush=True)
        time.sleep(60)
        """,
        kill_after_line=True,
    )
    pids = [int(pid) for pid in lines[0].split()]
    assert len(pids) == 3
    deadline = time.monotonic() + 10
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_alive, pids))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [THREADS, SPAWNED, PROCESSES], ids=["threads", "spawn", "server"])
def test_many_interrupted_loops(kind):
    files = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    for i in range(20):
        for number, _ in enumerate(loader(Numbers(100, 0.001), 3, batch_size=4, **kind)):
            if number == i % 7:
                break
        assert left() == []
    if files:
        assert len(os.listdir("/proc/self/fd")) < files + 10
