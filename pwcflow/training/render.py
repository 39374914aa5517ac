"""The renderer: scenes in, batches of training pairs out, on a GPU or a CPU."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pwcflow.cuda_kernels import Kernel, ceil_div, int32, launch, load_kernels
from pwcflow.errors import DeviceError
from pwcflow.training import render_reference
from pwcflow.training.render_reference import Textures
from pwcflow.training.sampling import sample_scenes
from pwcflow.training.scene import LAYER, OPTICS, Scenes, SceneSettings

_KERNELS = ("compose", "blur", "expose", "compress")
_THREADS = 128
_TILE = 8


@dataclass(frozen=True)
class Batch:
    """Training pairs, in buffers that the renderer uses again for the next ones."""

    images: Tensor
    """(2N, 8, H, W), channels-last, the first frames first: blue, green, red in 0..1, and zeros.
    float16 on a GPU, float32 on a CPU."""
    flow: Tensor
    """(N, 2, H, W) float32, pixels, from the first frame to the second."""
    valid: Tensor
    """(N, 1, H, W) float32, the weight of each pixel in the loss."""
    visible: Tensor
    """(N, 1, H, W) float32, 1 where the point is seen in the second frame too."""


class Renderer:
    """Renders the pairs of one training process, the same ones for the same seed, rank and step."""

    def __init__(
        self,
        textures: Textures,
        settings: SceneSettings,
        *,
        batch: int,
        device: torch.device,
        seed: int = 0,
        rank: int = 0,
    ) -> None:
        """Move the textures to the device and set its buffers up.

        Raises:
            DeviceError: the device is a GPU on which our kernels cannot be compiled.
        """
        self._settings, self._batch, self._seed, self._rank = settings, batch, seed, rank
        self._device = device
        self._textures = Textures(textures.photos.to(device), textures.sprites.to(device))
        self._render: Callable[[], Batch] = (
            self._on_gpu() if device.type == "cuda" else self._on_cpu
        )
        self._scenes = self._sample(0)

    def load(self, step: int) -> None:
        """Make the scenes of `step` those that `render` draws.

        On a GPU that is a copy queued on the current stream; a graph of `render` finds them.
        """
        self._scenes = self._sample(step)
        if self._device.type == "cuda":
            for host, device in (
                (self._scenes.layers, self._layers),
                (self._scenes.optics, self._optics),
            ):
                pinned = torch.from_numpy(host.view(np.uint8).reshape(-1)).pin_memory()
                device.copy_(pinned, non_blocking=True)

    def render(self) -> Batch:
        """Draw the scenes loaded; on a GPU the same buffers each time, fit for a CUDA graph."""
        return self._render()

    def _sample(self, step: int) -> Scenes:
        rng = np.random.default_rng((self._seed, self._rank, step))
        photos = self._textures.photos
        return sample_scenes(
            rng,
            self._batch,
            len(photos),
            len(self._textures.sprites),
            (photos.shape[1], photos.shape[2]),
            self._settings,
        )

    def _on_cpu(self) -> Batch:
        s = self._settings
        composed = render_reference.compose(self._scenes, self._textures, s.height, s.width)
        images = render_reference.photograph(composed, self._scenes)
        visible = composed.visible.unsqueeze(1)
        return Batch(images, composed.flow, torch.ones_like(visible), visible)

    def _on_gpu(self) -> Callable[[], Batch]:
        """Return the function that launches the kernels into buffers made here."""
        kernels = load_kernels("pwcflow.training", "render.cu", _KERNELS, self._device.index or 0)
        if kernels is None:
            raise DeviceError(
                "training on a GPU needs the rendering kernels, which could not be compiled; "
                "the warning above says why"
            )
        n, height, width = self._batch, self._settings.height, self._settings.width
        count = n * (1 + self._settings.layers)

        def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.empty(shape, device=self._device, dtype=dtype)

        self._layers = empty(count * LAYER.itemsize, dtype=torch.uint8)
        self._optics = empty(n * OPTICS.itemsize, dtype=torch.uint8)
        frames, blurred = empty(2, n, height, width, 4), empty(2, n, height, width, 4)
        images = empty(2 * n, height, width, 8, dtype=torch.float16).permute(0, 3, 1, 2)
        flow, visible = empty(n, 2, height, width), empty(n, 1, height, width)
        batch = Batch(images, flow, torch.ones_like(visible), visible)
        return lambda: self._draw(kernels, frames, blurred, batch)

    def _draw(
        self, kernels: dict[str, Kernel], frames: Tensor, blurred: Tensor, batch: Batch
    ) -> Batch:
        n, _, height, width = batch.flow.shape
        photos, sprites = self._textures.photos, self._textures.sprites
        size = int32(n, height, width)
        block = (_THREADS, 1, 1)
        pixels = n * height * width
        launch(
            kernels["compose"],
            ceil_div(pixels, _THREADS),
            block,
            (
                self._layers,
                np.int32(1 + self._settings.layers),
                photos,
                *int32(photos.shape[1], photos.shape[2]),
                sprites,
                np.int32(sprites.shape[1]),
                frames,
                batch.flow,
                batch.visible,
                *size,
            ),
        )
        both = ceil_div(2 * pixels, _THREADS)
        launch(kernels["blur"], both, block, (self._optics, frames, batch.flow, blurred, *size))
        launch(kernels["expose"], both, block, (self._optics, blurred, batch.images, *size))
        tiles = 2 * n * ceil_div(height, _TILE) * ceil_div(width, _TILE)
        launch(
            kernels["compress"], tiles, (_TILE * _TILE, 1, 1), (self._optics, batch.images, *size)
        )
        return batch
