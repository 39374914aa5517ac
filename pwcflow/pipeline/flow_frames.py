"""The two frames of each flow, out of the video or the folder that the flows were made of."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from pwcflow.errors import ImageError, PwcFlowError, VideoError
from pwcflow.frame_selection import ALL_FRAMES
from pwcflow.image_file import Image
from pwcflow.runs.frames_at_hand import FramesAtHand
from pwcflow.runs.named_frames import selection_for
from pwcflow.runs.recorded_frames import (
    OpenFrames,
    frame_number_of,
    has_record,
    recorded_frames,
)
from pwcflow.video import open_frames
from pwcflow.visualization import Scene
from pwcflow.visualization.scene_files import by_folder, check_count


class FlowFrames(AbstractContextManager["FlowFrames"]):
    """Gives the frames of one flow after the other, decoding those of each folder once.

    A context manager: leaving it closes what is open.

    Attributes:
        inputs: the videos, or folders, that are read.
    """

    def __init__(
        self,
        inputs: Sequence[Path],
        open_frames_of: Mapping[Path, OpenFrames],
        numbers: Mapping[Path, int],
    ) -> None:
        """Hold what is known.

        Args:
            inputs: see the class.
            open_frames_of: opens the frames of the flows in a folder, by the folder.
            numbers: that of the first frame of each flow among those, from 0, by the flow file.
        """
        self.inputs = inputs
        self._open_frames_of = open_frames_of
        self._numbers = numbers
        self._closing = ExitStack()
        self._folder: Path | None = None
        self._frames = FramesAtHand(iter(()))
        self._passed = 0  # pairs taken of that folder; the last is `_pair`
        self._pair: tuple[Image, Image] | None = None

    @classmethod
    def recorded(cls, flow_files: Sequence[Path], remedy: str) -> "FlowFrames":
        """Return those of the frames that the `pwcflow.json` beside the flows tells of.

        Args:
            flow_files: of one folder or several.
            remedy: what helps whyever there are none, to end a message with.

        Raises:
            VideoError: they are not there any more, or were never known.
            OutputError: a record is there and cannot be read.
        """
        inputs, open_frames_of, numbers = [], {}, {}
        for folder, flows in by_folder(flow_files).items():
            found = recorded_frames(flows)
            if found.open is None or found.path is None:
                why = f"{found.why_none}{', or' if found.has_remedy else ';'}"
                raise VideoError(f"no frames for the flows of {folder}: {why} {remedy}")
            inputs.append(Path(found.path))
            open_frames_of[folder] = found.open
            for path in flows:
                if (number := frame_number_of(path)) is not None:
                    numbers[path] = number
        return cls(inputs, open_frames_of, numbers)

    @classmethod
    def of_video(cls, flow_files: Sequence[Path], video: Path) -> "FlowFrames":
        """Return those of a video whose frames are one more than the flows, and in their order.

        Of a video with other frames, too, it is those that were taken of it by the record beside
        the flows; see `selection_for`.

        Args:
            flow_files: all of one folder.
            video: what `open_frames` takes and can be read twice.

        Raises:
            VideoError: it cannot be read, or there are several folders.
            ImageError: it has another number of frames.
            OutputError: a record is there and cannot be read.
        """
        folder, *others = by_folder(flow_files)
        if others:
            raise VideoError(
                f"the frames of {video} cannot be those of both {folder} and {others[0]}; name one "
                "of these, or a folder of frames with the same folders in it"
            )
        selection = selection_for(flow_files, video)
        if selection is None:
            with open_frames(video) as source:
                check_count(video, sum(1 for _ in source), "frame", flow_files)
        opened = partial(open_frames, video, selection or ALL_FRAMES)
        return cls([video], {folder: opened}, _in_order(flow_files))

    @classmethod
    def of_folders(cls, root: Path, flow_files: Sequence[Path], frames: Path) -> "FlowFrames":
        """Return those of folders of frames of which only some were taken, by the records.

        Folders of which all frames are those of the flows, or none fit, are left to `scenes_of`.

        Args:
            root: the folder of the flows.
            flow_files: those in it, at any depth.
            frames: a folder with the same folders in it.

        Raises:
            OutputError: a record is there and cannot be read.
        """
        inputs, open_frames_of = [], {}
        numbers: dict[Path, int] = {}
        for folder, flows in by_folder(flow_files).items():
            source = frames / folder.relative_to(root)
            if not source.is_dir() or not has_record(flows[0]):
                continue
            selection = selection_for(flows, source)
            if selection and selection != ALL_FRAMES:
                inputs.append(source)
                open_frames_of[folder] = partial(open_frames, source, selection)
                numbers |= _in_order(flows)
        return cls(inputs, open_frames_of, numbers)

    @property
    def folders(self) -> Collection[Path]:
        """Those whose flows have their frames here."""
        return self._open_frames_of.keys()

    def __exit__(self, *_: object) -> None:
        """Close what is open."""
        self._closing.close()

    def added_to(self, scene: Scene, flow_file: Path) -> Scene:
        """Return a scene of a flow with its two frames, if its folder is one of `folders`.

        Flows of a folder must follow each other, in the order of their frames.

        Raises:
            ImageError: they cannot be read, or end before the flows do.
        """
        if flow_file.parent not in self.folders:
            return scene
        try:
            first, second = self._pair_of(flow_file)
        except PwcFlowError as error:  # no VideoError, on which a video keeps what is written
            raise ImageError(f"there are no frames for {flow_file}: {error}") from error
        return replace(scene, frame=first, second=second)

    def _pair_of(self, flow_file: Path) -> tuple[Image, Image]:
        if flow_file.parent != self._folder:
            self._closing.close()
            self._folder, self._passed, self._pair = flow_file.parent, 0, None
            source = self._closing.enter_context(self._open_frames_of[flow_file.parent]())
            self._frames = FramesAtHand(iter(source))
        while self._pair is None or self._passed <= self._numbers[flow_file]:
            self._pair = self._frames.pair()
            self._passed += 1
        return self._pair


def _in_order(flow_files: Sequence[Path]) -> dict[Path, int]:
    """Return the number of each flow's first frame, from 0, as they follow each other."""
    return {path: number for number, path in enumerate(flow_files)}
