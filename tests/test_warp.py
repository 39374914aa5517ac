"""Backward warping against shifts and masks worked out by hand."""

import pytest
import torch
import torch.nn.functional as F

from pwcflow.warp import backward_warp


def ramp(h, w):
    """Each pixel holds its own index."""
    return torch.arange(h * w, dtype=torch.float32).view(1, 1, h, w)


def constant_flow(u, v, h, w):
    return torch.tensor([u, v]).view(1, 2, 1, 1).expand(1, 2, h, w)


def test_zero_flow_is_the_identity():
    feature = torch.randn(2, 5, 7, 9, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(backward_warp(feature, torch.zeros(2, 2, 7, 9)), feature)


def test_an_integer_flow_shifts_an_index_ramp_exactly_as_align_corners_demands():
    warped = backward_warp(ramp(6, 8), constant_flow(1.0, 0.0, 6, 8))
    expected = torch.zeros(1, 1, 6, 8)
    expected[..., :-1] = ramp(6, 8)[..., 1:]  # the last column looks outside: zero
    torch.testing.assert_close(warped, expected)
    warped = backward_warp(ramp(6, 8), constant_flow(0.0, -2.0, 6, 8))
    expected = torch.zeros(1, 1, 6, 8)
    expected[..., 2:, :] = ramp(6, 8)[..., :-2, :]
    torch.testing.assert_close(warped, expected)


def test_half_a_pixel_averages_two_neighbours_and_zeroes_the_edge_it_leaves():
    warped = backward_warp(ramp(3, 4), constant_flow(0.5, 0.0, 3, 4))
    expected = torch.tensor([[0.5, 1.5, 2.5, 0], [4.5, 5.5, 6.5, 0], [8.5, 9.5, 10.5, 0]])
    torch.testing.assert_close(warped[0, 0], expected)


def test_the_mask_equals_a_warped_plane_of_ones_above_0_999():
    generator = torch.Generator().manual_seed(3)
    h, w = 13, 17
    flow = torch.randn(4, 2, h, w, generator=generator) * 4
    ones = torch.ones(4, 1, h, w)
    base = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(h), indexing="xy"), 0)
    position = base.unsqueeze(0) + flow
    grid = torch.stack((position[:, 0] / (w - 1), position[:, 1] / (h - 1)), -1) * 2 - 1
    plane = F.grid_sample(ones, grid, padding_mode="zeros", align_corners=True)
    assert 0.1 < (plane > 0.999).float().mean() < 0.95
    # On a constant feature the result is the mask itself, where it is not 0.
    torch.testing.assert_close(
        backward_warp(ones, flow), (plane > 0.999).float(), rtol=0, atol=1e-3
    )


@pytest.mark.parametrize(("h", "w"), [(1, 1), (1, 5), (5, 1)])
def test_an_axis_of_one_pixel_has_the_coordinate_zero_and_never_nan(h, w):
    warped = backward_warp(ramp(h, w) + 1, torch.zeros(1, 2, h, w))
    torch.testing.assert_close(warped, ramp(h, w) + 1)
    pushed = backward_warp(ramp(h, w) + 1, constant_flow(0.0, 3.0, h, w))
    assert pushed.isfinite().all()
    if h == 1:
        torch.testing.assert_close(pushed, ramp(h, w) + 1)


def test_half_precision_features_are_sampled_at_float32_positions():
    w = 4097  # above 2048 float16 has no odd numbers, and grid_sample's -1..1 even fewer steps
    feature = (torch.arange(w) % 2).to(torch.float16).view(1, 1, 1, w).expand(1, 1, 2, w)
    warped = backward_warp(feature, torch.zeros(1, 2, 2, w))
    assert warped.dtype == torch.float16
    torch.testing.assert_close(warped, feature, rtol=0, atol=1e-3)


def test_a_flow_of_another_size_is_a_mistake():
    with pytest.raises(ValueError, match=r"\(1, 2, 4, 5\), but it is \(1, 2, 5, 4\)"):
        backward_warp(torch.zeros(1, 3, 4, 5), torch.zeros(1, 2, 5, 4))


def test_grid_sample_is_never_called_without_align_corners():
    import ast
    from pathlib import Path

    import pwcflow

    for path in Path(pwcflow.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in (
                "grid_sample",
                "affine_grid",
                "interpolate",
            ):
                assert any(k.arg == "align_corners" for k in node.keywords), (path, node.lineno)
