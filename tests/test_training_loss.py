"""The loss, worked out by hand and against PyTorch's own area interpolation."""

import pytest
import torch
import torch.nn.functional as F

from pwcflow.training.loss import multiscale_loss

WEIGHTS = (0.32, 0.08, 0.02, 0.02, 0.02)
SIZES = (1, 2, 4, 8, 16)  # of levels 6 to 2 for 64 pixels


def flows(n=1, value=0.0):
    return [torch.full((n, 2, size, size), value) for size in SIZES]


def random_case(seed=0, n=2):
    generator = torch.Generator().manual_seed(seed)
    estimate = [torch.randn(n, 2, size, size, generator=generator) for size in SIZES]
    truth = 30.0 * torch.randn(n, 2, 64, 64, generator=generator)
    valid = (torch.rand(n, 1, 64, 64, generator=generator) > 0.4).float()
    return estimate, truth, valid


def test_a_constant_error_counts_at_each_level_by_its_pixels():
    truth = torch.zeros(1, 2, 64, 64)
    truth[:, 0], truth[:, 1] = 12.0, 16.0  # 20 px: an error of 1 in the network's unit
    loss, epe = multiscale_loss(flows(), truth, torch.ones(1, 1, 64, 64))
    pixels = sum(weight * size**2 for weight, size in zip(WEIGHTS, SIZES, strict=True))
    pixels += 0.005 / 4 * 64**2
    assert loss.item() == pytest.approx(pixels / 12288, rel=1e-6)
    assert epe.item() == pytest.approx(20.0, rel=1e-6)


def test_a_power_below_one_is_taken_of_pixels():
    truth = torch.zeros(1, 2, 64, 64)
    truth[:, 0] = 20.0
    plain, _ = multiscale_loss(flows(), truth, torch.ones(1, 1, 64, 64))
    robust, epe = multiscale_loss(flows(), truth, torch.ones(1, 1, 64, 64), q=0.4)
    assert robust.item() == pytest.approx(plain.item() * (20.01**0.4) / 20, rel=1e-5)
    assert epe.item() == pytest.approx(20.0, rel=1e-6)


def test_the_truth_of_a_level_is_its_mean_over_area():
    estimate, truth, _ = random_case()
    expected = 0.0
    for flow, weight in zip(estimate, WEIGHTS, strict=True):
        target = F.interpolate(truth / 20, flow.shape[2:], mode="area")
        expected += weight * ((flow - target).square().sum(1) + 1e-8).sqrt().sum((1, 2)).mean()
    full = F.interpolate(estimate[-1], (64, 64), mode="bilinear", align_corners=False)
    error = ((full - truth / 20).square().sum(1) + 1e-8).sqrt()
    expected += 0.005 / 4 * error.sum((1, 2)).mean()
    loss, epe = multiscale_loss(estimate, truth, torch.ones(2, 1, 64, 64))
    torch.testing.assert_close(loss, expected / 12288)
    torch.testing.assert_close(epe, 20 * error.mean())


def test_what_is_not_valid_does_not_count_whatever_it_holds():
    estimate, truth, valid = random_case()
    expected = multiscale_loss(estimate, truth, valid)
    for junk in (1e9, float("nan"), float("inf")):
        changed = torch.where(valid > 0, truth, junk)
        assert torch.equal(multiscale_loss(estimate, changed, valid)[0], expected[0])
        assert torch.equal(multiscale_loss(estimate, changed, valid)[1], expected[1])


def test_half_known_pixels_weigh_half_and_compare_with_what_is_known():
    truth = torch.full((1, 2, 64, 64), 1e6)
    truth[..., :32] = 0.0
    valid = torch.zeros(1, 1, 64, 64)
    valid[..., :32] = 1.0
    coarsest, *others = flows()
    coarsest[:, 0] = 3.0
    perfect, _ = multiscale_loss(flows(), truth, valid)
    loss, _ = multiscale_loss([coarsest, *others], truth, valid)
    assert (loss - perfect).item() == pytest.approx(0.32 * 3.0 * 0.5 / 12288, rel=1e-3)


@pytest.mark.parametrize("q", [None, 0.4])
@pytest.mark.parametrize("known", [0.0, 1.0])
def test_gradients_are_finite_even_where_the_estimate_is_perfect(q, known):
    estimate = [flow.requires_grad_() for flow in flows()]
    valid = torch.full((1, 1, 64, 64), known)
    loss, epe = multiscale_loss(estimate, torch.zeros(1, 2, 64, 64), valid, q)
    assert all(g.isfinite().all() for g in torch.autograd.grad(loss, estimate))
    assert epe.isfinite()
    assert not epe.requires_grad
