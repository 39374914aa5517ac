"""Backward warping against shifts and masks worked out by hand."""

import ast
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import pwcflow
from pwcflow.warp import backward_warp


def ramp(h, w):
    """Each pixel holds its own index."""
    return torch.arange(h * w, dtype=torch.float32).view(1, 1, h, w)


def constant_flow(u, v, h, w):
    return torch.tensor([u, v]).view(1, 2, 1, 1).expand(1, 2, h, w)


def test_zero_flow_is_the_identity():
    feature = torch.randn(2, 5, 7, 9, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(backward_warp(feature, torch.zeros(2, 2, 7, 9)), feature)


# Where the size less one is a power of two, grid_sample's -1..1 takes whole pixels exactly; else a
# position is off by some 1e-6 px, and neighbours in a column of the ramp differ by 8.
@pytest.mark.parametrize(("h", "w", "error"), [(5, 9, 0.0), (6, 8, 1e-5)])
def test_an_integer_flow_shifts_an_index_ramp_as_align_corners_demands(h, w, error):
    warped = backward_warp(ramp(h, w), constant_flow(1.0, 0.0, h, w))
    expected = torch.zeros(1, 1, h, w)
    expected[..., :-1] = ramp(h, w)[..., 1:]  # the last column looks outside: zero
    torch.testing.assert_close(warped, expected, rtol=0, atol=error)
    warped = backward_warp(ramp(h, w), constant_flow(0.0, -2.0, h, w))
    expected = torch.zeros(1, 1, h, w)
    expected[..., 2:, :] = ramp(h, w)[..., :-2, :]
    torch.testing.assert_close(warped, expected, rtol=0, atol=error)


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


def test_a_sample_that_lies_outside_by_a_thousandth_is_dimmed_and_by_more_is_zero():
    for u, expected in [(0.0008, 0.9992), (0.0012, 0.0)]:
        edge = backward_warp(torch.ones(1, 1, 5, 9), constant_flow(u, 0.0, 5, 9))[..., -1]
        torch.testing.assert_close(edge, torch.full((1, 1, 5), expected), rtol=0, atol=1e-5)


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


def test_double_features_are_sampled_in_double_whatever_the_flow():
    feature = torch.full((1, 1, 3, 3), 1 / 3, dtype=torch.float64)
    warped = backward_warp(feature, constant_flow(0.25, 0.0, 3, 3))
    torch.testing.assert_close(warped[..., :-1], feature[..., :-1], rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("feature", "flow", "problem"),
    [
        ((1, 3, 4, 5), (1, 2, 5, 4), r"flow must be \(1, 2, 4, 5\), but it is \(1, 2, 5, 4\)"),
        ((3, 4, 5), (1, 2, 4, 5), r"feature must be \(N, C, H, W\), but it is \(3, 4, 5\)"),
    ],
)
def test_shapes_that_do_not_belong_together_are_a_mistake(feature, flow, problem):
    with pytest.raises(ValueError, match=problem):
        backward_warp(torch.zeros(feature), torch.zeros(flow))


# Another value, or none, moves what is sampled by up to half a pixel.
ALIGN_CORNERS = {"grid_sample": True, "affine_grid": True, "interpolate": False}


def calls_with_another_align_corners(source):
    """Return the lines of a Python source that call one of the above without its value."""
    wrong = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", None))
            given = [k.value for k in node.keywords if k.arg == "align_corners"]
            values = [value.value for value in given if isinstance(value, ast.Constant)]
            if name in ALIGN_CORNERS and values != [ALIGN_CORNERS[name]]:
                wrong.append(node.lineno)
    return wrong


def test_align_corners_is_true_where_positions_are_sampled_and_false_where_images_are_resized():
    folder = Path(pwcflow.__file__).parent
    wrong = {
        str(path.relative_to(folder)): lines
        for path in folder.rglob("*.py")
        if (lines := calls_with_another_align_corners(path.read_text(encoding="utf-8")))
    }
    assert wrong == {}


@pytest.mark.parametrize(
    "call",
    [
        "F.interpolate(x, size)",
        "interpolate(x, size, align_corners=True)",
        "torch.nn.functional.grid_sample(x, grid)",
        "grid_sample(x, grid, align_corners=False)",
        "grid_sample(x, grid, align_corners=corners)",
    ],
)
def test_the_guard_sees_each_kind_of_call(call):
    assert calls_with_another_align_corners(call) == [1]
