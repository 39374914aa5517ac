"""Dense optical flow from files: PWC-Net with CUDA kernels, on a GPU or a CPU.

Convention: flow is (H, W, 2) float32 in pixels, from the first image to the second; component 0
points right, component 1 down. Images are RGB.

Names are imported when they are first used, so that `import pwcflow` needs neither torch nor CuPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pwcflow.color import flow_to_color
    from pwcflow.errors import PwcFlowError
    from pwcflow.estimator import EncodedImage, FlowEstimator
    from pwcflow.flow_file import known_pixels, read_flow, write_flow
    from pwcflow.image_file import read_image, write_image
    from pwcflow.ops import cost_volume
    from pwcflow.warp import backward_warp

__version__ = "0.1.0"

__all__ = [
    "EncodedImage",
    "FlowEstimator",
    "PwcFlowError",
    "backward_warp",
    "cost_volume",
    "flow_to_color",
    "known_pixels",
    "read_flow",
    "read_image",
    "write_flow",
    "write_image",
]

_HOMES = {
    "EncodedImage": "pwcflow.estimator",
    "FlowEstimator": "pwcflow.estimator",
    "PwcFlowError": "pwcflow.errors",
    "backward_warp": "pwcflow.warp",
    "cost_volume": "pwcflow.ops",
    "flow_to_color": "pwcflow.color",
    "known_pixels": "pwcflow.flow_file",
    "read_flow": "pwcflow.flow_file",
    "read_image": "pwcflow.image_file",
    "write_flow": "pwcflow.flow_file",
    "write_image": "pwcflow.image_file",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
