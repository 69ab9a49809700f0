"""Datasets, samplers and loaders. Nothing here may hang, nor leave a thread or process behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
from collections import Counter, namedtuple
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.datasets import (
    Arrays,
    Dying,
    Failing,
    FailingAwkwardly,
    Noisy,
    Numbers,
    Shares,
    Unpicklable,
    Where,
    fail,
    numbers_of,
    use_float64,
)
from tests.helpers.engine_common import refused

import contraflow as cf
from contraflow.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    get_worker_info,
    random_split,
)
from contraflow.data.datasets import Rows
from contraflow.data.workers import GRACE

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60


def workers() -> list[Any]:
    """The threads and processes of loaders that are alive."""
    threads = [t for t in threading.enumerate() if t.name.startswith("DataLoader")]
    return threads + multiprocessing.active_children()


def left() -> list[Any]:
    """Those that have not ended soon after a loop that nobody waited for the end of."""
    deadline = time.monotonic() + 20
    while workers() and time.monotonic() < deadline:
        time.sleep(0.001)
    return workers()


@pytest.fixture(autouse=True)
def ends_and_cleans_up() -> Iterator[None]:
    """Fail a test that takes too long, or after which workers are left."""

    def fail_late(number: int, frame: Any) -> None:
        raise TimeoutError(f"the test took more than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, fail_late)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    assert left() == []


@pytest.fixture
def impatient(monkeypatch):
    """Processes that do not end by themselves are ended soon."""
    monkeypatch.setattr("contraflow.data.workers.GRACE", 0.3)


@pytest.fixture
def patient(monkeypatch):
    """Workers have longer to end than a test may take: one that does not end by itself fails it."""
    monkeypatch.setattr("contraflow.data.workers.GRACE", 10.0 * SECONDS)


def loader(dataset: Any, num_workers: int = 2, **options: Any) -> DataLoader:
    return DataLoader(dataset, num_workers=num_workers, collate_fn=numbers_of, **options)


THREADS: dict[str, Any] = {"worker_type": "thread"}
SPAWNED: dict[str, Any] = {"worker_type": "process"}
# The common ones: a server that has imported everything starts a process in no time.
PROCESSES: dict[str, Any] = {"worker_type": "process", "multiprocessing_context": "forkserver"}
multiprocessing.set_forkserver_preload(["tests.helpers.datasets"])
both = pytest.mark.parametrize("kind", [THREADS, PROCESSES], ids=["threads", "processes"])


# --- datasets ----------------------------------------------------------------------------------


def test_datasets():
    x = TensorDataset(cf.arange(4), cf.ones(4, 2))
    assert (len(x), x[-1][0].item(), x[1][1].shape) == (4, 3, (2,))
    joined = Numbers(3) + Numbers(2)
    assert isinstance(joined, ConcatDataset)
    assert [joined[i] for i in range(-5, 5)] == [0, 1, 2, 0, 1] * 2
    assert (len(joined), joined.cumulative_sizes) == (5, [3, 5])
    chained = Shares(2) + Shares(1)
    assert isinstance(chained, ChainDataset)
    assert [i for i, _ in chained] == [0, 1, 0]
    assert StackDataset(Numbers(2), "ab")[1] == (1, "b")
    assert StackDataset(i=Numbers(2), c="ab")[1] == {"i": 1, "c": "b"}
    assert list(Subset(Numbers(5), [4, 2])) == [4, 2]
    assert len(Subset(Numbers(5), [4, 2])) == 2


def test_random_split():
    parts = random_split(Numbers(10), [3, 7], generator=cf.Generator(1))
    again = random_split(Numbers(10), [3, 7], generator=cf.Generator(1))
    assert [list(p) for p in parts] == [list(p) for p in again]
    assert sorted([*parts[0], *parts[1]]) == list(range(10))
    assert [len(p) for p in random_split(Numbers(11), [0.5, 0.25, 0.25])] == [6, 3, 2]


WRONG_DATASETS = {
    "getitem": (lambda: Dataset()[0], NotImplementedError,
                "Dataset: __getitem__ is not implemented."),
    "iter": (lambda: iter(IterableDataset()), NotImplementedError,
             "IterableDataset: __iter__ is not implemented."),
    "sampler": (lambda: iter(Sampler()), NotImplementedError,
                "Sampler: __iter__ is not implemented."),
    "tensors": (lambda: TensorDataset(cf.ones(2), cf.ones(3, 1)), ValueError,
                "TensorDataset: (float32[2], float32[3, 1]) are not tensors of the same length."),
    "scalar": (lambda: TensorDataset(cf.ones(())), ValueError,
               "TensorDataset: (float32[]) are not tensors of the same length."),
    "nothing": (lambda: ConcatDataset([]), ValueError, "ConcatDataset: there are no datasets."),
    "stream": (lambda: Numbers(1) + Shares(1), ValueError,
               "ConcatDataset: Shares is an IterableDataset. Use ChainDataset."),
    "no stream": (lambda: Shares(1) + Numbers(1), TypeError,
                  "ChainDataset: Numbers is not an IterableDataset. Use ConcatDataset."),
    "beyond": (lambda: ConcatDataset(["ab"])[2], IndexError,
               "ConcatDataset: index 2 is beyond its 2 samples."),
    "stacked": (lambda: StackDataset("ab", "c"), ValueError,
                "StackDataset: the datasets have different lengths, [2, 1]."),
    "stacked both ways": (lambda: StackDataset("ab", x="cd"), ValueError,
                          "StackDataset: give datasets either in order or by name, and at least "
                          "one."),
    "split": (lambda: random_split("abc", [1, 1]), ValueError,
              "random_split: the lengths [1, 1] must be fractions of 1, or whole numbers that sum "
              "to the 3 samples."),
    "split in parts": (lambda: random_split("abc", [1.5, 1.5]), ValueError,
                       "random_split: the lengths [1.5, 1.5] must be fractions of 1, or whole "
                       "numbers that sum to the 3 samples."),
    "negative split": (lambda: random_split("abc", [4, -1]), ValueError,
                       "random_split: the lengths [4, -1] must be fractions of 1, or whole numbers "
                       "that sum to the 3 samples."),
}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "text"), WRONG_DATASETS.values(), ids=WRONG_DATASETS.keys()
)
def test_wrong_datasets(call, error, text):
    with refused(error, text):
        call()


# --- samplers ----------------------------------------------------------------------------------


def test_samplers():
    cf.manual_seed(0)
    assert list(SequentialSampler("abc")) == [0, 1, 2]
    shuffled = RandomSampler(range(100))
    first, second = list(shuffled), list(shuffled)
    assert first != second
    assert sorted(first) == sorted(second) == list(range(100))
    cf.manual_seed(0)
    assert list(shuffled) == first
    assert list(RandomSampler("ab" * 50, generator=cf.Generator(0))) != first
    assert len(RandomSampler("abc", num_samples=7)) == 7
    assert sorted(RandomSampler("abc", num_samples=6)) == [0, 0, 1, 1, 2, 2]
    assert len(set(RandomSampler("abc", num_samples=2))) == 2
    assert list(RandomSampler("")) == []
    assert sorted(SubsetRandomSampler([4, 9, 2])) == [2, 4, 9]
    batches = BatchSampler(range(5), 2, drop_last=True)
    assert (list(batches), len(batches)) == ([[0, 1], [2, 3]], 2)
    assert len(BatchSampler(range(5), 2, drop_last=False)) == 3


def test_sampling_with_replacement():
    cf.manual_seed(0)
    drawn = Counter(RandomSampler("abcd", replacement=True, num_samples=8000))
    assert all(abs(count - 2000) < 200 for count in drawn.values())  # 5 standard deviations
    weighted = Counter(WeightedRandomSampler([1, 0, 3], 8000))
    assert weighted.keys() == {0, 2}
    assert abs(weighted[0] - 2000) < 200
    assert sorted(WeightedRandomSampler([0.1, 5, 2], 3, replacement=False)) == [0, 1, 2]


WRONG_SAMPLERS = {
    "num_samples": (lambda: RandomSampler("abc", num_samples=0), ValueError,
                    "RandomSampler: num_samples is 0; it must be a positive whole number."),
    "replacement": (lambda: RandomSampler("abc", replacement=1), TypeError,
                    "RandomSampler: replacement is 1; it must be True or False."),
    "weights": (lambda: WeightedRandomSampler([[1.0]], 1), ValueError,
                "WeightedRandomSampler: weights have the shape [1, 1]; they must be a vector."),
    "batch_size": (lambda: BatchSampler([], True, False), ValueError,
                   "BatchSampler: batch_size is True; it must be a positive whole number."),
}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "text"), WRONG_SAMPLERS.values(), ids=WRONG_SAMPLERS.keys()
)
def test_wrong_samplers(call, error, text):
    with refused(error, text):
        call()


# --- batches of samples ------------------------------------------------------------------------

Pair = namedtuple("Pair", "x y")


def test_collate():
    batch = default_collate([{"x": cf.ones(2), "n": 1}, {"x": cf.zeros(2), "n": 2}])
    assert (batch["x"].tolist(), batch["n"].tolist()) == ([[1, 1], [0, 0]], [1, 2])
    assert default_collate([1.5, 2.0]).dtype is cf.float64
    assert default_collate([True, False]).dtype is cf.bool
    assert default_collate([np.ones(2, np.float32)] * 3).shape == (3, 2)
    assert default_collate([np.int16(3), np.int16(4)]).dtype is cf.int16
    assert default_collate([np.float32(1), np.float64(2)]).dtype is cf.float64
    with pytest.raises(ValueError, match=r"stack: float64\[3\] does not fit float64\[2\]"):
        default_collate([np.ones(2), np.ones(3)])
    pair = default_collate([Pair(1, "a"), Pair(2, "b")])
    assert (type(pair), pair.x.tolist(), pair.y) == (Pair, [1, 2], ["a", "b"])
    assert [t.tolist() for t in default_collate([(1, [2, 3]), (4, [5, 6])])[1]] == [[2, 5], [3, 6]]
    converted = default_convert({"a": np.ones(2), "b": ("text", np.float32(1))})
    assert converted["a"].dtype is cf.float64
    assert converted["b"][0] == "text"
    assert converted["b"][1].shape == ()


def test_wrong_samples():
    with refused(
        ValueError,
        "default_collate: the samples have different numbers of parts, [1, 2]. Write a collate_fn.",
    ):
        default_collate([[1], [1, 2]])
    with refused(
        TypeError,
        "default_collate: cannot make a batch of NoneType. It takes tensors, arrays, numbers, ",
        "strings, dicts, lists and tuples; for others write a collate_fn.",
    ):
        default_collate([None])
    with pytest.raises(ValueError, match="stack: "):
        default_collate([cf.ones(2), cf.ones(3)])


# --- loaders without workers -------------------------------------------------------------------


def test_loader():
    x = cf.arange(7)
    data = TensorDataset(x, x.float())
    batches = list(DataLoader(data, batch_size=3))
    assert [b[0].tolist() for b in batches] == [[0, 1, 2], [3, 4, 5], [6]]
    assert batches[0][1].dtype is cf.float32
    assert len(DataLoader(data, 3)) == 3
    assert len(DataLoader(data, 3, drop_last=True)) == 2
    assert list(loader(Numbers(5), 0, batch_sampler=[[4, 0], [1]])) == [[4, 0], [1]]
    assert list(loader(Numbers(4), 0, batch_size=2, sampler=[3, 1, 2])) == [[3, 1], [2]]
    assert [s[0].item() for s in DataLoader(data, batch_size=None)] == x.tolist()
    assert list(DataLoader([])) == []


def test_shuffled_by_the_seed():
    def epochs(**options):
        shuffled = loader(Numbers(50), 0, shuffle=True, batch_size=None, **options)
        return [list(shuffled), list(shuffled)]

    cf.manual_seed(1)
    first, second = epochs()
    assert first != second
    assert sorted(first) == list(range(50))
    cf.manual_seed(1)
    assert epochs() == [first, second]
    assert epochs(generator=cf.Generator(5)) == epochs(generator=cf.Generator(5))


def test_getitems_is_asked_for_whole_batches():
    class Several(Numbers):
        def __getitems__(self, indices):
            return [("several", i) for i in indices]

    assert list(loader(Several(3), 0, batch_size=2))[1] == [("several", 2)]


def test_batches_of_tensors_are_taken_by_one_op_per_tensor():
    data = TensorDataset(cf.arange(10.0).reshape(5, 2), cf.arange(5))
    parts = {
        "all": (data, [4, 0, 2]),
        "subset": (Subset(data, [3, 4, 0, 2]), [1, 2, 3]),
        "subset of a subset": (Subset(Subset(data, [0, 2, 4]), [2, 0, 1]), [0, 1, 2]),
    }
    for name, (part, indices) in parts.items():
        samples = part.__getitems__(indices)
        assert isinstance(samples, Rows), name
        x, y = default_collate(samples)
        assert y.tolist() == [4, 0, 2], name
        assert x.tolist() == [[8, 9], [0, 1], [4, 5]], name
        assert [sample[1].item() for sample in samples] == [4, 0, 2], name
        assert len(samples[:2]) == 2, name
    stacked = StackDataset(x=data, y=list("abcde"))
    assert [sample["y"] for sample in stacked.__getitems__([1, 3])] == ["b", "d"]
    assert next(iter(DataLoader(stacked, 2)))["x"][1].tolist() == [0, 1]
    with pytest.raises(IndexError, match="index 5 is out of range"):
        data.__getitems__([0, 5])
    assert list(DataLoader(TensorDataset(cf.zeros(0, 2)), 2)) == []


def test_a_dataset_needs_samples_and_their_number():
    class Endless(Dataset):
        def __getitem__(self, i):
            return i

    message = "has no {}. A dataset has __getitem__ and __len__, or is an IterableDataset"
    with pytest.raises(TypeError, match="dataset, int, " + message.format("__getitem__")):
        DataLoader(5)
    with pytest.raises(TypeError, match="dataset, Endless, " + message.format("__len__")):
        DataLoader(Endless(), 2)
    assert [x.tolist() for x in DataLoader(Endless(), 2, sampler=[5, 9])] == [[5, 9]]


def test_a_collate_function_gets_a_list_of_samples():
    data = Subset(TensorDataset(cf.arange(4)), [2, 3])
    batches = list(DataLoader(data, 2, collate_fn=lambda batch: batch))
    assert type(batches[0]) is list
    assert [x.item() for (x,) in batches[0]] == [2, 3]


def test_a_subclass_with_its_own_samples_is_asked_for_each():
    class Doubled(TensorDataset):
        def __getitem__(self, index):
            return tuple(2 * x for x in super().__getitem__(index))

    class Last(Subset):
        def __getitem__(self, index):
            return super().__getitem__(-1)

    class Swapped(StackDataset):
        def __getitem__(self, index):
            return super().__getitem__(index)[::-1]

    data = TensorDataset(cf.arange(3))
    assert next(iter(DataLoader(Doubled(cf.arange(3)), 3)))[0].tolist() == [0, 2, 4]
    assert next(iter(DataLoader(Last(data, [0, 1]), 2)))[0].tolist() == [1, 1]
    assert next(iter(DataLoader(Swapped("ab", "cd"), 2))) == [["c", "d"], ["a", "b"]]


@pytest.mark.parametrize("worker_type", ["thread", "process"])
def test_arrays_of_all_kinds_come_from_workers(worker_type):
    options = {"num_workers": 1, "worker_type": worker_type, "collate_fn": Arrays.together}
    (batch,) = DataLoader(Arrays(2), 2, **options)
    expected = Arrays.together([0, 1])
    assert batch.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(np.asarray(batch[name]), np.asarray(value), err_msg=name)
        assert batch[name].dtype == value.dtype, name
    batch["large"].mul_(2.0)
    batch["transposed"][0] = 7
    assert batch["transposed"][0, 0] == 7


def test_a_dataset_that_raises_stop_iteration_does_not_end_the_loop():
    for count, who in ((0, "generator"), (1, "DataLoader: a dataset")):
        with pytest.raises(RuntimeError, match=f"^{who} raised StopIteration"):
            list(loader(Failing(3, 1, StopIteration()), count))


WRONG_LOADERS: dict[str, tuple[dict[str, Any], str]] = {
    "batch_size": ({"batch_size": 0}, "batch_size is 0; it must be a positive whole number."),
    "num_workers": ({"num_workers": -1},
                    "num_workers is -1; it must be a whole number, 0 or more."),
    "timeout": ({"timeout": -1, "num_workers": 1}, "timeout is -1; it must not be negative."),
    "worker_type": ({"worker_type": "fiber"},
                    'worker_type is \'fiber\'; it must be "thread" or "process".'),
    "prefetch": ({"prefetch_factor": 2},
                 "prefetch_factor cannot be given, since there are no workers."),
    "no prefetch": ({"prefetch_factor": 0, "num_workers": 1},
                    "prefetch_factor is 0; it must be a positive whole number."),
    "persistent": ({"persistent_workers": True},
                   "persistent_workers cannot be given, since there are no workers."),
    "shuffle": ({"sampler": [0], "shuffle": True},
                "shuffle cannot be given, since sampler decides the order."),
    "batch_sampler": ({"batch_sampler": [[0]], "batch_size": 2},
                      "batch_size cannot be given, since batch_sampler decides what is in a "
                      "batch."),
    "drop_last": ({"batch_size": None, "drop_last": True},
                  "drop_last cannot be given, since without a batch_size there are no batches."),
    "context": ({"multiprocessing_context": "spawn", "num_workers": 1},
                "multiprocessing_context cannot be given, since worker_type is \"thread\"."),
    "fork": ({"multiprocessing_context": "fork", "num_workers": 1, "worker_type": "process"},
             "multiprocessing_context is 'fork'; it must be 'spawn' or 'forkserver', since a "
             "forked process inherits locks of threads that it lacks."),
    "stream": ({"dataset": Shares(3), "shuffle": True},
               "shuffle cannot be given, since an IterableDataset has its own order."),
}  # fmt: skip


@pytest.mark.parametrize(("options", "text"), WRONG_LOADERS.values(), ids=WRONG_LOADERS.keys())
def test_wrong_loaders(options, text):
    with refused(ValueError, f"DataLoader: {text}"):
        DataLoader(**{"dataset": Numbers(3), **options})


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


def test_the_interpreter_ends_while_workers_of_a_loop_that_is_gone_end():
    lines = script(
        """
        import multiprocessing.util, threading
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
