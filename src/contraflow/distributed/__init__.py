"""Groups of processes, of which each has one here: collectives do what they do in such a group.

Programs that are written for several processes run as one. `is_available` is False, so that those
that can do without a group do; those that make one get a group of one process, and a launcher that
asks for more is refused.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from contraflow import config
from contraflow.names import getter
from contraflow.tensors.tensor import Tensor


class ReduceOp(enum.Enum):
    """How `all_reduce` combines the tensors of processes."""

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"


class Backend(str):
    """The name of what carries messages between processes; there are none to carry."""

    GLOO, MPI, NCCL, UNDEFINED = "gloo", "mpi", "nccl", "undefined"


class ProcessGroup:
    """A group of one process."""

    def rank(self) -> int:
        """The number of this process."""
        return 0

    def size(self) -> int:
        """The number of processes."""
        return 1


class FinishedWork:
    """A collective that is done already: what `async_op=True` gives."""

    def wait(self, timeout: Any = None) -> bool:
        """Return at once."""
        return True

    def is_completed(self) -> bool:
        """Whether it is done."""
        return True


_WORLD = ProcessGroup()
_backend: str | None = None  # of the group, once there is one


class group:
    """The group of all processes, under PyTorch's name."""

    WORLD = _WORLD


def is_available() -> bool:
    """Whether processes can work together: not yet."""
    return False


def is_initialized() -> bool:
    """Whether `init_process_group` has made a group, of one process."""
    return _backend is not None


def is_torchelastic_launched() -> bool:
    """Whether PyTorch's launcher has started this process: never."""
    return False


def is_backend_available(backend: str) -> bool:
    """Whether something can carry messages between processes: nothing can."""
    return False


def is_gloo_available() -> bool:
    """Whether Gloo is there: it is not."""
    return False


def is_mpi_available() -> bool:
    """Whether MPI is there: it is not."""
    return False


def is_nccl_available() -> bool:
    """Whether NCCL is there: it is not."""
    return False


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: Any = None,
    world_size: int = -1, rank: int = -1, store: Any = None, group_name: str = "", **options: Any,
) -> None:  # fmt: skip
    """Make a group of one process. `world_size`, or the variable WORLD_SIZE, may say 1.

    >>> init_process_group("gloo", world_size=1, rank=0)
    >>> get_rank(), get_world_size()
    (0, 1)
    >>> destroy_process_group()
    """
    global _backend
    asked = world_size if world_size > 0 else int(config.read_environment("WORLD_SIZE", "1"))
    if asked != 1:
        raise NotImplementedError(
            f"init_process_group: a group of {asked} processes is asked for, and there is one "
            f"here. Start the program once, without a launcher."
        )
    if rank > 0:
        raise ValueError(f"init_process_group: rank {rank} is not below the world size, 1.")
    if _backend is not None:
        raise RuntimeError("init_process_group: there is a group already.")
    _backend = backend or Backend.GLOO


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Forget the group."""
    global _backend
    _check("destroy_process_group")
    _backend = None


def _check(name: str, *ranks: int | None) -> None:
    """Refuse what needs a group where there is none, or another process."""
    if _backend is None:
        raise ValueError(f"{name}: there is no group. Call init_process_group first.")
    for rank in ranks:
        if rank not in (0, None):
            raise ValueError(f"{name}: there is no process {rank}; the group has one, number 0.")


def _done(async_op: bool) -> FinishedWork | None:
    return FinishedWork() if async_op else None


def get_rank(group: ProcessGroup | None = None) -> int:
    """The number of this process in its group: 0."""
    _check("get_rank")
    return 0


def get_world_size(group: ProcessGroup | None = None) -> int:
    """The number of processes in the group: 1."""
    _check("get_world_size")
    return 1


def get_backend(group: ProcessGroup | None = None) -> str:
    """The name that `init_process_group` was given."""
    _check("get_backend")
    return str(_backend)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The number of a process among all."""
    _check("get_global_rank", group_rank)
    return 0


def get_process_group_ranks(group: ProcessGroup | None = None) -> list[int]:
    """The numbers of the processes in a group."""
    _check("get_process_group_ranks")
    return [0]


def new_group(ranks: Sequence[int] | None = None, **options: Any) -> ProcessGroup:
    """A group of some of the processes."""
    _check("new_group", *(ranks or ()))
    return ProcessGroup()


def barrier(group: ProcessGroup | None = None, async_op: bool = False, **options: Any) -> Any:
    """Wait for the other processes: there are none."""
    _check("barrier")
    return _done(async_op)


def monitored_barrier(group: ProcessGroup | None = None, **options: Any) -> None:
    """Wait for the other processes: there are none."""
    _check("monitored_barrier")


# --- tensors -----------------------------------------------------------------------------------


def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> FinishedWork | None:
    """Combine the tensors of all processes, in place: of one process it stays as it is."""
    _check("all_reduce")
    return _done(async_op)


def reduce(
    tensor: Tensor, dst: int = 0, op: ReduceOp = ReduceOp.SUM, group: Any = None,
    async_op: bool = False,
) -> FinishedWork | None:  # fmt: skip
    """Combine the tensors of all processes for one of them."""
    _check("reduce", dst)
    return _done(async_op)


def broadcast(
    tensor: Tensor, src: int = 0, group: Any = None, async_op: bool = False
) -> FinishedWork | None:
    """Give all processes the tensor of one."""
    _check("broadcast", src)
    return _done(async_op)


def _fill(name: str, into: Sequence[Tensor], given: Sequence[Tensor]) -> None:
    if len(into) != 1 or len(given) != 1:
        raise ValueError(f"{name}: a list has a tensor for each process: one.")
    into[0].detach().copy_(given[0])


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> FinishedWork | None:
    """Give all processes the tensors of all, into a list."""
    _check("all_gather")
    _fill("all_gather", tensor_list, [tensor])
    return _done(async_op)


def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int = 0, group: Any = None,
    async_op: bool = False,
) -> FinishedWork | None:  # fmt: skip
    """Give one process the tensors of all, into a list."""
    _check("gather", dst)
    _fill("gather", gather_list or [], [tensor])
    return _done(async_op)


def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int = 0, group: Any = None,
    async_op: bool = False,
) -> FinishedWork | None:  # fmt: skip
    """Give each process a tensor of a list."""
    _check("scatter", src)
    _fill("scatter", [tensor], scatter_list or [])
    return _done(async_op)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None,
    async_op: bool = False,
) -> FinishedWork | None:  # fmt: skip
    """Combine lists of all processes, and give each process a tensor."""
    _check("reduce_scatter")
    _fill("reduce_scatter", [output], input_list)
    return _done(async_op)


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None,
    async_op: bool = False,
) -> FinishedWork | None:  # fmt: skip
    """Give each process a tensor of each."""
    _check("all_to_all")
    _fill("all_to_all", output_tensor_list, input_tensor_list)
    return _done(async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> FinishedWork | None:
    """Give all processes the tensors of all, one after the other."""
    _check("all_gather_into_tensor")
    output_tensor.detach().copy_(input_tensor.reshape(output_tensor.shape))
    return _done(async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None,
    async_op: bool = False,
) -> FinishedWork | None:  # fmt: skip
    """Combine the tensors of all processes, and give each a part."""
    _check("reduce_scatter_tensor")
    output.detach().copy_(input.reshape(output.shape))
    return _done(async_op)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Any = None, input_split_sizes: Any = None,
    group: Any = None, async_op: bool = False,
) -> FinishedWork | None:  # fmt: skip
    """Give each process a part of each tensor."""
    _check("all_to_all_single")
    output.detach().copy_(input.reshape(output.shape))
    return _done(async_op)


# --- objects -----------------------------------------------------------------------------------


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Give all processes the objects of all, into a list."""
    _check("all_gather_object")
    object_list[0] = obj


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int = 0, group: Any = None
) -> None:
    """Give one process the objects of all, into a list."""
    _check("gather_object", dst)
    if object_gather_list is not None:
        object_gather_list[0] = obj


def broadcast_object_list(
    object_list: list[Any], src: int = 0, group: Any = None, device: Any = None
) -> None:
    """Give all processes the objects of one."""
    _check("broadcast_object_list", src)


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None,
    src: int = 0, group: Any = None,
) -> None:  # fmt: skip
    """Give each process an object of a list."""
    _check("scatter_object_list", src)
    scatter_object_output_list[0] = (scatter_object_input_list or [None])[0]


globals()["__getattr__"] = getter(__name__, "device_mesh", "fsdp", "nn", "rpc", "tensor")
