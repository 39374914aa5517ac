"""Errors worked out by hand."""

import numpy as np
import pytest

from pwcflow import write_flow, write_image
from pwcflow.datasets import TruePair, find_pairs, read_true_pair
from pwcflow.evaluation import Score, end_point_error, evaluate, mean_score, mirrored, score_pair


def flow(*vectors):
    return np.array([vectors], np.float32)


def test_the_end_point_error_is_the_mean_distance_where_the_truth_is_known():
    truth = flow((0, 0), (10, 0), (np.nan, np.nan), (2e9, 0))
    estimate = flow((3, 4), (10, 1), (7, 7), (8, 8))
    assert end_point_error(estimate, truth) == pytest.approx((5 + 1) / 2)
    only_second = np.array([[False, True, False, False]])
    assert end_point_error(estimate, truth, only_second) == pytest.approx(1)


def test_an_outlier_is_wrong_by_more_than_3_px_and_more_than_5_percent():
    truth = flow((0, 0), (100, 0), (100, 0), (0, 10))
    estimate = flow((2.9, 0), (104, 0), (106, 0), (0, 13.5))
    # 2.9 px: no. 4 px of 100: 4 %, no. 6 px of 100: yes. 3.5 px of 10: yes.
    assert score_pair(estimate, truth) == Score(1, pytest.approx((2.9 + 4 + 6 + 3.5) / 4), 0.5)


def test_of_several_pairs_each_counts_alike():
    # whatever the number of their pixels
    scores = [
        score_pair(flow((3, 4), (0, 1)), flow((0, 0), (0, 0))),  # 5 and 1 px
        score_pair(flow((6, 8)), flow((0, 0))),  # 10 px
    ]
    assert mean_score(scores) == Score(2, (3 + 10) / 2, (0.5 + 1) / 2)


def test_nothing_to_compare_and_other_shapes_are_mistakes():
    with pytest.raises(ValueError, match="no pixel"):
        end_point_error(flow((0, 0)), flow((np.nan, 0)))
    with pytest.raises(ValueError, match="differ in shape"):
        end_point_error(flow((0, 0)), flow((0, 0), (1, 1)))


def test_a_manifest_gives_means_by_data_set_and_minds_invalid_png(tmp_path):
    for name, u in (("a", 1.0), ("b", 3.0)):
        folder = tmp_path / name
        folder.mkdir()
        truth = np.zeros((4, 6, 2), np.float32)
        truth[..., 0] = u
        truth[0] = 99.0  # marked invalid
        write_flow(folder / "flow.flo", truth)
        invalid = np.zeros((4, 6, 3), np.uint8)
        invalid[0] = 255
        write_image(folder / "invalid.png", invalid)
        for frame in ("1.png", "2.png"):
            write_image(folder / frame, np.zeros((4, 6, 3), np.uint8))
    lines = ["dataset,sequence,frame1,frame2,gt"]
    lines += [f"toy,{name},{name}/1.png,{name}/2.png,{name}/flow.flo" for name in "ab"]
    manifest = tmp_path / "list.csv"
    manifest.write_text("\n".join(lines))
    pairs = [read_true_pair(pair) for pair in find_pairs("manifest", manifest)]
    assert [pair.name for pair in pairs] == ["a", "b"]
    score = evaluate(lambda *_: np.zeros((4, 6, 2), np.float32), pairs)["toy"]
    assert (score.pairs, score.end_point_error_px, score.outliers) == (2, pytest.approx(2), 0)


def test_mirrored_pairs_have_their_pixels_flow_and_mask_in_the_places_exchanged():
    first = np.arange(6, dtype=np.uint8).reshape(2, 3, 1)
    valid = np.array([[True, False, True], [True, True, True]])
    truth = np.stack((10.0 + first[..., 0], 20.0 + first[..., 0]), -1).astype(np.float32)
    pair = TruePair("toy", "a", first, first + 100, truth, valid)
    same, across, down, both = mirrored([pair])
    assert np.array_equal(same.first, first)
    assert across.first[..., 0].tolist() == [[2, 1, 0], [5, 4, 3]]
    assert down.second[..., 0].tolist() == [[103, 104, 105], [100, 101, 102]]
    assert both.first[..., 0].tolist() == [[5, 4, 3], [2, 1, 0]]
    assert across.truth[0, 0].tolist() == [-12, 22]
    assert down.truth[0, 0].tolist() == [13, -23]
    assert both.truth[0, 0].tolist() == [-15, -25]
    assert across.valid.tolist() == [[True, False, True], [True, True, True]]
    assert down.valid.tolist() == [[True, True, True], [True, False, True]]


def test_a_mirrored_pixel_lies_in_memory_forwards():
    pixel = np.zeros((1, 1, 3), np.uint8)
    pair = TruePair("toy", "a", pixel, pixel, flow((1, 2)), np.ones((1, 1), bool))
    for each in mirrored([pair]):
        arrays = (each.first, each.second, each.truth, each.valid)
        assert all(stride > 0 for array in arrays for stride in array.strides)
