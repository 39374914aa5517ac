"""Flow to colours on a GPU, from numpy to numpy, beside the network that may be at work there."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pwcflow.color.code import MIDDLEBURY, ColorCode
from pwcflow.color.painting import DARKENED, checked_scale, flow_to_color, lacking_on_rim
from pwcflow.color.palette import PaletteName
from pwcflow.color.vectors import UNITS_PER_PX
from pwcflow.cuda_kernels import ceil_div, int32, launch, load_kernels
from pwcflow.flow_file import Flow
from pwcflow.flow_file.field import as_flow
from pwcflow.inference.gpu_flow import at_work, downloaded

THREADS = 256
"""Of a block, as in paint.cu."""


class GpuPainter:
    """Paints flows as `pwcflow.flow_to_color` does. Several threads may use it at a time.

    What the GPU cannot paint, without CuPy or for lack of memory, the CPU does.
    """

    def __init__(self, device: torch.device) -> None:
        """Take a CUDA device, on which it gets a stream of its own."""
        self._device = device
        self._rims: dict[tuple[PaletteName, int], Tensor] = {}
        # When a picture is freed, at any time, PyTorch records an event on the stream it came by,
        # which must not be one that a graph is being recorded on. Streams are handed out in turn,
        # but those of each priority apart, and graphs are recorded on the others.
        with at_work(device):
            self._stream = torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]

    def __call__(
        self, flow: Flow, max_magnitude_px: float | None = None, code: ColorCode = MIDDLEBURY
    ) -> npt.NDArray[np.uint8]:
        """Return a flow as a colour image, (H, W, 3) uint8 RGB.

        Arguments and errors are those of `flow_to_color`, and a level differs by 1 at most.
        """
        scale = checked_scale(flow, max_magnitude_px, code)
        try:
            picture = self._painted(flow, scale, code) if flow.size else None
        except torch.OutOfMemoryError:
            picture = None  # the network may need all there is
        return flow_to_color(flow, max_magnitude_px, code) if picture is None else picture

    def _painted(
        self, flow: Flow, scale_px: float, code: ColorCode
    ) -> npt.NDArray[np.uint8] | None:
        """Return the picture of a flow that has a pixel; None where the kernel cannot run."""
        height, width = flow.shape[:2]
        pixels = height * width
        host = _pinned(flow)
        with at_work(self._device), torch.cuda.stream(self._stream):
            index = self._stream.device.index
            kernels = load_kernels("pwcflow.gpu_color", "paint.cu", ("paint_flow",), index)
            if kernels is None:
                return None
            vectors = host.to(self._device, non_blocking=True)
            image = torch.empty((height, width, 3), dtype=torch.uint8, device=self._device)
            rim = self._rim(code)
            launch(
                kernels["paint_flow"],
                ceil_div(pixels, THREADS),
                (THREADS, 1, 1),
                (
                    vectors,
                    rim,
                    image,
                    np.float32(scale_px) * UNITS_PER_PX,
                    np.float32(code.noise_floor_px / scale_px),
                    np.float32(1 / code.gamma),
                    np.float32(code.still[0]),
                    np.float32(DARKENED if code.marks_beyond else 1),
                    *int32(len(rim) - 1, *code.unknown_color),
                    np.int64(pixels),
                ),
            )
            picture = downloaded(image)
            # Who waits leaves the processor to those that read and encode.
            done = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            done.record()
        done.synchronize()
        return np.asarray(picture.numpy(), np.uint8)

    def _rim(self, code: ColorCode) -> Tensor:
        """Return what the colours of the rim lack, (N, 3), on the device."""
        key = code.palette, code.still[0]
        if key not in self._rims:
            lacking = np.ascontiguousarray(lacking_on_rim(*key).T)
            self._rims[key] = torch.from_numpy(lacking).to(self._device)
        return self._rims[key]


def _pinned(flow: Flow) -> Tensor:
    """Return a flow in memory that a GPU reads by itself, as that of its network's flows is."""
    tensor = torch.from_numpy(np.require(as_flow(flow), requirements="W"))
    return tensor if tensor.is_pinned() else tensor.pin_memory()
