"""Datasets, samplers, batches of samples, and loaders without workers."""

from __future__ import annotations

from collections import Counter, namedtuple
from typing import Any

import numpy as np
import pytest
from tests.helpers.datasets import (
    Arrays,
    Failing,
    Numbers,
    Shares,
)
from tests.helpers.engine_common import refused
from tests.helpers.loaders import loader

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
    random_split,
)
from contraflow.data.datasets import Rows

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
    assert default_collate([(1, "a"), (2, "b")])[1] == ("a", "b")  # a tuple, as in PyTorch
    assert default_collate([1.5, 2.0]).dtype is cf.float64
    assert default_collate([True, False]).dtype is cf.bool
    assert default_collate([np.ones(2, np.float32)] * 3).shape == (3, 2)
    assert default_collate([np.int16(3), np.int16(4)]).dtype is cf.int16
    assert default_collate([np.float32(1), np.float64(2)]).dtype is cf.float64
    with pytest.raises(ValueError, match=r"stack: float64\[3\] does not fit float64\[2\]"):
        default_collate([np.ones(2), np.ones(3)])
    pair = default_collate([Pair(1, "a"), Pair(2, "b")])
    assert (type(pair), pair.x.tolist(), pair.y) == (Pair, [1, 2], ("a", "b"))
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
    assert next(iter(DataLoader(Swapped("ab", "cd"), 2))) == [("c", "d"), ("a", "b")]


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
