"""The stages of a video, each alone and all together, so that one sees which one bounds."""

import shutil
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from pwcflow.bench.timing import Times, seconds
from pwcflow.errors import OutputError, PwcFlowError, VideoError
from pwcflow.estimator import UNRECORDED, FlowEstimator
from pwcflow.flow_file import Flow, write_flow
from pwcflow.image_file import Image
from pwcflow.outputs import check_folder, folder_for_now
from pwcflow.overlap import WriteBehind, prefetch
from pwcflow.pipeline import estimate_video
from pwcflow.runs.video_outputs import VideoOutputs
from pwcflow.runs.video_sink import FLOW_FILE_THREADS
from pwcflow.video import STDIN, FrameSource, open_frames
from pwcflow.video.camera import camera_number

KEPT_FRAMES = 9
"""Frames held in memory for the stages that do not read."""
PAIRS_AT_ONCE = {"cuda": 16, "cpu": 2}
"""Pairs in one sample of the network's time: on a GPU flows come in batches."""
FILES_AT_ONCE = 16
"""Files in one sample of the time of writing: several threads write them."""
_SHARE_OF_DISK = 0.9
_BYTES_PER_PIXEL = 8  # of a .flo file


@dataclass(frozen=True)
class Stage:
    """What one frame or pair takes in one stage, in milliseconds.

    The network and the writing are measured by groups of pairs, as they overlap some.
    """

    mean: float
    """What bounds the throughput."""
    times: Times

    @classmethod
    def of(cls, samples: list[float]) -> "Stage":
        """Return the figures of samples, in milliseconds."""
        return cls(sum(samples) / len(samples), Times.of(samples))


@dataclass(frozen=True)
class Decoded:
    """A video that was read once."""

    path: Path
    frames: int
    kept: list[Image]
    """The first frames."""
    stage: Stage


@dataclass(frozen=True)
class VideoCost:
    """What the stages of a video take, a pair, in milliseconds."""

    path: Path
    frames: int
    height: int
    width: int
    decode: Stage
    network: Stage
    write: Stage
    together: float

    def slowest(self) -> tuple[str, float]:
        """Return the name of the stage that bounds, and its mean."""
        stages = {"decode": self.decode, "network": self.network, "write": self.write}
        name = max(stages, key=lambda name: stages[name].mean)
        return name, stages[name].mean


def decode(path: Path) -> Decoded:
    """Read a video, or a folder of frames, to its end.

    Raises:
        PwcFlowError: it cannot be read, or not twice, or has fewer than two frames.
    """
    _check_lasting(path)
    kept: list[Image] = []
    samples: list[float] = []
    started = time.perf_counter()
    with open_frames(path) as source, closing(_read_as_video_does(source)) as frames:
        for frame in frames:
            now = time.perf_counter()
            samples.append((now - started) * 1e3)
            if len(kept) < KEPT_FRAMES:
                kept.append(frame)
            started = time.perf_counter()
    if len(kept) < 2:
        raise VideoError(f"{path} has one frame only; flow needs two")
    return Decoded(path, len(samples), kept, Stage.of(samples))


def _read_as_video_does(source: FrameSource) -> Generator[Image, None, None]:
    loads = source.loads()
    yield from (load() for load in islice(loads, 1))  # which the others have to be like
    with closing(prefetch(loads)) as frames:
        yield from frames


def _check_lasting(path: Path) -> None:
    """Raise `VideoError` of what is not there any more once it was read, or never ends."""
    is_camera = not path.exists() and camera_number(path) is not None
    is_pipe = path.exists() and not (path.is_file() or path.is_dir())  # or another device
    if path == STDIN or is_camera or is_pipe:
        what = "standard input" if path == STDIN else path
        raise VideoError(
            f"{what} cannot be measured: a video is read twice, and to its end; give a video file "
            "or a folder of frames"
        )


def check_room(decoded: Decoded, folder: Path | None) -> None:
    """Raise `OutputError` unless the folder can take the flows of the video.

    Args:
        decoded: the video.
        folder: it need not be there; the system's for temporary files when None.
    """
    if folder:
        check_folder(folder, "flow files go into a folder")
    with _scratch(folder) as scratch:
        free = shutil.disk_usage(scratch).free
    height, width = decoded.kept[0].shape[:2]
    needed = max(decoded.frames - 1, FILES_AT_ONCE) * height * width * _BYTES_PER_PIXEL
    if needed > _SHARE_OF_DISK * free:
        where = folder or scratch.parent
        raise OutputError(
            f"the flows of {decoded.path} need {needed / 1e9:.1f} GB, but {where} has "
            f"{free / 1e9:.1f} GB free; give a shorter video, or --output DIR on a larger disk"
        )


def measure_stages(
    decoded: Decoded, estimator: FlowEstimator, folder: Path | None, repeats: int
) -> VideoCost:
    """Return what the stages take; the flows are removed again, with the folders made for them.

    Args:
        decoded: the video.
        estimator: the network.
        folder: where flow files are written, made where missing; the system's for temporary files
            when None.
        repeats: samples of the network and of writing; all together is run once.

    Raises:
        PwcFlowError: a frame or its flow is unusable, or a flow cannot be written.
        KeyboardInterrupt: of an interruption; without a text, as nothing is kept.
    """
    flows, network = _network_alone(estimator, decoded.kept, repeats)
    with _scratch(folder) as scratch:
        write = _write_alone(flows, scratch, repeats)
    with _nothing_kept(), _scratch(folder) as scratch:
        outputs = VideoOutputs(folder=scratch / "flows")
        together = seconds(lambda: estimate_video(lambda: estimator, decoded.path, outputs))
    height, width = decoded.kept[0].shape[:2]
    return VideoCost(
        decoded.path,
        decoded.frames,
        height,
        width,
        decoded.stage,
        network,
        write,
        together * 1e3 / (decoded.frames - 1),
    )


@contextmanager
def _scratch(folder: Path | None) -> Iterator[Path]:
    """Yield a new folder in `folder`; afterwards it is gone, and whatever was made for it."""
    with ExitStack() as stack:
        if folder:
            stack.enter_context(folder_for_now(folder))
        yield Path(stack.enter_context(TemporaryDirectory(dir=folder, prefix="pwcflow-bench-")))


@contextmanager
def _nothing_kept() -> Iterator[None]:
    """Leave out what `estimate_video` tells of flows that it kept: they are removed here."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None
    except VideoError as error:
        if isinstance(error.__cause__, PwcFlowError):  # what it told that flows were kept before
            raise error.__cause__ from None
        raise


def _network_alone(
    estimator: FlowEstimator, frames: list[Image], repeats: int
) -> tuple[list[Flow], Stage]:
    """Return some flows between frames, and the time of a pair as `estimate_video` computes it.

    Each frame goes to the device and is encoded once, and each flow comes back.
    """
    at_once = PAIRS_AT_ONCE[estimator.device.type]
    with closing(_endless_flows(estimator, frames)) as endless:
        flows = list(islice(endless, at_once))  # warms up
        for _ in islice(endless, UNRECORDED if estimator.device.type == "cuda" else 0):
            pass  # from then on a GPU has it recorded
        samples = []
        for _ in range(repeats):
            started = time.perf_counter()
            for _ in islice(endless, at_once):
                pass
            samples.append((time.perf_counter() - started) * 1e3 / at_once)
    return flows[: KEPT_FRAMES - 1], Stage.of(samples)


def _write_alone(flows: list[Flow], folder: Path, repeats: int) -> Stage:
    """Return the time of a flow file, written as `estimate_video` does."""

    def write_one(number: int, flow: Flow) -> None:
        write_flow(_file(folder, number), flow)

    def write() -> None:
        with WriteBehind([[(write_one, FLOW_FILE_THREADS)]], lambda _: None) as behind:
            for flow in islice(cycle(flows), FILES_AT_ONCE):
                behind.write(flow)
            behind.finish()

    samples = []
    for _ in range(repeats + 1):
        samples.append(seconds(write) * 1e3 / FILES_AT_ONCE)
        for number in range(FILES_AT_ONCE):
            _file(folder, number).unlink()
    return Stage.of(samples[1:])  # the first one warms up


def _endless_flows(estimator: FlowEstimator, frames: list[Image]) -> Generator[Flow, None, None]:
    """Yield flows from frame to frame, there and back, for ever."""
    yield from estimator.flows(cycle([*frames, *frames[-2:0:-1]]))


def _file(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.flo"
