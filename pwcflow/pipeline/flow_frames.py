"""The two frames of each flow, out of the video or the folder that the flows were made of."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path

from pwcflow.errors import ImageError, PwcFlowError, VideoError
from pwcflow.image_file import Image
from pwcflow.runs.frames_at_hand import FramesAtHand
from pwcflow.runs.provenance import RECORD_NAME
from pwcflow.runs.recorded_frames import OpenFrames, frame_number_of, recorded_frames
from pwcflow.video import open_frames
from pwcflow.visualization import Scene

FRAMES = "frame", "second"
"""The fields of a `Scene` that are frames."""


def has_record(flows: Path) -> bool:
    """Return whether a `pwcflow.json` lies beside a flow file, or in a folder at any depth."""
    if flows.is_dir():
        return next(flows.rglob(RECORD_NAME), None) is not None
    return (flows.parent / RECORD_NAME).is_file()


class FlowFrames(AbstractContextManager["FlowFrames"]):
    """Gives the frames of one flow after the other, decoding those of each folder once.

    A context manager: leaving it closes what is open.

    Attributes:
        inputs: the videos, or folders, that are read.
    """

    def __init__(
        self, inputs: Sequence[Path], open_them: Mapping[Path, OpenFrames], at: Mapping[Path, int]
    ) -> None:
        """Hold what is known.

        Args:
            inputs: see the class.
            open_them: opens the frames of the flows in a folder, by the folder.
            at: the number of the first frame of each flow among those, from 0, by the flow file.
        """
        self.inputs = inputs
        self._open = open_them
        self._at = at
        self._closing = ExitStack()
        self._folder: Path | None = None
        self._passed = 0  # pairs of the folder that were taken, the one held with them

    @classmethod
    def recorded(cls, flow_files: Sequence[Path]) -> "FlowFrames":
        """Return those of the frames that the `pwcflow.json` beside the flows tells of.

        Args:
            flow_files: of one folder or several.

        Raises:
            VideoError: they are not there any more, or were never known.
            OutputError: a record is there and cannot be read.
        """
        inputs, open_them, at = [], {}, {}
        for folder in dict.fromkeys(path.parent for path in flow_files):
            flows = [path for path in flow_files if path.parent == folder]
            found = recorded_frames(flows)
            if found.open is None or found.path is None:
                raise VideoError(f"{found.why_none}; name the frames of {folder} with --frame")
            inputs.append(Path(found.path))
            open_them[folder] = found.open
            at.update({path: frame_number_of(path) or 0 for path in flows})
        return cls(inputs, open_them, at)

    @classmethod
    def of_video(cls, flow_files: Sequence[Path], video: Path) -> "FlowFrames":
        """Return those of a video whose frames are one more than the flows, and in their order.

        Args:
            flow_files: all of one folder.
            video: what `open_frames` takes and can be read twice.

        Raises:
            VideoError: it cannot be read, or has another number of frames, or there are several
                folders.
        """
        folder, *others = dict.fromkeys(path.parent for path in flow_files)
        if others:
            raise VideoError(
                f"the frames of {video} cannot be those of both {folder} and {others[0]}; name one "
                "of these, or a folder of frames with the same folders in it"
            )
        with open_frames(video) as source:
            frames = sum(1 for _ in source)
        if frames != len(flow_files) + 1:
            raise VideoError(
                f"{video} has {frames} frames, but the {len(flow_files)} flows of {folder} go from "
                f"frame to frame of {len(flow_files) + 1}; name the video that they were made of, "
                f"or leave --frame out where there is {RECORD_NAME}"
            )
        at = {path: number for number, path in enumerate(flow_files)}
        return cls([video], {folder: lambda: open_frames(video)}, at)

    def __exit__(self, *_: object) -> None:
        """Close what is open."""
        self._closing.close()

    def added_to(self, scene: Scene, flow_file: Path, parts: Collection[str]) -> Scene:
        """Return a scene of a flow with those of its two frames that are among `parts`.

        Raises:
            ImageError: they cannot be read, or are not as many.
        """
        try:
            first, second = self._pair_of(flow_file)
        except PwcFlowError as error:  # no end of what is written, as a video's own end would be
            raise ImageError(f"there are no frames for {flow_file}: {error}") from error
        return replace(
            scene,
            frame=first if "frame" in parts else scene.frame,
            second=second if "second" in parts else scene.second,
        )

    def _pair_of(self, flow_file: Path) -> tuple[Image, Image]:
        number = self._at[flow_file]
        if flow_file.parent != self._folder or number < self._passed - 1:
            self._closing.close()
            self._folder, self._passed = flow_file.parent, 0
            source = self._closing.enter_context(self._open[flow_file.parent]())
            self._frames = FramesAtHand(iter(source))
        while self._passed <= number:
            self._pair = self._frames.pair()
            self._passed += 1
        return self._pair
