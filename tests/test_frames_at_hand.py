import pytest

from pwcflow.errors import VideoError
from pwcflow.runs.frames_at_hand import FramesAtHand


def test_each_flow_has_the_frame_before_and_the_one_after_it():
    at_hand = FramesAtHand(iter("abcde"))
    taken = at_hand.beyond()
    assert [next(taken) for _ in range(2)] == ["a", "b"]
    assert at_hand.pair() == ("a", "b")
    assert [next(taken) for _ in range(2)] == ["c", "d"]  # an estimator may be ahead
    assert at_hand.pair() == ("b", "c")
    assert at_hand.pair() == ("c", "d")
    assert list(taken) == ["e"]
    assert at_hand.pair() == ("d", "e")


def test_pairs_that_are_not_to_be_estimated_are_passed_over():
    at_hand = FramesAtHand(iter("abcd"))
    assert [at_hand.pair(), at_hand.pair()] == [("a", "b"), ("b", "c")]
    assert list(at_hand.beyond()) == ["c", "d"]  # the last of the pairs is the first of the next
    assert at_hand.pair() == ("c", "d")


def test_a_pair_beyond_the_end_is_an_error():
    at_hand = FramesAtHand(iter("ab"))
    assert at_hand.pair() == ("a", "b")
    with pytest.raises(VideoError, match="the video ends before its flow files do"):
        at_hand.pair()
