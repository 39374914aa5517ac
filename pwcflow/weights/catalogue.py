"""The checkpoints that have a name: where each comes from, what it learned from, its licence."""

from dataclasses import dataclass

_NVIDIA_LICENCE = (
    "CC BY-NC-SA 4.0, as NVIDIA released PWC-Net's weights: non-commercial use only, share alike"
)
_PYTORCH_PWC = "http://content.sniklaus.com/github/pytorch-pwc/"
_PTLFLOW = "https://github.com/hmorimitsu/ptlflow/releases/download/weights1/"


@dataclass(frozen=True)
class Checkpoint:
    """Facts about one checkpoint; `url` is empty for the one that is part of the package."""

    name: str
    file_name: str
    trained_on: str
    licence: str
    url: str = ""
    sha256: str = ""
    """As much of the file's SHA-256, from its start, as its publisher gives; may be empty."""

    def matches(self, sha256: str) -> bool:
        """Return whether the file with this SHA-256 is known to be this checkpoint."""
        return bool(self.sha256) and sha256.startswith(self.sha256)


_ALL = (
    Checkpoint(
        name="default",
        file_name="default.safetensors",
        trained_on="synthetic pairs rendered from freely licensed photographs",
        licence="MIT, like pwcflow: commercial use is allowed",
        sha256="d7f4dc3a3cea0d09fc49add0acacae7d77661e63197757ed6b26a0d8d7a850f4",
    ),
    # The Caffe models of the paper's authors, converted. The first is their entry
    # in the Robust Vision Challenge, which learned from Sintel's training set.
    # Their server speaks plain http and publishes no checksum: a change on the way goes unnoticed.
    Checkpoint(
        name="pytorch-pwc-default",
        file_name="network-default.pytorch",
        trained_on="FlyingChairs, FlyingThings3D, then Sintel, KITTI 2015 and HD1K",
        licence=_NVIDIA_LICENCE,
        url=f"{_PYTORCH_PWC}network-default.pytorch",
    ),
    Checkpoint(
        name="pytorch-pwc-chairs-things",
        file_name="network-chairs-things.pytorch",
        trained_on="FlyingChairs, FlyingThings3D",
        licence=_NVIDIA_LICENCE,
        url=f"{_PYTORCH_PWC}network-chairs-things.pytorch",
    ),
    # ptlflow's files called "pwcnet-..." are a network without the context network: not ours.
    # Open: with which channel order did these two learn? Here they get BGR, as the others do. So
    # did ptlflow once (images of cv2.imread, no flip anywhere), with the very file
    # "cc223701"; today's ptlflow turns them to RGB for this network, but not for its "pwcnet-...".
    Checkpoint(
        name="ptlflow-things",
        file_name="pwcdcnet-things-cc223701.ckpt",
        trained_on="FlyingChairs, FlyingThings3D",
        licence="CC BY-NC-SA 4.0, as ptlflow states: non-commercial use only, share alike",
        url=f"{_PTLFLOW}pwcdcnet-things-cc223701.ckpt",
        sha256="cc223701",
    ),
    Checkpoint(
        name="ptlflow-sintel",
        file_name="pwcdcnet-sintel-c7d08a46.ckpt",
        trained_on="FlyingChairs, FlyingThings3D, then a mix with Sintel",
        licence="CC BY-NC-SA 4.0, as ptlflow states: non-commercial use only, share alike",
        url=f"{_PTLFLOW}pwcdcnet-sintel-c7d08a46.ckpt",
        sha256="c7d08a46",
    ),
)
CHECKPOINTS = {checkpoint.name: checkpoint for checkpoint in _ALL}
"""Every named checkpoint by its name, the shipped one first."""
