"""Convolutions that cuDNN has and PyTorch does not hand on, through cuDNN's own C interface.

PyTorch's convolutions read and write whole tensors, and leave bias and LeakyReLU to further
kernels. Those here read from and write into some channels of a channels-last tensor, add bias and
LeakyReLU on the way, and can add a gradient to one that is there: a dense block then needs neither
concatenations nor additions, which take as long as its convolutions.

It is the library that PyTorch brought with it, found in the process; where there is none, or it is
of another generation, `is_available` says so and everything else works without.
"""

import ctypes
import logging
import math
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

LIBRARIES = ("libcudnn.so.9", "cudnn64_9.dll")
MOST_ANSWERS = 8
CANDIDATES = 4
"""Ways to compute a convolution, of those that cuDNN thinks fastest, that are tried out."""
FUSED_CANDIDATES = 3
"""With bias and LeakyReLU: cuDNN compiles those when they are first used, a quarter of a second
each."""
REPEATS = 8
"""Launches that each of them is timed by."""
HOPELESS = 3.0
"""A way that takes so many times as long as another is not timed any further."""
LAUNCH_MS = 0.1
"""What Python may take to launch it."""
WORKSPACE_LIMIT = 256 << 20
ALIGNMENT = 16
"""Bytes: every tensor's memory must begin at a multiple of it."""

# Numbers of cudnn_graph.h, which cuDNN keeps from version to version.
_DATA_TYPES = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 9}
_FLOAT = 0
_CROSS_CORRELATION = 1
_ADD, _RELU = 0, 100
_HEURISTIC_MODES = (3, 2)  # A, then the fallbacks

(
    _POINTWISE, _CONVOLUTION, _ENGINE, _ENGINE_CONFIG, _HEURISTIC, _PLAN, _FORWARD,
    _BACKWARD_FILTER, _BACKWARD_DATA, _POINTWISE_OPERATION, _GRAPH, _VARIANT_PACK, _TENSOR,
) = (0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 15, 16, 17)  # fmt: skip

# Attribute types.
_HANDLE_T, _DATA_TYPE_T, _BOOLEAN_T, _INT64_T, _FLOAT_T, _DOUBLE_T, _POINTER_T = range(7)
_CONVOLUTION_MODE_T, _HEURISTIC_MODE_T, _NOTE_T, _POINTWISE_MODE_T, _DESCRIPTOR_T = 7, 8, 11, 14, 15

_UNREPEATABLE = {4}
_ROUNDING = {0, 1, 2, 5}
"""Tensor cores, which round float32 to TF32; rounding of inputs or sums; and Winograd."""


class CudnnError(RuntimeError):
    """cuDNN refuses what it was asked for."""


@cache
def _library() -> ctypes.CDLL | None:
    """Return the cuDNN of this process's PyTorch, or None."""
    if not torch.cuda.is_available() or torch.version.cuda is None:
        return None
    for name in LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.cudnnGetErrorString.restype = ctypes.c_char_p
        return library
    logger.debug("no cuDNN among %s", ", ".join(LIBRARIES))
    return None


def is_available() -> bool:
    """Return whether the convolutions of this module can be had."""
    return _library() is not None


def _check(status: int) -> None:
    if status:
        library = _library()
        assert library is not None
        raise CudnnError(library.cudnnGetErrorString(status).decode())


class _Descriptor:
    """One of cuDNN's objects; freed with this one, which keeps those it was made of."""

    def __init__(self, kind: int, *parts: "_Descriptor") -> None:
        library = _library()
        assert library is not None, "is_available was not asked"
        self.pointer = ctypes.c_void_p()
        self._library = library
        self._parts = parts
        _check(library.cudnnBackendCreateDescriptor(kind, ctypes.byref(self.pointer)))
        finalizer = weakref.finalize(self, library.cudnnBackendDestroyDescriptor, self.pointer)
        finalizer.atexit = False  # CUDA may be gone by then

    def set(self, attribute: int, kind: int, values: Any) -> None:
        """Set an attribute to a ctypes array."""
        count = ctypes.c_int64(len(values))
        _check(
            self._library.cudnnBackendSetAttribute(
                self.pointer, attribute, kind, count, ctypes.byref(values)
            )
        )

    def set_int64(self, attribute: int, *values: int) -> None:
        self.set(attribute, _INT64_T, (ctypes.c_int64 * len(values))(*values))

    def set_enum(self, attribute: int, kind: int, value: int) -> None:
        self.set(attribute, kind, (ctypes.c_int * 1)(value))

    def set_float(self, attribute: int, value: float) -> None:
        self.set(attribute, _FLOAT_T, (ctypes.c_float * 1)(value))

    def set_double(self, attribute: int, value: float) -> None:
        self.set(attribute, _DOUBLE_T, (ctypes.c_double * 1)(value))

    def set_descriptors(self, attribute: int, *descriptors: "_Descriptor") -> None:
        pointers = [descriptor.pointer for descriptor in descriptors]
        self.set(attribute, _DESCRIPTOR_T, (ctypes.c_void_p * len(pointers))(*pointers))

    def get_int64(self, attribute: int) -> int:
        value, count = ctypes.c_int64(), ctypes.c_int64()
        _check(
            self._library.cudnnBackendGetAttribute(
                self.pointer,
                attribute,
                _INT64_T,
                ctypes.c_int64(1),
                ctypes.byref(count),
                ctypes.byref(value),
            )
        )
        return value.value

    def finalize(self) -> "_Descriptor":
        _check(self._library.cudnnBackendFinalize(self.pointer))
        return self


@dataclass(frozen=True)
class _Layout:
    """What of a tensor a plan depends on."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, tensor: Tensor) -> "_Layout":
        return cls(tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))


@dataclass(frozen=True)
class Geometry:
    """How a convolution's window lies on its input."""

    stride: int = 1
    padding: int = 1
    dilation: int = 1


class Plan:
    """A way to compute one convolution on tensors of given layouts."""

    def __init__(self, device: torch.device, config: _Descriptor, names: Sequence[int]) -> None:
        """Prepare it; raises `CudnnError` where cuDNN cannot."""
        self._context = _context(device)
        self._names = (ctypes.c_int64 * len(names))(*names)
        plan = _Descriptor(_PLAN, config)
        plan.set(400, _HANDLE_T, (ctypes.c_void_p * 1)(self._context.handle))
        plan.set_descriptors(401, config)
        self._plan = plan.finalize()
        self.workspace = plan.get_int64(402)

    def run(self, tensors: Sequence[Tensor]) -> None:
        """Queue it on PyTorch's current stream; the tensors in the order of the plan's names."""
        device = tensors[0].device
        library = _library()
        assert library is not None
        workspace = torch.empty(self.workspace, dtype=torch.uint8, device=device)
        pointers = [tensor.data_ptr() for tensor in tensors]
        pack = _Descriptor(_VARIANT_PACK)
        pack.set(1001, _POINTER_T, (ctypes.c_void_p * len(pointers))(*pointers))
        pack.set(1000, _INT64_T, self._names)
        pack.set(1003, _POINTER_T, (ctypes.c_void_p * 1)(workspace.data_ptr()))
        pack.finalize()
        stream = ctypes.c_void_p(torch.cuda.current_stream(device).cuda_stream)
        handle = self._context.handle
        with self._context.lock, torch.cuda.device(device):
            _check(library.cudnnSetStream(handle, stream))
            _check(library.cudnnBackendExecute(handle, self._plan.pointer, pack.pointer))


@dataclass(frozen=True)
class _Context:
    """cuDNN's context of a device."""

    handle: ctypes.c_void_p
    lock: threading.Lock
    """Held while it has a stream: threads have streams of their own."""


@cache
def _context(device: torch.device) -> _Context:
    """Return the context of a device, kept for the life of the process."""
    library = _library()
    assert library is not None
    handle = ctypes.c_void_p()
    with torch.cuda.device(device):
        _check(library.cudnnCreate(ctypes.byref(handle)))
    return _Context(handle, threading.Lock())


def _tensor(layout: _Layout, name: int, *, virtual: bool = False) -> _Descriptor:
    descriptor = _Descriptor(_TENSOR)
    descriptor.set_enum(901, _DATA_TYPE_T, _DATA_TYPES[layout.dtype])
    descriptor.set_int64(902, *layout.shape)
    descriptor.set_int64(903, *layout.strides)
    descriptor.set_int64(906, name)
    descriptor.set_int64(900, ALIGNMENT)
    if virtual:
        descriptor.set(907, _BOOLEAN_T, (ctypes.c_bool * 1)(True))
    return descriptor.finalize()


def _window(geometry: Geometry) -> _Descriptor:
    descriptor = _Descriptor(_CONVOLUTION)
    descriptor.set_enum(100, _DATA_TYPE_T, _FLOAT)
    descriptor.set_enum(101, _CONVOLUTION_MODE_T, _CROSS_CORRELATION)
    descriptor.set_int64(102, geometry.dilation, geometry.dilation)
    descriptor.set_int64(103, geometry.stride, geometry.stride)
    descriptor.set_int64(104, geometry.padding, geometry.padding)
    descriptor.set_int64(105, geometry.padding, geometry.padding)
    descriptor.set_int64(106, 2)
    return descriptor.finalize()


_X, _W, _Y, _BIAS, _SUM, _RESULT = range(1, 7)
"""Names of the tensors in a graph."""
NAMES = (_X, _W, _Y)


def _forward_operations(
    x: _Layout, weight: _Layout, bias: _Layout | None, y: _Layout, geometry: Geometry, slope: float
) -> list[_Descriptor]:
    wide = _Layout(torch.float32, y.shape, y.strides)
    parts = [_tensor(x, _X), _tensor(weight, _W)]
    parts.append(_tensor(y, _Y) if bias is None else _tensor(wide, _SUM, virtual=True))
    window = _window(geometry)
    convolution = _Descriptor(_FORWARD, *parts, window)
    convolution.set_float(700, 1.0)
    convolution.set_float(701, 0.0)
    for attribute, part in zip((702, 704, 703, 705), (window, *parts), strict=True):
        convolution.set_descriptors(attribute, part)
    operations = [convolution.finalize()]
    if bias is not None:
        added = _tensor(wide, _RESULT, virtual=True)
        operations.append(_pointwise(_ADD, parts[2], added, other=_tensor(bias, _BIAS)))
        operations.append(_pointwise(_RELU, added, _tensor(y, _Y), slope=slope))
    return operations


def _pointwise(
    mode: int,
    x: _Descriptor,
    y: _Descriptor,
    *,
    other: _Descriptor | None = None,
    slope: float | None = None,
) -> _Descriptor:
    rule = _Descriptor(_POINTWISE)
    rule.set_enum(0, _POINTWISE_MODE_T, mode)
    rule.set_enum(1, _DATA_TYPE_T, _FLOAT)
    if slope is not None:
        rule.set_double(3, 0.0)
        rule.set_double(5, slope)
    rule.finalize()
    operation = _Descriptor(_POINTWISE_OPERATION, rule, x, y, *([other] if other else []))
    operation.set_descriptors(750, rule)
    operation.set_descriptors(751, x)
    if other is not None:
        operation.set_descriptors(752, other)
    operation.set_descriptors(753, y)
    return operation.finalize()


def _gradient_operation(
    kind: int, attributes: tuple[int, ...], parts: Sequence[_Descriptor], geometry: Geometry,
    beta: float,
) -> _Descriptor:  # fmt: skip
    window = _window(geometry)
    operation = _Descriptor(kind, window, *parts)
    alpha_name, beta_name, window_name, *names = attributes
    operation.set_float(alpha_name, 1.0)
    operation.set_float(beta_name, beta)
    operation.set_descriptors(window_name, window)
    for attribute, part in zip(names, parts, strict=True):
        operation.set_descriptors(attribute, part)
    return operation.finalize()


def _configurations(device: torch.device, operations: list[_Descriptor]) -> list[_Descriptor]:
    """Return the ways to compute operations, what cuDNN holds fastest first."""
    library = _library()
    assert library is not None
    graph = _Descriptor(_GRAPH, *operations)
    graph.set(800, _HANDLE_T, (ctypes.c_void_p * 1)(_context(device).handle))
    graph.set_descriptors(801, *operations)
    graph.finalize()
    found: list[_Descriptor] = []
    for mode in _HEURISTIC_MODES:
        with suppress(CudnnError):  # one may have no answer where the other has
            found += _answers(graph, mode)
    return found


def _answers(graph: _Descriptor, mode: int) -> list[_Descriptor]:
    library = _library()
    assert library is not None
    heuristic = _Descriptor(_HEURISTIC, graph)
    heuristic.set_descriptors(201, graph)
    heuristic.set_enum(200, _HEURISTIC_MODE_T, mode)
    heuristic.finalize()
    results = [_Descriptor(_ENGINE_CONFIG, heuristic) for _ in range(MOST_ANSWERS)]
    pointers = (ctypes.c_void_p * len(results))(*(result.pointer for result in results))
    count = ctypes.c_int64()
    _check(
        library.cudnnBackendGetAttribute(
            heuristic.pointer,
            202,
            _DESCRIPTOR_T,
            ctypes.c_int64(len(results)),
            ctypes.byref(count),
            ctypes.byref(pointers),
        )
    )
    return results[: count.value]


def _is_exact(config: _Descriptor, dtype: torch.dtype) -> bool:
    """Return whether a way to compute gives the same every time, and keeps float32 as it is."""
    library = _library()
    assert library is not None
    engine = _Descriptor(_ENGINE)
    count = ctypes.c_int64()
    pointer = (ctypes.c_void_p * 1)(engine.pointer)
    one = ctypes.c_int64(1)
    get = library.cudnnBackendGetAttribute
    _check(get(config.pointer, 300, _DESCRIPTOR_T, one, ctypes.byref(count), ctypes.byref(pointer)))
    notes = (ctypes.c_int * 16)()
    room = ctypes.c_int64(len(notes))
    _check(get(engine.pointer, 1303, _NOTE_T, room, ctypes.byref(count), ctypes.byref(notes)))
    refused = _UNREPEATABLE if dtype != torch.float32 else _UNREPEATABLE | _ROUNDING
    return not refused.intersection(notes[: count.value])


def _check_tensors(*tensors: Tensor) -> None:
    """Raise `CudnnError` unless cuDNN is there and may take the tensors."""
    for tensor in tensors:
        if not tensor.is_cuda or not is_available():
            raise CudnnError(f"there is no cuDNN for a tensor on {tensor.device}")
        if tensor.dtype not in _DATA_TYPES or tensor.data_ptr() % ALIGNMENT:
            raise CudnnError(f"cuDNN takes no {tensor.dtype} at {tensor.data_ptr():#x}")


Key = tuple[object, ...]
_plans: dict[Key, Plan | None] = {}


def _plan(
    key: Key,
    most: int,
    operations: Callable[[], list[_Descriptor]],
    names: Sequence[int],
    tensors: Sequence[Tensor],
    scratch: int,
) -> Plan:
    """Return the fastest plan there is, kept for the life of the process.

    Args:
        key: what tells plans apart.
        most: candidates that are tried out.
        operations: makes the graph.
        names: of the tensors in the graph.
        tensors: some that the plan is for.
        scratch: number of the tensor that it writes; another one takes its place for the timing.

    Raises:
        CudnnError: cuDNN cannot compute it, or has not been asked before a capture.
    """
    if key in _plans:
        plan = _plans[key]
    else:
        with torch.cuda.device(tensors[0].device):
            if torch.cuda.is_current_stream_capturing():
                raise CudnnError("a plan must be found before a CUDA graph is captured")
        timed = list(tensors)
        timed[scratch] = _like(tensors[scratch])
        plan = _plans[key] = _fastest(operations(), most, names, timed)
    if plan is None:
        raise CudnnError(f"no way to compute {key}")
    return plan


def _fastest(
    operations: list[_Descriptor], most: int, names: Sequence[int], tensors: Sequence[Tensor]
) -> Plan | None:
    device = tensors[0].device
    dtype = tensors[0].dtype
    best: tuple[float, Plan] | None = None
    tried = 0
    for config in _configurations(device, operations):
        if tried == most:
            break
        try:
            if not _is_exact(config, dtype):
                continue
            plan = Plan(device, config, names)
            if plan.workspace > WORKSPACE_LIMIT:
                continue
            milliseconds = _time(plan, tensors, best[0] if best else math.inf)
        except CudnnError:
            continue
        tried += 1
        if best is None or milliseconds < best[0]:
            best = milliseconds, plan
    return best and best[1]


def _time(plan: Plan, tensors: Sequence[Tensor], best: float) -> float:
    """Return the milliseconds of a plan, or infinity if it is much slower than `best`.

    They are replayed by a graph: Python takes longer to launch most than they run.
    """
    device = tensors[0].device
    before = torch.cuda.current_stream(device)
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(before)
    with torch.cuda.stream(stream):
        plan.run(tensors)  # loads it
        if _elapsed(lambda: plan.run(tensors)) > HOPELESS * best + LAUNCH_MS:
            return math.inf
        graph = torch.cuda.CUDAGraph()
        try:
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                for _ in range(REPEATS):
                    plan.run(tensors)
            finally:
                graph.capture_end()
        except RuntimeError as error:
            raise CudnnError(f"it cannot be captured: {error}") from error
        graph.replay()
        milliseconds = _elapsed(graph.replay) / REPEATS
    before.wait_stream(stream)
    return milliseconds


def _elapsed(work: Callable[[], object]) -> float:
    """Return the milliseconds that the GPU takes for what is queued; waits for it."""
    events: list[Any] = [torch.cuda.Event(enable_timing=True) for _ in range(2)]  # type: ignore[no-untyped-call]
    events[0].record()
    work()
    events[1].record()
    events[1].synchronize()
    milliseconds: float = events[0].elapsed_time(events[1])
    return milliseconds


def _like(tensor: Tensor) -> Tensor:
    return torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )


def convolve(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    out: Tensor,
    geometry: Geometry = Geometry(),
    slope: float = 1.0,
) -> None:
    """Write LeakyReLU of the convolution of `x` plus a bias to `out`; without a bias, neither.

    Args:
        x: (N, C, H, W) on a GPU, float16, bfloat16 or float32; channels-last, or some channels of
            a channels-last tensor, from a multiple of 16 bytes on.
        weight: (K, C, R, S), channels-last.
        bias: (K,) of the same dtype.
        out: (N, K, H', W'), as `x`; may be other channels of the same memory.
        geometry: stride, padding and dilation.
        slope: what negative values are multiplied by.

    Sums are in float32, which is not rounded to TF32.

    Raises:
        CudnnError: cuDNN cannot do it.
    """
    tensors = [x, weight, out] if bias is None else [x, weight, out, bias.view(1, -1, 1, 1)]
    _check_tensors(*tensors)
    names = [_X, _W, _Y, _BIAS][: len(tensors)]
    layouts = [_Layout.of(tensor) for tensor in tensors]
    if bias is not None:  # of its strides only that of the channels counts
        layouts[3] = _Layout(bias.dtype, (1, len(bias), 1, 1), (len(bias), 1, len(bias), len(bias)))
    key = ("forward", x.device, *layouts, geometry, slope)

    def operations() -> list[_Descriptor]:
        added = layouts[3] if bias is not None else None
        return _forward_operations(layouts[0], layouts[1], added, layouts[2], geometry, slope)

    most = CANDIDATES if bias is None else FUSED_CANDIDATES
    _plan(key, most, operations, names, tensors, scratch=2).run(tensors)


def add_input_gradient(
    grad: Tensor, weight: Tensor, target: Tensor, geometry: Geometry = Geometry(), beta: float = 1.0
) -> None:
    """Add to `target` the gradient of a convolution's input.

    Args:
        grad: gradient of the convolution's result, (N, K, H', W'), as `convolve` takes tensors.
        weight: (K, C, R, S), channels-last.
        target: (N, C, H, W), as `grad`.
        geometry: of the convolution.
        beta: what `target` is multiplied by first; at 0 what it holds does not matter.

    Raises:
        CudnnError: cuDNN cannot do it.
    """
    tensors = [target, weight, grad]
    _check_tensors(*tensors)
    layouts = [_Layout.of(tensor) for tensor in tensors]
    key = ("input gradient", grad.device, *layouts, geometry, beta)

    def operations() -> list[_Descriptor]:
        dx, w, dy = (_tensor(layout, name) for layout, name in zip(layouts, NAMES, strict=True))
        attributes = (706, 707, 708, 710, 709, 711)
        return [_gradient_operation(_BACKWARD_DATA, attributes, (dx, w, dy), geometry, beta)]

    _plan(key, CANDIDATES, operations, NAMES, tensors, scratch=0).run(tensors)


def weight_gradient(
    x: Tensor, grad: Tensor, target: Tensor, geometry: Geometry = Geometry()
) -> None:
    """Write the gradient of a convolution's weight to `target`.

    Args:
        x: the convolution's input, (N, C, H, W), as `convolve` takes tensors.
        grad: gradient of its result, (N, K, H', W'), likewise.
        target: (K, C, R, S), channels-last.
        geometry: of the convolution.

    Raises:
        CudnnError: cuDNN cannot do it.
    """
    tensors = [x, target, grad]
    _check_tensors(*tensors)
    layouts = [_Layout.of(tensor) for tensor in tensors]
    key = ("weight gradient", grad.device, *layouts, geometry)

    def operations() -> list[_Descriptor]:
        parts = [_tensor(layout, name) for layout, name in zip(layouts, NAMES, strict=True)]
        attributes = (712, 713, 714, 716, 715, 717)
        return [_gradient_operation(_BACKWARD_FILTER, attributes, parts, geometry, 0.0)]

    _plan(key, CANDIDATES, operations, NAMES, tensors, scratch=1).run(tensors)
