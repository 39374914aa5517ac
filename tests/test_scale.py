import numpy as np
import pytest

from pwcflow.color import flow_to_color
from pwcflow.color.scale import FoundScale, RunningScale, one_scale, scale_of


def rightwards(magnitudes, shape):
    """A flow to the right with these magnitudes, in a picture of `shape`."""
    flow = np.zeros((*shape, 2), np.float32)
    flow[..., 0] = np.broadcast_to(np.asarray(magnitudes, np.float32), shape)
    return flow


def constant(u, v, shape=(8, 10)):
    flow = np.empty((*shape, 2), np.float32)
    flow[:] = u, v
    return flow


def test_the_scale_of_one_flow_is_its_longest_vector_but_at_least_a_pixel():
    flow = constant(0, 0.5)
    assert scale_of(flow) == 1.0
    flow[2, 3] = 3, -4
    assert scale_of(flow) == 5.0


def test_the_first_scale_is_a_quarter_above_the_motion():
    assert RunningScale().update(constant(3, -4)) == pytest.approx(6.25)


def test_the_first_scale_leaves_out_the_fastest_percent():
    flow = rightwards(np.arange(1, 101).reshape(10, 10), (10, 10))
    # the 99th percentile of 1..100 lies 0.99 * 99 = 98.01 steps above 1
    assert RunningScale().update(flow) == pytest.approx(99.01 * 1.25)


def test_one_wild_pixel_in_a_thousand_does_not_count():
    flow = constant(0, 2, (25, 40))
    flow[7, 9] = 500, 0
    assert RunningScale().update(flow) == pytest.approx(2.5)


def test_the_scale_grows_by_five_percent_a_frame_until_it_fits():
    scale = RunningScale()
    assert scale.update(constant(3, 4)) == pytest.approx(6.25)
    assert scale.update(constant(6, 8)) == pytest.approx(6.25 * 1.05)
    assert scale.update(constant(6, 8)) == pytest.approx(6.25 * 1.05**2)
    for _ in range(12):
        last = scale.update(constant(6, 8))
    assert last == pytest.approx(6.25 * 1.05**14)  # 12.374, short of 10 * 1.25
    assert scale.update(constant(6, 8)) == pytest.approx(12.5)
    assert scale.update(constant(6, 8)) == pytest.approx(12.5)


def test_a_step_of_less_than_five_percent_is_taken_at_once():
    scale = RunningScale()
    scale.update(constant(100, 0))
    assert scale.update(constant(102, 0)) == pytest.approx(127.5)


def test_the_scale_never_shrinks():
    scale = RunningScale()
    assert scale.update(constant(40, 0)) == pytest.approx(50)
    for motion in (20, 1, 0):
        assert scale.update(constant(motion, 0)) == pytest.approx(50)


def test_the_noise_of_a_static_scene_stays_white():
    noise = np.random.default_rng(0).uniform(-0.01, 0.01, (20, 30, 2)).astype(np.float32)
    scale = RunningScale()
    for _ in range(3):
        assert scale.update(noise) == 1.0
    # 0.0142 px of 1 px: no channel loses more than 0.0142 * 255 = 3.6 levels
    assert flow_to_color(noise, 1.0).min() >= 251


def test_a_scene_that_comes_to_rest_fades_to_white():
    scale = RunningScale()
    scale.update(constant(20, 0))
    resting = constant(0.25, 0)
    # 0.25 px of 25: green and blue lose 1 % of 255
    assert tuple(flow_to_color(resting, scale.update(resting))[0, 0]) == (255, 252, 252)


@pytest.mark.parametrize("unknown", [np.nan, np.inf, -np.inf, 1e10], ids=str)
def test_unknown_pixels_are_passed_over(unknown):
    flow = constant(0, 8, (6, 7))
    flow[:3, :, 0] = unknown
    assert RunningScale().update(flow) == pytest.approx(10)


def test_a_flow_without_known_pixels_has_the_smallest_scale_and_ends_nothing():
    scale = RunningScale()
    unknown = np.full((4, 5, 2), np.nan, np.float32)
    assert scale.update(unknown) == 1.0
    assert scale.update(constant(1, 0)) == pytest.approx(1.05)
    assert scale.update(unknown) == pytest.approx(1.05)


def test_large_frames_are_judged_by_a_grid_that_reaches_all_parts():
    flow = constant(0, 0, (1000, 1000))
    flow[500:] = 16, 0  # half of the picture moves
    assert RunningScale().update(flow) == pytest.approx(20)


def test_a_picture_of_one_pixel_has_a_scale():
    assert RunningScale().update(constant(0, 4, (1, 1))) == pytest.approx(5)


# rules


def test_one_scale_of_many_flows_is_the_largest_of_all():
    found = FoundScale("sequence")
    for flow in (constant(3, 4), constant(0, 0), constant(8, -6), constant(1, 0)):
        found.add(flow)
    assert found.scale() == 10


def test_the_percentile_is_that_of_the_known_pixels_of_all_flows():
    # 1 to 200, in two flows, and a quarter of unknown pixels: 99 % are at most 198
    found = FoundScale("percentile")
    flow = rightwards(np.arange(1, 101).reshape(10, 10), (10, 10))
    found.add(flow)
    more = rightwards(np.nan, (14, 10))
    more[:10] = flow + np.float32([100, 0])
    found.add(more)
    assert 198 <= found.scale() <= 198 * 1.001


def test_a_percentile_of_noise_or_of_nothing_is_a_pixel():
    for flow in (constant(0.01, 0), constant(np.nan, 0), constant(0, 0)):
        found = FoundScale("percentile")
        found.add(flow)
        assert found.scale() == 1.0
    assert FoundScale("percentile").scale() == 1.0


def test_one_wild_pixel_changes_the_largest_and_not_the_percentile():
    flow = constant(0, 4, (25, 40))
    flow[7, 9] = 500, 0
    assert one_scale(flow, "sequence") == one_scale(flow, "frame") == 500
    assert one_scale(flow, "percentile") == pytest.approx(4, rel=1e-3)
    assert one_scale(flow, 7.5) == 7.5


def test_a_video_may_have_the_scale_of_each_frame_or_one_that_is_given():
    own, given = RunningScale("frame"), RunningScale(8.0)
    flows = [constant(motion, 0) for motion in (3, 30, 0)]
    assert [own.update(flow) for flow in flows] == [3, 30, 1]
    assert [given.update(flow) for flow in flows] == [8, 8, 8]
    assert (own.scales_px, given.scales_px) == ([3, 30, 1], [])


def test_the_running_percentile_has_no_headroom():
    scale = RunningScale("percentile")
    flows = [constant(motion, 0) for motion in (10, 12, 5)]
    assert [scale.update(flow) for flow in flows] == pytest.approx([10, 10.5, 10.5])
    assert scale.scales_px == pytest.approx([10, 10.5, 10.5])


def test_a_scale_is_at_least_twice_the_noise_floor():
    assert one_scale(constant(0.5, 0), "sequence", 4.0) == 4
    assert RunningScale("sequence", 4.0).update(constant(0.5, 0)) == 4
