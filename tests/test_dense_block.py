"""A decoder's dense block on a GPU is the plain one: same features, same gradients."""

import pytest
import torch

from pwcflow import dense_block
from pwcflow.aligned import AlignedPwcNet
from pwcflow.cudnn import exact_convolutions
from pwcflow.network import DENSE_CHANNELS, PYRAMID_CHANNELS

from .features import relative_error

# ‖error‖ / ‖expected‖, where the expected is in double.
TOLERANCES = {torch.float16: 1e-2, torch.bfloat16: 5e-2}
LEVELS = [6, 4, 2]
"""Without a coarser one, and with one: the most features, and the fewest."""
N, H, W = 2, 8, 12
DENSE = sum(DENSE_CHANNELS)

gpu = pytest.mark.gpu
dtypes = pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
levels = pytest.mark.parametrize("level", LEVELS)


def noise(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def decoder_of(level):
    """Return a decoder in double whose convolutions give nothing near the kink of LeakyReLU.

    There a rounding would change a gradient by a factor of ten. Small weights and biases of 1 and
    -1 keep away from it.
    """
    torch.manual_seed(0)
    decoder = AlignedPwcNet().decoders[str(level)].double()
    with torch.no_grad():
        for convolution, _ in decoder.dense:
            convolution.weight *= 0.3
            convolution.bias.copy_(noise(convolution.bias.shape, 1).sign())
    return decoder


def inputs_of(level):
    """Return first and second features, and flow and feature of a coarser level if there is one.

    Of eighths from -1 to 1, whose sums of products are exact in float32 already: each value of the
    cost volume has the same sign in every dtype.
    """
    shape = (N, PYRAMID_CHANNELS[level], H, W)
    features = [(noise(shape, seed) * 4).round().clamp(-8, 8) / 8 for seed in (2, 3)]
    coarser = [noise((N, 2, H, W), seed) for seed in (4, 5)] if level < 6 else []
    return [*(f.contiguous(memory_format=torch.channels_last) for f in features), *coarser]


def block(decoder, inputs):
    first, second, *coarser = inputs
    return decoder._block(first, second, tuple(coarser) or None)


def differentiated(decoder, inputs, grad):
    """Return the block's features and the gradients by the name of what they are of."""
    parameters = dict(decoder.dense.named_parameters())
    inputs = [tensor.detach().requires_grad_() for tensor in inputs]
    features = block(decoder, inputs)
    found = torch.autograd.grad(features, [*inputs, *parameters.values()], grad)
    names = ["first", "second", "flow", "feature"][: len(inputs)]
    return features.detach(), dict(zip([*names, *parameters], found, strict=True))


def gradient_of(features):
    """Return a gradient of features, channels-last, as the next convolution gives it."""
    return noise(features.shape, 6).contiguous(memory_format=torch.channels_last)


def on_gpu(decoder, inputs, dtype):
    return decoder.to("cuda", dtype), [tensor.to("cuda", dtype) for tensor in inputs]


@levels
def test_the_cases_keep_away_from_the_kink(level):
    features = block(decoder_of(level), inputs_of(level)).detach()
    assert features[:, :DENSE].abs().min() > 0.02
    assert features[:, :DENSE].amin() < -0.02
    volume = features[:, DENSE : DENSE + 81]
    assert volume[volume != 0].abs().min() > 1e-6


def test_it_does_not_pay_on_a_cpu():
    assert not dense_block.pays(torch.zeros(1, 8, 2, 2, dtype=torch.float16))


@gpu
def test_it_pays_for_half_precisions_on_a_gpu():
    for dtype in (torch.float16, torch.bfloat16):
        assert dense_block.pays(torch.zeros(1, 8, 2, 2, device="cuda", dtype=dtype))
    for dtype in (torch.float32, torch.float64):
        assert not dense_block.pays(torch.zeros(1, 8, 2, 2, device="cuda", dtype=dtype))


@gpu
@dtypes
@levels
def test_features_and_gradients_are_the_plain_ones_in_double(level, dtype):
    decoder, inputs = decoder_of(level), inputs_of(level)
    inputs = [tensor.to(dtype).double() for tensor in inputs]  # both see the same values
    for parameter in decoder.parameters():
        parameter.data = parameter.data.to(dtype).double()
    grad = gradient_of(block(decoder, inputs)).to(dtype)
    expected, expected_gradients = differentiated(decoder, inputs, grad.double())
    features, gradients = differentiated(*on_gpu(decoder, inputs, dtype), grad.cuda())
    assert features.is_contiguous(memory_format=torch.channels_last)
    errors = {"features": relative_error(features, expected)}
    assert gradients.keys() == expected_gradients.keys()
    for name, gradient in gradients.items():
        assert gradient.dtype == dtype
        errors[name] = relative_error(gradient, expected_gradients[name])
    assert {k: e for k, e in errors.items() if not e <= TOLERANCES[dtype]} == {}


@gpu
@levels
def test_the_gaps_are_zeros(level):
    features = block(*on_gpu(decoder_of(level), inputs_of(level), torch.float16))
    gaps = [features[:, DENSE + 81 : DENSE + 88]]
    if level < 6:
        gaps.append(features[:, -4:])
    assert not any(bool(gap.any()) for gap in gaps)
    assert features.shape[1] == DENSE + 88 + (PYRAMID_CHANNELS[level] + 8) * (level < 6)


@gpu
@dtypes
def test_features_and_gradients_are_those_of_the_plain_path_on_the_gpu(dtype, monkeypatch):
    decoder, inputs = on_gpu(decoder_of(4), inputs_of(4), dtype)
    grad = gradient_of(block(decoder, inputs)).to("cuda", dtype)
    features, gradients = differentiated(decoder, inputs, grad)
    monkeypatch.setattr(dense_block, "pays", lambda first: False)
    with exact_convolutions():
        expected, expected_gradients = differentiated(decoder, inputs, grad)
    assert relative_error(features, expected) <= TOLERANCES[dtype]
    for name, gradient in gradients.items():
        assert relative_error(gradient, expected_gradients[name]) <= TOLERANCES[dtype], name


@gpu
@levels
@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format], ids=str)
def test_the_caller_s_gradient_stays_as_it_is(layout, level):
    decoder, inputs = on_gpu(decoder_of(level), inputs_of(level), torch.float16)
    grad = gradient_of(block(decoder, inputs)).to("cuda", torch.float16)
    _, expected = differentiated(decoder, inputs, grad.clone())
    grad = grad.contiguous(memory_format=layout)
    before = grad.clone()
    _, found = differentiated(decoder, inputs, grad)
    assert torch.equal(grad, before)
    assert all(torch.equal(gradient, expected[name]) for name, gradient in found.items())


@gpu
def test_a_decoder_that_needs_no_gradient_gives_the_same_features():
    decoder, inputs = on_gpu(decoder_of(4), inputs_of(4), torch.float16)
    expected = block(decoder, inputs)
    assert expected.requires_grad
    with torch.no_grad():
        features = block(decoder, inputs)
    assert not features.requires_grad
    assert torch.equal(features, expected)


@gpu
def test_one_pixel_is_taken():
    decoder, inputs = decoder_of(6), [tensor[..., :1, :1] for tensor in inputs_of(6)]
    grad = gradient_of(block(decoder, inputs))
    expected, expected_gradients = differentiated(decoder, inputs, grad)
    features, gradients = differentiated(
        *on_gpu(decoder, inputs, torch.float16), grad.to("cuda", torch.float16)
    )
    assert relative_error(features, expected) <= TOLERANCES[torch.float16]
    for name, gradient in gradients.items():
        assert relative_error(gradient, expected_gradients[name]) <= 1e-2, name
