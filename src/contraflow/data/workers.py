"""Workers: threads that make the batches of a loader, each perhaps by a process of its own.

A worker is a thread with a queue of jobs; the batch of a job, or what went wrong, is put into its
order, and the loop is told. A worker with a process hands it each job through a pipe and waits for
the answer, so it learns at once of the process's end. Orders are all that a loop sees.

A thread knows its queue and its work, not the team it belongs to. So a team that nobody holds any
more is garbage, and its workers end like those of one that is closed, but nobody waits for them: a
finalizer in Python would lose an interrupt. For the same reason an order refers to its loop weakly.
One whose loop is gone is not worked on.

The loop waits by a queue that is written in C: an interrupt in the Python code of a condition, or
of a future, would leave its lock taken.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import multiprocessing
import multiprocessing.util  # which registers what it does at exit: after `_close_all`
import os
import pickle
import random
import signal
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from contraflow import config, dtypes, threads
from contraflow.data.collate import default_collate, pinned
from contraflow.data.datasets import IterableDataset, Rows
from contraflow.dtypes import DType
from contraflow.operation.context import Context, changed, state
from contraflow.tensors.generator import Generator, default_generator

GRACE = 2.0  # seconds in which workers may end what they do; then processes are ended by force
_PAUSE = 0.001  # seconds between two looks at whether all have ended
TICK = 0.25  # seconds after which a thread that waits for a process checks that its batch is wanted


class Job(NamedTuple):
    """One batch to be made. `indices` are its samples; of a stream, how many (None: one alone)."""

    epoch: int  # tells one iteration over the loader from the next
    seed: int  # of all random numbers in this epoch
    number: int
    indices: Any
    pins: bool = False  # the batch, in the thread of the worker


class WorkerInfo(NamedTuple):
    """The information that `get_worker_info` gives a worker about itself.

    >>> import contraflow as cf
    >>> class Ids(cf.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter([cf.data.get_worker_info().id])
    >>> sorted(batch.item() for batch in cf.data.DataLoader(Ids(), num_workers=2))
    [0, 1]
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_local = threading.local()


def get_worker_info() -> WorkerInfo | None:
    """Which worker this code runs in, with its `id`, `num_workers`, `seed` and `dataset`.

    None outside of workers.

    >>> get_worker_info() is None
    True
    """
    found: WorkerInfo | None = getattr(_local, "info", None)
    return found


# --- making a batch ----------------------------------------------------------------------------


class _BorrowedGenerator(Context):
    """A context in which draws from the default generator come from another one."""

    def __init__(self, generator: Generator) -> None:
        super().__init__(state().context)
        self.generator = generator

    def draw(self, generator: Any, blocks: int) -> tuple[Any, Any]:
        chosen = self.generator if generator is default_generator else generator
        return self.below.draw(chosen, blocks)


class Abandoned(Exception):
    """The loop that waited for the batch is gone."""


def _somebody() -> Any:
    """Stands for the reference to a loop that is there."""
    return True


class Fetcher:
    """Makes batches of a dataset.

    Each batch has random numbers of its own, which do not depend on the worker that makes it; a
    stream has them for all its batches.
    """

    def __init__(
        self, dataset: Any, collate: Callable[[Any], Any], batched: bool, drop_last: bool
    ) -> None:
        self.dataset, self.collate = dataset, collate
        self.batched, self.drop_last = batched, drop_last
        self.abandoned = False
        self.loop: Callable[[], Any] = _somebody  # the loop that wants the batch; None if gone
        self._epoch = -1
        self._stream: Iterator[Any] = iter(())
        self._drawing: _BorrowedGenerator | None = None

    def __call__(self, job: Job, worker: int = 0) -> list[Any]:
        """The batch in a list, which is empty when the stream has ended."""
        if isinstance(self.dataset, IterableDataset):
            return self._from_stream(job, worker)
        with changed(context=_BorrowedGenerator(Generator(job.seed + job.number))):
            if not self.batched:
                return [self.collate(self.dataset[job.indices])]
            several = getattr(self.dataset, "__getitems__", None)
            if several is not None:
                samples = several(job.indices)
                # Other makers of batches of samples get the list that PyTorch gives.
                together = self.collate is default_collate and isinstance(samples, Rows)
                return [self.collate(samples if together else list(samples))]
            return [self.collate([self._wanted(self.dataset[i]) for i in job.indices])]

    def _wanted(self, sample: Any) -> Any:
        if self.abandoned or self.loop() is None:
            raise Abandoned
        return sample

    def _from_stream(self, job: Job, worker: int) -> list[Any]:
        if job.epoch != self._epoch or self._drawing is None:
            self._epoch, self._drawing = job.epoch, _BorrowedGenerator(Generator(job.seed + worker))
            with changed(context=self._drawing):
                self._stream = iter(self.dataset)
        with changed(context=self._drawing):
            if not self.batched:
                return [self.collate(sample) for sample in itertools.islice(self._stream, 1)]
            samples = [self._wanted(s) for s in itertools.islice(self._stream, job.indices)]
            if not samples or (self.drop_last and len(samples) < job.indices):
                return []
            return [self.collate(samples)]


class Work:
    """The work of a worker thread: how it makes batches."""

    def __call__(self, job: Job, loop: Callable[[], Any] = _somebody) -> list[Any]:
        """The batch in a list, which is empty when the stream has ended.

        Nobody wants it any more when `loop()` is None.
        """
        raise NotImplementedError

    def abandon(self) -> None:
        """Drop the batch that is being made; another thread calls this."""

    def force(self) -> bool:
        """End a job that takes too long, from another thread; whether that was possible."""
        return False

    def finish(self) -> None:
        """There are no more jobs."""


class Duty(Work):
    """Work in the thread itself: a fetcher, and what comes before its first batch."""

    def __init__(
        self, fetcher: Fetcher, id: int, num_workers: int,
        worker_init_fn: Callable[[int], Any] | None,
    ) -> None:  # fmt: skip
        self.fetcher, self.id, self.num_workers = fetcher, id, num_workers
        self.worker_init_fn = worker_init_fn
        self.started = False

    def __call__(self, job: Job, loop: Callable[[], Any] = _somebody) -> list[Any]:
        self.fetcher.loop = loop
        if not self.started:
            seed = job.seed + self.id
            _local.info = WorkerInfo(self.id, self.num_workers, seed, self.fetcher.dataset)
            if self.worker_init_fn is not None:
                self.worker_init_fn(self.id)
            self.started = True
        return self.fetcher(job, self.id)

    def abandon(self) -> None:
        self.fetcher.abandoned = True


# --- processes ---------------------------------------------------------------------------------


class WorkerTraceback(Exception):
    """The cause of an error that was raised in another process: where it was raised."""

    def __str__(self) -> str:
        return f"\n\n{self.args[0]}"


class _Settings(NamedTuple):
    """The settings that a worker process takes over from its parent."""

    num_threads: int
    default_dtype: DType


def _serve(connection: Any, duty: Duty, settings: _Settings) -> None:
    """The main loop of a worker process, until the pipe or its parent process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the loop
    threading.Thread(target=_end_with_parent, daemon=True).start()
    config.set_num_threads(settings.num_threads)
    dtypes.set_default_dtype(settings.default_dtype)
    while True:
        try:
            job: Job = pickle.loads(connection.recv_bytes())
        except EOFError:
            return
        try:
            if not duty.started:
                random.seed(job.seed + duty.id)
                np.random.seed((job.seed + duty.id) % (1 << 32))
            answer = _packed((True, duty(job)))
        except BaseException as error:
            answer = _packed((False, _portable(error)))
        with suppress(BrokenPipeError):
            for part in answer:
                connection.send_bytes(part)


def _packed(answer: Any) -> list[Any]:
    """An answer as messages: the sizes of arrays, the pickle without them, then each array."""
    arrays: list[pickle.PickleBuffer] = []
    content = pickle.dumps(answer, protocol=5, buffer_callback=arrays.append)
    views = [array.raw() for array in arrays]
    filled = [view for view in views if view.nbytes]
    return [pickle.dumps([view.nbytes for view in views]), content, *filled]


def _receive(connection: Any) -> tuple[bytes, list[np.ndarray]]:
    """The answer of a worker process: a pickle, and its arrays in memory of their own."""
    sizes = pickle.loads(connection.recv_bytes())
    content = connection.recv_bytes()
    arrays = [np.empty(size, np.uint8) for size in sizes]
    for array in arrays:
        if array.size:
            connection.recv_bytes_into(array)
    return content, arrays


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _portable(error: BaseException) -> tuple[BaseException, str]:
    """An error that another process can raise, and the text of its traceback."""
    text = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}"), text
    return error, text


class Remote(Work):
    """Work that a process does."""

    def __init__(self, context: Any, duty: Duty, news: News) -> None:
        self.id, self.news = duty.id, news
        self.abandoned = False
        self.connection, theirs = context.Pipe()
        settings = _Settings(config.get_num_threads(), dtypes.get_default_dtype())
        self.process = context.Process(target=_serve, args=(theirs, duty, settings), daemon=True)
        try:
            self.process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            self.connection.close()
            raise TypeError(
                f"DataLoader: a worker process gets the dataset, collate_fn and worker_init_fn by "
                f"pickle, but: {error}. Define them at the top of a module, or use "
                f'worker_type="thread".'
            ) from error
        finally:
            theirs.close()

    def __call__(self, job: Job, loop: Callable[[], Any] = _somebody) -> list[Any]:
        message = pickle.dumps(job)
        try:
            self.connection.send_bytes(message)
            self._await_answer(loop)
            answer, arrays = _receive(self.connection)
        except (EOFError, OSError):
            error = self._death(job)
            self.news.fail(error)
            raise error from None
        succeeded, content = pickle.loads(answer, buffers=arrays)
        if not succeeded:
            error, text = content
            raise error from WorkerTraceback(text)
        batches: list[Any] = content
        return batches

    def _await_answer(self, loop: Callable[[], Any]) -> None:
        """Wait for the answer; end the process rather than wait long for an unwanted one."""
        deadline = None
        while not self.connection.poll(TICK):
            if deadline is None and (self.abandoned or loop() is None):
                deadline = time.monotonic() + GRACE
            if deadline is not None and time.monotonic() > deadline:
                self.force()

    def abandon(self) -> None:
        self.abandoned = True

    def _death(self, job: Job) -> RuntimeError:
        self.process.join(GRACE)
        code = self.process.exitcode
        if code is not None and code < 0:
            how = f"was ended by signal {-code} ({signal.strsignal(-code)})"
        else:
            how = f"ended with exit code {code}"
        return RuntimeError(
            f"DataLoader: worker process {self.id} (pid {self.process.pid}) {how} before it gave "
            f"batch {job.number}. It may have run out of memory; and a script that starts "
            f'processes needs `if __name__ == "__main__":`.'
        )

    def force(self) -> bool:
        with suppress(ValueError):  # it has just been closed
            self.process.kill()
        return True

    def finish(self) -> None:
        self.connection.close()  # which ends a process that waits for a job
        for end in (self.process.terminate, self.process.kill):
            self.process.join(GRACE)
            if self.process.exitcode is None:
                end()
        self.process.join()
        with _closing:
            self.process.close()


# --- threads -----------------------------------------------------------------------------------


class News:
    """The messages of workers to their loop."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[None] = SimpleQueue()  # an entry for every order that was done
        self.failure: BaseException | None = None  # if the team is of no use any more

    def fail(self, error: BaseException) -> None:
        """Mark the team as failed; the first error counts."""
        self.failure = self.failure or error
        self.queue.put(None)


class Order:
    """A batch that a loop has asked a worker for."""

    __slots__ = ("job", "loop", "done", "_batches", "_error")

    def __init__(self, job: Job, loop: Callable[[], Any]) -> None:
        self.job, self.loop = job, loop
        self.done = False
        self._batches: list[Any] = []
        self._error: BaseException | None = None

    def do(self, work: Work) -> None:
        """Make the batch, or keep what goes wrong."""
        try:
            batches = work(self.job, self.loop)
            self._batches = [pinned(batch) for batch in batches] if self.job.pins else batches
        except BaseException as error:
            name = threading.current_thread().name
            error.add_note(f"Raised by {name} while it made batch {self.job.number}.")
            self._error = error
        self.done = True

    def result(self) -> list[Any]:
        """The batch that was made, given once."""
        if self._error is not None:
            raise self._error
        batches, self._batches = self._batches, []
        return batches


class _WorkerThread(threading.Thread):
    """A thread that can be told from those of others."""


class Worker:
    """A thread that does jobs one after the other."""

    def __init__(self, number: int, work: Work, news: News, team: Team) -> None:
        self.work = work
        self.orders: SimpleQueue[Order | Any] = SimpleQueue()
        self.thread = _WorkerThread(
            target=_do_jobs,
            args=(self.orders, work, news),
            daemon=True,
            name=f"DataLoader worker {number}",
        )
        # In C: the queue gets the reference itself when the team is gone, which is not an order.
        self.told = weakref.ref(team, self.orders.put)
        self.thread.start()

    def submit(self, job: Job, loop: Callable[[], Any]) -> Order:
        """Order a batch."""
        order = Order(job, loop)
        self.orders.put(order)
        return order

    def join(self, seconds: float) -> None:
        """Wait for the thread to end."""
        if self.thread is not threading.current_thread():  # garbage is collected in any thread
            self.thread.join(max(0.0, seconds))


def _do_jobs(orders: SimpleQueue[Order | Any], work: Work, news: News) -> None:
    while isinstance(order := orders.get(), Order):
        if order.loop() is not None:
            order.do(work)
            news.queue.put(None)
        del order  # while it waits it keeps nothing alive
    work.finish()


class Team:
    """The workers of a loader."""

    def __init__(self, duties: Sequence[Duty], context: Any = None) -> None:
        """With a multiprocessing context each worker has a process."""
        self.news = News()
        self.workers: list[Worker] = []
        # In a thread that no interrupt reaches: a worker that is half started would hang. Not by
        # `run`: the code that pickles a dataset may itself wait for work that is done there.
        threads.start(self._start, duties, context).wait()

    def _start(self, duties: Sequence[Duty], context: Any) -> None:
        key = id(self)
        _open[key] = self.workers, weakref.ref(self, functools.partial(_open.pop, key))
        try:
            for duty in duties:
                work = duty if context is None else Remote(context, duty, self.news)
                self.workers.append(Worker(duty.id, work, self.news, self))
        except BaseException:
            self.close()
            raise

    def result(self, order: Order, timeout: float) -> list[Any]:
        """The result of an order, or an error if a process dies or time runs out before."""
        news, deadline = self.news, time.monotonic() + timeout
        while not news.queue.empty():
            news.queue.get_nowait()
        while not order.done and news.failure is None:
            left = max(0.0, deadline - time.monotonic()) if timeout else None
            try:
                news.queue.get(timeout=left)
            except Empty:
                late = f"DataLoader: no batch came within the timeout of {timeout} seconds."
                news.fail(RuntimeError(late))
        if order.done:
            return order.result()
        assert news.failure is not None
        raise news.failure

    def close(self) -> None:
        """End the threads and processes, and wait for that."""
        if _open.pop(id(self), None) is not None:
            _close(self.workers)


# The workers of teams that are neither closed nor gone, by the ids of these.
_open: dict[int, tuple[list[Worker], weakref.ref[Team]]] = {}


_closing = threads.lock()  # held while a process is closed


@atexit.register
def _close_all() -> None:
    deadline = time.monotonic() + GRACE
    while _open:
        _close(_open.popitem()[1][0])
    # Workers of teams that are gone may still be ending. The interpreter stops a thread wherever it
    # is, with the locks that it holds.
    while time.monotonic() < deadline and any(map(_is_worker, threading.enumerate())):
        time.sleep(_PAUSE)
    # Then multiprocessing waits for processes that it finds: they must not be closed any more.
    _closing.acquire()


def _is_worker(thread: threading.Thread) -> bool:
    return isinstance(thread, _WorkerThread)


def _close(workers: list[Worker]) -> None:
    """End the threads and processes of a team whose batches are no longer wanted."""
    deadline = time.monotonic() + GRACE
    for worker in workers:
        worker.orders.put(None)
        worker.work.abandon()
    for worker in workers:
        worker.join(deadline - time.monotonic())
    for worker in workers:
        if worker.thread.is_alive() and worker.work.force():
            worker.join(GRACE)
