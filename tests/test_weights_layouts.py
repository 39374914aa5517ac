"""Every published layout, built by a table spelled out here, comes back as our tensors."""

import pytest
import torch

from pwcflow.errors import WeightsError
from pwcflow.weights import load_weights
from pwcflow.weights.layouts import expected_shapes, rename

# Ours, then NVlabs's, then pytorch-pwc's; `*` stands for "module" or "net".
LAYERS = """
pyramid.levels.1.0  conv1a.0   *Extractor.*One.0
pyramid.levels.1.2  conv1aa.0  *Extractor.*One.2
pyramid.levels.1.4  conv1b.0   *Extractor.*One.4
pyramid.levels.2.0  conv2a.0   *Extractor.*Two.0
pyramid.levels.2.2  conv2aa.0  *Extractor.*Two.2
pyramid.levels.2.4  conv2b.0   *Extractor.*Two.4
pyramid.levels.3.0  conv3a.0   *Extractor.*Thr.0
pyramid.levels.3.2  conv3aa.0  *Extractor.*Thr.2
pyramid.levels.3.4  conv3b.0   *Extractor.*Thr.4
pyramid.levels.4.0  conv4a.0   *Extractor.*Fou.0
pyramid.levels.4.2  conv4aa.0  *Extractor.*Fou.2
pyramid.levels.4.4  conv4b.0   *Extractor.*Fou.4
pyramid.levels.5.0  conv5a.0   *Extractor.*Fiv.0
pyramid.levels.5.2  conv5aa.0  *Extractor.*Fiv.2
pyramid.levels.5.4  conv5b.0   *Extractor.*Fiv.4
pyramid.levels.6.0  conv6aa.0  *Extractor.*Six.0
pyramid.levels.6.2  conv6a.0   *Extractor.*Six.2
pyramid.levels.6.4  conv6b.0   *Extractor.*Six.4
decoders.6.dense.0.0  conv6_0.0  *Six.*One.0
decoders.6.dense.1.0  conv6_1.0  *Six.*Two.0
decoders.6.dense.2.0  conv6_2.0  *Six.*Thr.0
decoders.6.dense.3.0  conv6_3.0  *Six.*Fou.0
decoders.6.dense.4.0  conv6_4.0  *Six.*Fiv.0
decoders.6.flow_head  predict_flow6  *Six.*Six.0
decoders.5.upsample_flow     deconv6  *Fiv.*Upflow
decoders.5.upsample_feature  upfeat6  *Fiv.*Upfeat
decoders.5.dense.0.0  conv5_0.0  *Fiv.*One.0
decoders.5.dense.1.0  conv5_1.0  *Fiv.*Two.0
decoders.5.dense.2.0  conv5_2.0  *Fiv.*Thr.0
decoders.5.dense.3.0  conv5_3.0  *Fiv.*Fou.0
decoders.5.dense.4.0  conv5_4.0  *Fiv.*Fiv.0
decoders.5.flow_head  predict_flow5  *Fiv.*Six.0
decoders.4.upsample_flow     deconv5  *Fou.*Upflow
decoders.4.upsample_feature  upfeat5  *Fou.*Upfeat
decoders.4.dense.0.0  conv4_0.0  *Fou.*One.0
decoders.4.dense.1.0  conv4_1.0  *Fou.*Two.0
decoders.4.dense.2.0  conv4_2.0  *Fou.*Thr.0
decoders.4.dense.3.0  conv4_3.0  *Fou.*Fou.0
decoders.4.dense.4.0  conv4_4.0  *Fou.*Fiv.0
decoders.4.flow_head  predict_flow4  *Fou.*Six.0
decoders.3.upsample_flow     deconv4  *Thr.*Upflow
decoders.3.upsample_feature  upfeat4  *Thr.*Upfeat
decoders.3.dense.0.0  conv3_0.0  *Thr.*One.0
decoders.3.dense.1.0  conv3_1.0  *Thr.*Two.0
decoders.3.dense.2.0  conv3_2.0  *Thr.*Thr.0
decoders.3.dense.3.0  conv3_3.0  *Thr.*Fou.0
decoders.3.dense.4.0  conv3_4.0  *Thr.*Fiv.0
decoders.3.flow_head  predict_flow3  *Thr.*Six.0
decoders.2.upsample_flow     deconv3  *Two.*Upflow
decoders.2.upsample_feature  upfeat3  *Two.*Upfeat
decoders.2.dense.0.0  conv2_0.0  *Two.*One.0
decoders.2.dense.1.0  conv2_1.0  *Two.*Two.0
decoders.2.dense.2.0  conv2_2.0  *Two.*Thr.0
decoders.2.dense.3.0  conv2_3.0  *Two.*Fou.0
decoders.2.dense.4.0  conv2_4.0  *Two.*Fiv.0
decoders.2.flow_head  predict_flow2  *Two.*Six.0
context.0   dc_conv1.0  *Refiner.*Main.0
context.2   dc_conv2.0  *Refiner.*Main.2
context.4   dc_conv3.0  *Refiner.*Main.4
context.6   dc_conv4.0  *Refiner.*Main.6
context.8   dc_conv5.0  *Refiner.*Main.8
context.10  dc_conv6.0  *Refiner.*Main.10
context.12  dc_conv7    *Refiner.*Main.12
"""
ROWS = [line.split() for line in LAYERS.split("\n") if line]
TABLES = {
    "ours": {ours: ours for ours, _, _ in ROWS},
    "nvlabs": {ours: nvlabs for ours, nvlabs, _ in ROWS},
    "module": {ours: theirs.replace("*", "module") for ours, _, theirs in ROWS},
    "net": {ours: theirs.replace("*", "net") for ours, _, theirs in ROWS},
}


@pytest.fixture(scope="module")
def weights():
    """Return weights that differ between any two tensors, and are exact in half precision."""
    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.randn(shape, generator=generator).half().float()
        for name, shape in expected_shapes().items()
    }


@pytest.fixture
def published(weights):
    """Return the weights in a layout, in half precision."""

    def build(layout):
        checkpoint = {}
        for name, tensor in weights.items():
            layer, _, part = name.rpartition(".")
            checkpoint[f"{TABLES[layout][layer]}.{part}"] = tensor.half()
        assert len(checkpoint) == len(weights) == 126
        return checkpoint

    return build


@pytest.fixture
def reload(tmp_path):
    """Save a checkpoint and return its weights, read from the file."""

    def save_and_load(content, **how):
        path = tmp_path / "checkpoint.pth"
        torch.save(content, path, **how)
        return load_weights(path).state

    return save_and_load


def load(checkpoint):
    return rename(checkpoint, "checkpoint.pth")


def prefixed(prefix, checkpoint):
    return {prefix + key: tensor for key, tensor in checkpoint.items()}


def assert_same(actual, expected):
    assert list(actual) == list(expected)
    for name in expected:
        assert torch.equal(actual[name], expected[name]), name


@pytest.mark.parametrize("layout", TABLES)
def test_each_layout_comes_back_as_our_tensors(layout, published, reload, weights):
    assert_same(reload(published(layout)), weights)


@pytest.mark.parametrize("layout", TABLES)
@pytest.mark.parametrize("prefix", ["module.", "model.", "module.module.", "model.module."])
def test_prefixes_are_dropped(layout, prefix, published, weights):
    assert_same(load(prefixed(prefix, published(layout))), weights)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda tensors: {"state_dict": tensors, "epoch": 3, "optimizer": {"lr": 1e-4}},
        lambda tensors: {"model": tensors, "iteration": 7},
        lambda tensors: {"model": {"state_dict": tensors}},
    ],
    ids=["state_dict", "model", "both"],
)
def test_wrappers_are_opened(wrap, published, reload, weights):
    assert_same(reload(wrap(published("nvlabs"))), weights)


def test_the_format_before_zip_is_read(published, reload, weights):
    content = {"state_dict": published("nvlabs")}
    assert_same(reload(content, _use_new_zipfile_serialization=False), weights)


def test_a_layer_that_nvlabs_makes_and_never_uses_is_ignored(published, weights):
    unused = {"deconv2.weight": torch.zeros(2, 2, 4, 4), "deconv2.bias": torch.zeros(2)}
    assert_same(load(published("nvlabs") | unused), weights)


def test_single_and_double_precision_become_single(published, weights):
    checkpoint = published("module")
    for dtype in (torch.float32, torch.float64):
        assert_same(load({key: tensor.to(dtype) for key, tensor in checkpoint.items()}), weights)


def test_parameters_come_back_as_tensors_without_gradients(published):
    checkpoint = {key: torch.nn.Parameter(value) for key, value in published("net").items()}
    assert not any(tensor.requires_grad for tensor in load(checkpoint).values())


def test_an_unknown_key_is_named(published):
    checkpoint = published("nvlabs") | {"occlusion_head.weight": torch.zeros(1)}
    with pytest.raises(WeightsError, match=r"it holds 'occlusion_head.weight', which"):
        load(checkpoint)


def test_a_missing_key_is_named(published):
    checkpoint = published("module")
    del checkpoint["moduleThr.moduleUpflow.bias"]
    with pytest.raises(WeightsError, match=r"it lacks 'moduleThr.moduleUpflow.bias'"):
        load(checkpoint)


def test_many_missing_keys_are_counted(published):
    checkpoint = published("ours")
    kept = {key: tensor for key, tensor in checkpoint.items() if key.startswith("context")}
    with pytest.raises(WeightsError, match=r"it lacks 'decoders.*and 109 more"):
        load(kept)


def test_a_wrong_shape_is_named_with_both_shapes(published):
    checkpoint = published("nvlabs") | {"conv3_0.0.weight": torch.zeros(128, 150, 3, 3)}
    with pytest.raises(
        WeightsError, match=r"'conv3_0.0.weight' is 128 x 150 x 3 x 3 .*128 x 149 x 3 x 3"
    ):
        load(checkpoint)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300], ids=str)
def test_values_that_are_not_finite_in_single_precision_are_refused(value, published):
    bias = torch.tensor([0.0, value], dtype=torch.float64)
    with pytest.raises(WeightsError, match=r"'netSix.netSix.0.bias' holds values that are not"):
        load(published("net") | {"netSix.netSix.0.bias": bias})


@pytest.mark.parametrize(
    "bias",
    [
        torch.zeros(2, dtype=torch.int64),
        torch.zeros(2, dtype=torch.complex64),
        torch.zeros(2, device="meta"),
        torch.zeros(2).to_sparse(),
    ],
    ids=["integers", "complex", "meta", "sparse"],
)
def test_tensors_that_are_not_dense_and_real_in_memory_are_refused(bias, published, reload):
    checkpoint = published("net") | {"netSix.netSix.0.bias": bias}
    with pytest.raises(WeightsError, match=r"'netSix.netSix.0.bias' is not a dense tensor of real"):
        reload(checkpoint)


def test_a_prefix_repeated_without_end_is_dropped(published, weights):
    assert_same(load(prefixed("model." * 3000, published("ours"))), weights)
    with pytest.raises(WeightsError, match="of another network"):
        load({"model." * 3000: torch.zeros(1)})


def test_the_older_variant_is_called_a_different_network(published):
    checkpoint = {key: value for key, value in published("nvlabs").items() if "aa" not in key}
    checkpoint["deconv2.bias"] = torch.zeros(2)
    with pytest.raises(WeightsError, match=r"of the older PWC-Net .pwc_dc_net_old., a different"):
        load(prefixed("module.", checkpoint))


def test_the_variant_without_context_network_is_called_a_different_network(published):
    checkpoint = {key: value for key, value in published("nvlabs").items() if "dc_" not in key}
    with pytest.raises(WeightsError, match=r"without its context network"):
        load(checkpoint)


@pytest.mark.parametrize(
    "keys",
    [
        ["conv1.weight", "bn1.weight", "bn1.num_batches_tracked", "layer1.0.conv1.weight"],
        ["conv1.0.weight", "conv3_1.0.weight", "conv3_1.0.bias", "predict_flow6.weight"],
        ["moduleBasic.0.moduleBasic.0.weight"],
    ],
    ids=["resnet", "flownet", "spynet"],
)
def test_a_checkpoint_of_another_network_is_refused_by_name(keys):
    with pytest.raises(WeightsError, match=f"of another network: .*'{min(keys)}'"):
        load({key: torch.zeros(3) for key in keys})
