"""The names other projects give PWC-Net's tensors, and ours.

Layouts are recognised by their keys. Every tensor of the network must be there, with its shape,
and nothing else: half a checkpoint would load and give plausible nonsense.

A layout is a table from its names, less `.weight` and `.bias`, to ours.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from os.path import commonprefix

import torch
from torch import Tensor

from pwcflow.errors import WeightsError
from pwcflow.network import DECODER_LEVELS, DENSE_CHANNELS, PYRAMID_CHANNELS, PwcNet

_PREFIXES = re.compile(r"(?:module\.|model\.)*")
_NUMERALS = {1: "One", 2: "Two", 3: "Thr", 4: "Fou", 5: "Fiv", 6: "Six"}
_PYRAMID_LAYERS = (0, 2, 4)
_CONTEXT_LAYERS = (0, 2, 4, 6, 8, 10, 12)
_PARTS = ("weight", "bias")
_UNUSED = {f"deconv2.{part}" for part in _PARTS}
"""NVlabs's network makes this layer after its last level and never calls it."""

Names = Mapping[str, str]


def rename(tensors: Mapping[str, Tensor], source: object) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint under our names, float32, in `PwcNet`'s order.

    Args:
        tensors: a whole checkpoint in any layout known here, perhaps with a prefix on every key.
        source: what to call the checkpoint in an error: its path.

    Raises:
        WeightsError: a key is unknown or missing, a tensor is no dense one of real numbers, a
            shape is wrong, a value is not finite, or the checkpoint is of another network.
    """
    tensors = _without_prefix(tensors)
    names = _recognised(tensors, source)
    expected = expected_shapes()
    renamed = {}
    for key, name in names.items():
        tensor = tensors[key]
        if not _is_plain(tensor):
            raise WeightsError(
                f"{source} is unusable: '{key}' is not a dense tensor of real numbers in memory "
                f"but {tensor.dtype}, {tensor.layout}, on {tensor.device}; save the network's "
                "state_dict again, as float32 on the CPU"
            )
        if tensor.shape != expected[name]:
            raise WeightsError(
                f"{source} does not fit the network: '{key}' is {_shape(tensor.shape)} "
                f"where PWC-Net has {_shape(expected[name])}; use a checkpoint of PWC-Net "
                "with a search range of 4"
            )
        value = tensor.detach().to(torch.float32, copy=True).contiguous()
        if not value.sum().isfinite():  # NaN and inf survive sums
            raise WeightsError(
                f"{source} is unusable: '{key}' holds values that are not finite; get the file "
                "again, or save it before training diverged"
            )
        renamed[name] = value
    return {name: renamed[name] for name in expected}


@cache
def expected_shapes() -> dict[str, torch.Size]:
    """Return the shape of each tensor of `PwcNet`, by our names."""
    with torch.device("meta"):
        return {name: tensor.shape for name, tensor in PwcNet().state_dict().items()}


def _without_prefix(tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Drop what wrapping modules put before every key, such as `module.`, as often as it is."""
    shared = commonprefix(list(tensors))  # noqa: RUF071 - of names, not of paths
    rest = _PREFIXES.sub("", shared, count=1)
    return {key[len(shared) - len(rest) :]: tensor for key, tensor in tensors.items()}


def _is_plain(tensor: Tensor) -> bool:
    """Return whether a tensor is what weights are: floating point, dense, and here."""
    return (
        tensor.is_floating_point()
        and tensor.layout is torch.strided
        and not tensor.is_nested
        and tensor.device.type == "cpu"
    )


def _recognised(keys: Iterable[str], source: object) -> Names:
    """Return the table of the layout whose keys these are, all of them."""
    found = set(keys) - _UNUSED
    names = max(_layouts(), key=lambda names: len(found & names.keys()))
    _refuse_relatives(found, source)
    unknown, missing = sorted(found - names.keys()), sorted(names.keys() - found)
    if unknown and len(missing) > len(names) / 2:
        raise WeightsError(
            f"{source} is of another network: PWC-Net has nothing called {_some(unknown)}; "
            "use a checkpoint of PWC-Net"
        )
    if unknown:
        raise WeightsError(
            f"{source} does not fit the network: it holds {_some(unknown)}, which PWC-Net does "
            "not have; use a checkpoint of PWC-Net alone"
        )
    if missing:
        raise WeightsError(
            f"{source} is not a whole checkpoint: it lacks {_some(missing)}; "
            "use a file that holds all of the network"
        )
    return names


def _refuse_relatives(found: set[str], source: object) -> None:
    """Name the two published variants that look like our network and are not."""
    if "conv1a.0.weight" not in found:
        return
    if not any(key.startswith("conv1aa.") for key in found):
        raise WeightsError(
            f"{source} is of the older PWC-Net (pwc_dc_net_old), a different network with two "
            "convolutions a pyramid level in place of three; use a checkpoint that has 'conv1aa'"
        )
    if not any(key.startswith("dc_conv") for key in found):
        raise WeightsError(
            f"{source} is of PWC-Net without its context network (pwcnet_nodc in ptlflow), "
            "a different network; use a checkpoint that has 'dc_conv1' to 'dc_conv7'"
        )


@cache
def _layouts() -> tuple[Names, ...]:
    return (
        {name: name for name in expected_shapes()},
        _with_parts(_pytorch_pwc_layers("module")),
        _with_parts(_pytorch_pwc_layers("net")),
        _with_parts(_nvlabs_layers()),
    )


def _with_parts(layers: Names) -> Names:
    """Return the table of tensors that belongs to a table of layers."""
    return {f"{their}.{part}": f"{our}.{part}" for their, our in layers.items() for part in _PARTS}


def _pytorch_pwc_layers(word: str) -> Names:
    """Return the layers of sniklaus/pytorch-pwc, whose names start with "module", later "net"."""

    def module(number: int) -> str:
        return word + _NUMERALS[number]

    names = {
        f"{word}Extractor.{module(level)}.{layer}": f"pyramid.levels.{level}.{layer}"
        for level in PYRAMID_CHANNELS
        for layer in _PYRAMID_LAYERS
    }
    names |= _decoder_layers(
        dense=lambda level, number: f"{module(level)}.{module(number + 1)}.0",
        flow_head=lambda level: f"{module(level)}.{module(6)}.0",
        upsample_flow=lambda level: f"{module(level)}.{word}Upflow",
        upsample_feature=lambda level: f"{module(level)}.{word}Upfeat",
    )
    return names | {
        f"{word}Refiner.{word}Main.{layer}": f"context.{layer}" for layer in _CONTEXT_LAYERS
    }


def _nvlabs_layers() -> Names:
    """Return the layers of NVlabs/PWC-Net, which ptlflow keeps.

    What carries flow and features from level l + 1 to l is named after l + 1 there, but belongs to
    the decoder of level l here.
    """
    names = {}
    for level in PYRAMID_CHANNELS:
        letters = ("aa", "a", "b") if level == 6 else ("a", "aa", "b")
        for layer, letter in zip(_PYRAMID_LAYERS, letters, strict=True):
            names[f"conv{level}{letter}.0"] = f"pyramid.levels.{level}.{layer}"
    names |= _decoder_layers(
        dense=lambda level, number: f"conv{level}_{number}.0",
        flow_head=lambda level: f"predict_flow{level}",
        upsample_flow=lambda level: f"deconv{level + 1}",
        upsample_feature=lambda level: f"upfeat{level + 1}",
    )
    *hidden, last = _CONTEXT_LAYERS
    names |= {f"dc_conv{number}.0": f"context.{layer}" for number, layer in enumerate(hidden, 1)}
    return names | {"dc_conv7": f"context.{last}"}


def _decoder_layers(
    *,
    dense: Callable[[int, int], str],
    flow_head: Callable[[int], str],
    upsample_flow: Callable[[int], str],
    upsample_feature: Callable[[int], str],
) -> dict[str, str]:
    """Return the decoders' layers, their names given as functions of our level."""
    names = {}
    for level in DECODER_LEVELS:
        ours = f"decoders.{level}"
        for number in range(len(DENSE_CHANNELS)):
            names[dense(level, number)] = f"{ours}.dense.{number}.0"
        names[flow_head(level)] = f"{ours}.flow_head"
        if level < DECODER_LEVELS[0]:
            names[upsample_flow(level)] = f"{ours}.upsample_flow"
            names[upsample_feature(level)] = f"{ours}.upsample_feature"
    return names


def _some(keys: list[str]) -> str:
    """Return the first keys quoted, and the number of the others."""
    shown = ", ".join(f"'{key}'" for key in keys[:3])
    return shown if len(keys) <= 3 else f"{shown} and {len(keys) - 3} more"


def _shape(shape: torch.Size) -> str:
    return " x ".join(map(str, shape)) or "a single number"
