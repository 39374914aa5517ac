"""What a training run is told, and what it tells when it is over."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pwcflow.network import check_size

Outcome = Literal["finished", "interrupted", "diverged"]
OptimizerName = Literal["adamw", "muon"]
ImageCounts = dict[str, dict[str, int]]
"""By validation set, how many `photographs` and `cut_outs` its scenes are made of, or real `pairs`
are cropped from."""


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """All that a run depends on, but for the images that its pairs are made of."""

    output: Path
    """Folder of the checkpoint, the weights and the log; made if missing."""
    batch: int = 16
    """Pairs in a step, on each device."""
    height: int = 384
    width: int = 512
    steps: int | None = None
    """Length of the run; give this or `minutes`."""
    minutes: float | None = None
    """Length of the run without its preparations; a resumed run has what is left."""
    optimizer: OptimizerName = "adamw"
    """What turns gradients into steps: `FlatAdamW` or `FlatMuon`."""
    peak_lr: float = 3e-4
    warm_share: float = 0.05
    """Share of the run in which the learning rate rises."""
    weight_decay: float = 1e-4
    clip: float = 1.0
    """Largest norm of a gradient; a larger one is scaled down."""
    ema: float = 0.999
    """Decay of the averaged weights."""
    q: float | None = None
    """Power of the errors in the loss; see `multiscale_loss`."""
    seed: int = 0
    """Of the initial weights."""
    device: str = "auto"
    devices: int = 1
    """Number of GPUs, or processes on the CPU; above 1 they are started here."""
    graphs: bool = True
    """On a GPU, replay each step as CUDA graphs."""
    motion: float | None = None
    """Of the scenes that are rendered, in pixels: their `SceneSettings.typical_motion`; None for
    real pairs. Kept here for the checkpoint: `run_training` fills it in."""
    log_every: int = 100
    tensorboard: bool = False
    """Write what is logged for TensorBoard too."""
    validate_every: int | None = None
    """Steps between two measurements on the validation pairs; None for one before and one after."""
    validation_batches: int = 16
    """Of `batch` pairs each, in each validation set."""
    checkpoint_minutes: float = 5.0
    """Time between two checkpoints; less in a short run, see `checkpoint_seconds`."""
    init: str | Path | None = None
    """Weights to start from, as `load_weights` takes them; None starts from scratch."""
    keep: float = 0.0
    """Share of other weights in those measured and written; the rest is the average.

    It keeps what those weights do better on images unlike those trained on. Source: Wortsman
    et al., "Robust fine-tuning of zero-shot models", CVPR 2022 (arXiv 2109.01903), section 3, where
    alpha is 1 - keep.
    """
    keep_of: str | Path | None = None
    """The weights to keep a share of, as `load_weights` takes them; None for the initial ones."""
    resume: bool = False
    """Go on from the checkpoint in `output`; begin where there is none yet."""
    echo: bool = False
    """Write the log to stderr too."""

    def __post_init__(self) -> None:
        """Refuse what makes no run.

        Raises:
            ValueError: a setting is out of range, or the length is given twice or not at all.
        """
        if (self.steps is None) == (self.minutes is None):
            raise ValueError("give the length of the run in steps or in minutes, one of the two")
        counts = ("batch", "height", "width", "devices", "log_every", "validate_every")
        for name in (*counts, "validation_batches"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1: {value}")
        for name in ("steps", "minutes", "peak_lr", "clip", "q", "checkpoint_minutes"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be above 0: {value}")
        for name in ("warm_share", "ema", "keep"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be in 0..1, and not 1: {getattr(self, name)}")
        if self.keep and self.init is None and not self.resume:
            raise ValueError("keep must be 0 without init: it is a share of such weights")
        if self.keep_of is not None and not self.keep:
            raise ValueError("keep must be above 0 with keep_of: it is a share of them")
        if self.optimizer not in get_args(OptimizerName):
            raise ValueError(f"optimizer must be adamw or muon: {self.optimizer}")
        check_size(self.height, self.width)

    @property
    def checkpoint_path(self) -> Path:
        """Where the state of the run is kept."""
        return self.output / "checkpoint.pt"

    @property
    def length_seconds(self) -> float | None:
        """Length of the run; None if its steps say it."""
        return None if self.minutes is None else 60.0 * self.minutes

    @property
    def checkpoint_seconds(self) -> float:
        """Time between two checkpoints: at most a fifth of the run, if its minutes are given."""
        minutes = self.checkpoint_minutes
        return 60.0 * (minutes if self.minutes is None else min(minutes, self.minutes / 5))

    @property
    def weights_path(self) -> Path:
        """Where the weights to use are written at the end."""
        return self.output / "weights.safetensors"

    @property
    def log_path(self) -> Path:
        """Where each interval leaves a line."""
        return self.output / "log.jsonl"

    @property
    def events_path(self) -> Path:
        """The folder of TensorBoard's event files."""
        return self.output / "tensorboard"

    def as_plain(self) -> dict[str, Any]:
        """Return the settings as plain values, for a file."""
        return {
            name: str(value) if isinstance(value, Path) else value
            for name, value in asdict(self).items()
        }


@dataclass(frozen=True)
class Summary:
    """What a run came to."""

    outcome: Outcome
    step: int
    """Steps done, those before a resumption included."""
    pairs: int
    """Pairs seen, by all devices."""
    seconds: float
    loss: float | None
    """Mean over the last interval of the log; None before there was one."""
    epe_px: float | None
    skipped: int
    """Steps whose gradient was not finite, which changed nothing, since the run was resumed."""
    errors_before: dict[str, float]
    """Mean end-point error in pixels by validation set, of what would be written before the first
    step, before a resumption too, but for sets of other images since; empty without validation."""
    errors: dict[str, float]
    """The same at the last validation after some steps; empty if there was none."""
    errors_of_no_motion: dict[str, float]
    """On the same pairs, of weights that find no flow at all: the mean length of the true one."""
    images: ImageCounts
    """Those that the pairs were made of."""
    checkpoint: Path
    weights: Path
    log: Path
