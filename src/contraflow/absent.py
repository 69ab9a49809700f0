"""PyTorch's public names that are absent here, with the reason and the remedy; and remarks on some.

Names are PyTorch's without `torch.` before them; a `*` stands for any letters of a name that
PyTorch has: `absent_names.txt` lists those that are absent. `docs/names.md` is the table of all
names, made from this one, and a test holds that each name is there or listed here.
"""

from __future__ import annotations

import functools
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple


class AbsentNames(NamedTuple):
    """Why names are absent, what to do instead, and which they are."""

    reason: str
    remedy: str
    names: str


ABSENT = (
    AbsentNames(
        "there are no complex numbers here.",
        "Keep real and imaginary parts in a last dim of size two.",
        "*complex* *view_as_real* *cdouble *cfloat *chalf polar *imag Tensor.to_complex "
        "dtype.to_complex *Complex* Tensor.conj_physical_ conj_physical_",
    ),
    AbsentNames(
        "the eigenvalues of general matrices are complex, and there are no complex numbers here.",
        "Use linalg.eigh for symmetric matrices.",
        "linalg.eig linalg.eigvals eig Tensor.eig",
    ),
    AbsentNames(
        "there are no Fourier transforms here.",
        "Use NumPy's outside of the graph, or a product with a matrix of sines and cosines.",
        "fft.* *stft *istft backends.cuda.*cuFFT* backends.cuda.cufft*",
    ),
    AbsentNames(
        "there are no sparse tensors here.",
        "Use dense ones with index_add, scatter_add or embedding.",
        "sparse sparse.* sparse_* *_sparse *sparse_* *_sparse_* *coalesce* *indices_copy "
        "*ccol_* *crow_* *col_indices* *row_indices* values_copy Tensor.values Tensor.indices "
        "dsmm hsmm hspmm spmm saddmm *smm *sspaddmm Tensor.dense_dim Tensor.to_dense "
        "optim.SparseAdam nn.functional.sparse_support_notes",
    ),
    AbsentNames(
        "there are no quantised tensors here.",
        "Use float16 or bfloat16, or integers and a scale of your own.",
        "*quant* q_* Tensor.q_* qint* quint* *qscheme *int_repr per_channel_* per_tensor_* "
        "ao.* QInt* QUInt* choose_qparams_optimized fbgemm_* fused_moving_avg_obs_fake_quant "
        "bits* int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7 bit",
    ),
    AbsentNames(
        "there are no unsigned integers of more than 8 bits, and no floats of 8 bits or less.",
        "Use int32 or int64, and float16 or bfloat16.",
        "uint16 uint32 uint64 float8_* float4_* nn.functional.scaled_* "
        "nn.functional.ScalingType nn.functional.SwizzleType nn.functional.grouped_mm",
    ),
    AbsentNames(
        "there are no named, nested or masked tensors here.",
        "Use padded tensors with a mask, or PackedSequence.",
        "nested nested.* masked.* jagged Tensor.name Tensor.to_padded_tensor Tensor.names",
    ),
    AbsentNames(
        "it belongs to TorchScript or to PyTorch's own compiler.",
        "Use contraflow.compile, which captures whole functions.",
        "AliasDb AnyType Argument* AwaitType Benchmark* Block BoolType BufferDict CallStack "
        "Capsule ClassType Code CompilationUnit CompleteArgumentSpec ConcreteModuleType* "
        "DeepCopyMemoTable DeserializationStorageContext DeviceObjType DictType EnumType "
        "ErrorReport ExecutionPlan FileCheck FloatType FunctionSchema FutureType "
        "Gradient Graph GraphExecutorState IODescriptor InferredType IntType InterfaceType "
        "JITException ListType LiteScriptModule LockingLogger LoggerBase ModuleDict Node "
        "NoneType NoopLogger NumberType OperatorInfo OptionalType ParameterDict PyObjectType "
        "PyTorchFile* RRefType Script* SerializationStorageContext StaticModule StreamObjType "
        "StringType Sym* TensorType ThroughputBenchmark TracingState TupleType Type UnionType "
        "Use Value AggregationType AVG SUM fork wait import_ir_module* "
        "merge_type_from_type_comment parse_* unify_type_list sym_* jit.* compiler.* fx.* "
        "export export.* while_loop func.functionalize nn.functional.boolean_dispatch "
        "nn.functional.BroadcastingList* nn.functional.assert_int_or_pair testing.FileCheck "
        "futures.* nn.Module.call_super_init nn.Module.T_destination "
        "nn.Module.dump_patches",
    ),
    AbsentNames(
        "it is a kernel of PyTorch's own core, of cuDNN, MIOpen or oneDNN.",
        "Use the function of nn.functional, or the module of nn.",
        "cudnn_* miopen_* mkldnn_* native_* batch_norm_* grid_sampler* affine_grid_generator "
        "constant_pad_nd conv_tbc nn.functional.conv_tbc convolution gru gru_cell lstm "
        "lstm_cell rnn_* embedding_renorm_ nn.functional.native_channel_shuffle "
        "Tensor.to_mkldnn *slice_inverse hash_tensor Tensor.hash_tensor thread_safe_generator "
        "random.thread_safe_generator alpha_dropout_ dropout_ feature_*dropout_",
    ),
    AbsentNames(
        "it is a copy of what a view shows.",
        "Write the view and .clone(): x.permute(1, 0).clone().",
        "*_copy Tensor.*_copy slice_copy as_strided_scatter Tensor.as_strided_scatter",
    ),
    AbsentNames(
        "it belongs to PyTorch's own classes, their storage or their extension by overrides.",
        "Tensors here are subclassed for parameters alone; x.untyped_storage() shows the memory.",
        "*Storage StorageBase UntypedStorage TypedStorage storage storage.* Tensor.storage_type "
        "nn.functional.TYPE_CHECKING DisableTorchFunction* DispatchKey* Tag "
        "ExcludeDispatchKeyGuard "
        "classproperty overrides.* library.* nn.functional.*torch_function* "
        "Tensor.as_subclass Tensor.module_load return_types types.* PRIVATE_OPS USE_* "
        "get_file_path prepare_multiprocessing_environment compiled_with_cxx11_abi "
        "profiler_allow_* init_num_threads cpp Tensor.const_data_ptr "
        "Tensor.dim_order Tensor.grad_dtype nn.factory_kwargs "
        "nn.functional.*_notes linalg.common_notes "
        "nn.functional.GRID_SAMPLE_* dtype.abbr Generator.*graphsafe* Generator.clone_state "
        "Generator.*offset* from_file optim.swap_in_optimizer_params_and_state "
        "optim.Optimizer.Optimizer*Hook optim.Optimizer.profile_hook_step nn.attention.*flash* "
        "nn.attention.WARN* backends.cuda.SDPAParams backends.cuda.*workspace_size "
        "backends.cuda.cuBLASModule backends.cuda.can_use_* backends.cuda.is_*_available "
        "backends.cuda.preferred_* backends.cuda.*reduction* backends.mps.*",
    ),
    AbsentNames(
        "there is one process and no launcher here yet.",
        "Ask is_available(), which says so, and train in one process.",
        "distributed.* nn.parallel.* multiprocessing.* is_distributed",
    ),
    AbsentNames(
        "the device does not exist here.",
        "The devices are cpu, cuda and webgpu; webgpu serves AMD's, Intel's and Apple's GPUs.",
        "mps.* xpu.* mtia mtia.* *.xpu *.ipu *.mtia Tensor.is_ipu Tensor.is_maia "
        "Tensor.is_mtia is_vulkan_available",
    ),
    AbsentNames(
        "streams, events and graphs of a device are not shown.",
        "Ops are in order; contraflow.compile replays a whole step at once.",
        "cuda* cuda.* accelerator.* cpu.*",
    ),
    AbsentNames(
        "it reads from the network, or exports to another format.",
        "Download the file, and use contraflow.load or `contraflow convert`.",
        "hub.* utils.model_zoo.* onnx.* package package.* serialization.*",
    ),
    AbsentNames(
        "PyTorch has removed or deprecated it.",
        "Use contraflow.linalg (qr, eigh, lstsq, solve, solve_triangular).",
        "symeig Tensor.symeig Tensor.solve Tensor.lstsq Tensor.qr "
        "Tensor.triangular_solve geqrf Tensor.geqrf *orgqr *ormqr Tensor.eig",
    ),
    AbsentNames(
        "PyTorch has removed or deprecated it.",
        "NLLLoss takes images as well.",
        "nn.NLLLoss2d nn.modules.NLLLoss2d",
    ),
    AbsentNames(
        "PyTorch has removed or deprecated it.",
        "Use what took its place: Sequential, LocalResponseNorm, clip_grad_norm_, assert_close, "
        "register_full_backward_hook, autograd.Function, tensors.",
        "nn.Container nn.modules.Container nn.CrossMapLRN2d nn.modules.CrossMapLRN2d "
        "nn.utils.clip_grad_norm testing.assert_allclose nn.Module.register_backward_hook "
        "autograd.function.InplaceFunction autograd.variable Tensor.reinforce Tensor.resize "
        "Tensor.resize_as Tensor.volatile",
    ),
    AbsentNames(
        "it is not there yet.",
        "Write it with ops, or ask for it.",
        "special.* *histogram* *lu *lu_* linalg.ldl_* linalg.*_ex "
        "*lobpcg nonzero_static Tensor.nonzero_static segment_reduce "
        "nn.utils.prune nn.utils.prune.* nn.attention.bias.* nn.attention.flex_attention.* "
        "Tensor.map2_ "
        "utils.checkpoint.* autograd.graph.* autograd.profiler.* profiler.* "
        "utils.data.*DataPipe utils.data.DataChunk testing.make_tensor Tensor.new_empty_strided",
    ),
    AbsentNames(
        "it is a part of PyTorch's own that programs do not use.",
        "See the public functions beside it.",
        "*autocast_* *_autocast* clear_autocast_cache set_anomaly_enabled "
        "is_anomaly_check_nan_enabled monitor monitor.* has_* quantization utils.data.* "
        "utils.dlpack.DLDeviceType utils.hooks.* autograd.NestedIOFunction autograd.function.* "
        "autograd.enforce_grad_layout_policy autograd.set_multithreading_enabled "
        "autograd.forward_ad.*_dual_level func.debug_unwrap func.rearrange "
        "nn.utils.convert_conv* nn.utils.parametrize.* AcceleratorError "
        "FatalError Tensor.index resize_as_sparse_ nn.utils.rnn.PackedSequence.* "
        "nn.ParameterDict.fromkeys nn.MultiheadAttention.merge_masks *_inplace",
    ),
)

# Names that are there and do, or take, something else than PyTorch's; or nothing.
REMARKS = {
    "Tensor.layout": "the shape and strides of a tensor, not a kind of layout",
    "Tensor.storage": "the memory of a tensor, not a method: use `untyped_storage()`",
    "Generator.seed": "the seed, not a method: use `manual_seed`",
    "Generator": "takes a seed, or a device, which has no effect",
    "Tensor.share_memory_": "the tensor itself: processes do not share tensors",
    "nn.Module.share_memory": "the module itself: processes do not share tensors",
    "Tensor.record_stream": "nothing",
    "Tensor.type": "names are PyTorch's: 'torch.FloatTensor'",
    "channels_last": "accepted, no effect: results lie row-major",
    "channels_last_3d": "accepted, no effect: results lie row-major",
    "contiguous_format": "accepted, no effect: results lie row-major",
    "preserve_format": "accepted, no effect: results lie row-major",
    "set_float32_matmul_precision": "products on the cpu are exact to float32 in any case",
    "use_deterministic_algorithms": "kept; results repeat bit for bit in any case",
    "set_deterministic_debug_mode": "kept; results repeat bit for bit in any case",
    "set_flush_denormal": "gives False: it is not done",
    "set_num_interop_threads": "kept, no effect",
    "set_warn_always": "kept, no effect",
    "compile": "`mode`, `fullgraph`, `dynamic`, `backend` and `options` have no effect",
    "nn.DataParallel": "runs where the module lies; several devices are refused",
    "nn.SyncBatchNorm": "one process",
    "nn.attention.sdpa_kernel": "no effect",
    "testing.assert_close": "NaN equals NaN; tolerances are a little wider in float32",
    "jit.script": "the function itself",
    "jit.freeze": "the module itself",
    "jit.fork": "calls at once",
    "distributed.is_available": "False: a group has one process",
    "distributed.init_process_group": "of one process; more are refused",
    "nn.parallel.DistributedDataParallel": "one process",
    "jit.trace": "the function itself",
    "jit.ScriptModule": "has no objects: for annotations and `isinstance`",
    "fx.GraphModule": "has no objects: for annotations and `isinstance`",
    "fx.Node": "has no objects: for annotations and `isinstance`",
    "SymInt": "has no objects: for annotations and `isinstance`",
    "library.Library": "accepted, no effect",
    "library.register_fake": "accepted, no effect",
    "compiler.disable": "the function itself: it is recorded with what calls it",
    "compiler.reset": "no effect: compiled functions notice by themselves what has changed",
    "cuda.manual_seed": "one generator serves all devices",
    "cuda.manual_seed_all": "one generator serves all devices",
    "multiprocessing.spawn": "tensors are copied to processes",
    "serialization.add_safe_globals": "no effect: files never run code",
    "save": "writes safetensors, not pickles",
    "load": "reads safetensors, and PyTorch's files without running code",
    "backends.cudnn.benchmark": "kept, no effect",
    "random.fork_rng": "one generator serves all devices",
    "real": "the tensor itself: numbers are real",
    "conj": "the tensor itself: numbers are real",
    "empty": "zeros",
    "utils.data.DataLoader": "workers are threads, or processes by `worker_type='process'`",
}


def find(path: str) -> AbsentNames | None:
    """Why a name of PyTorch's is absent; None for one that PyTorch does not have either."""
    absent = match(path)
    if absent is None or path in absent.names.split() or path in names_of_pytorch():
        return absent
    return None


def match(path: str) -> AbsentNames | None:
    """Why a name would be absent if PyTorch had it."""
    for absent in ABSENT:
        if any(fnmatchcase(path, pattern) for pattern in absent.names.split()):
            return absent
    return None


@functools.cache
def names_of_pytorch() -> frozenset[str]:
    """The names of PyTorch's, modules among them, that are absent; `make names` lists them."""
    return frozenset(LIST.read_text(encoding="utf-8").split())


LIST = Path(__file__).with_name("absent_names.txt")
