"""cuDNN is exact and repeatable inside the block, and after it as the program had chosen."""

import pytest
import torch

from pwcflow.cudnn import exact_convolutions

cudnn = torch.backends.cudnn


@pytest.fixture(autouse=True)
def restored():
    before = cudnn.allow_tf32, cudnn.deterministic
    yield
    cudnn.allow_tf32, cudnn.deterministic = before


@pytest.mark.parametrize("chosen", [True, False])
def test_the_older_switches_are_put_back(chosen):
    cudnn.allow_tf32 = cudnn.deterministic = chosen
    with exact_convolutions():
        assert (cudnn.allow_tf32, cudnn.deterministic) == (False, True)
        with exact_convolutions():
            assert (cudnn.allow_tf32, cudnn.deterministic) == (False, True)
        assert (cudnn.allow_tf32, cudnn.deterministic) == (False, True)
    assert (cudnn.allow_tf32, cudnn.deterministic) == (chosen, chosen)


def test_they_are_put_back_after_an_error():
    cudnn.allow_tf32, cudnn.deterministic = True, False
    with pytest.raises(KeyError), exact_convolutions():
        raise KeyError
    assert (cudnn.allow_tf32, cudnn.deterministic) == (True, False)


@pytest.mark.skipif(not hasattr(cudnn, "conv"), reason="came with PyTorch 2.9")
def test_the_newer_switch_is_put_back_for_a_program_that_uses_it():
    rnn = cudnn.rnn.fp32_precision
    try:
        cudnn.rnn.fp32_precision = "ieee"
        cudnn.conv.fp32_precision = "tf32"  # now the older switch cannot be read
        with exact_convolutions():
            assert cudnn.conv.fp32_precision == "ieee"
        assert cudnn.conv.fp32_precision == "tf32"
    finally:
        cudnn.rnn.fp32_precision = rnn
