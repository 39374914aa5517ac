"""The pictures of many flow files, all to one scale."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

from pwcflow.color.scale import FoundScale, MaxFlow
from pwcflow.errors import FlowFileError, ImageError, OutputError
from pwcflow.evaluation import Score
from pwcflow.flow_file import Flow, read_flow
from pwcflow.pipeline.flow_frames import FlowFrames
from pwcflow.visualization import Look, Picture, draw, scale_for, score_of, style_of
from pwcflow.visualization.scene_files import SceneFiles


class FlowPictures:
    """Pictures of flow files, in whose folder may lie what has no place there.

    Where the scale depends on all of them they are read twice, so that memory is for one only.

    Attributes:
        readings: how many files are read in all, for a progress bar.
        scale_px: the scale of all pictures in pixels, once it is known; None where each has its
            own, or none has one.
        scores: how far each flow that was drawn is from its true one; None where that is unknown.
    """

    def __init__(
        self,
        scenes: Mapping[Path, SceneFiles],
        look: Look,
        max_flow: MaxFlow | None,
        frames: FlowFrames | None = None,
    ) -> None:
        """Hold what is to be shown.

        Args:
            scenes: what belongs to each flow file, by the flow file, in order.
            look: style and options, which go together.
            max_flow: the magnitude shown fully saturated, or how it is found; when None the
                largest one of all, but at least 1 px.
            frames: gives the frames, where `scenes` have none.
        """
        self._frames = frames
        self._scenes = scenes
        self._look = look
        self._has_scale = style_of(look).has_scale
        self._rule: MaxFlow = max_flow or "sequence"
        self._is_to_be_found = self._has_scale and self._rule in ("sequence", "percentile")
        self._size: tuple[int, int] | None = None
        self.scores: list[Score | None] = []
        self.readings = len(scenes) * (1 + self._is_to_be_found)

    @property
    def scale_px(self) -> float | None:
        """See the class."""
        return float(self._rule) if self._has_scale and not isinstance(self._rule, str) else None

    def settle_size(self) -> tuple[int, int]:
        """Return height and width of the first flow, which all others must have from now on.

        Raises:
            FlowFileError: it cannot be read.
        """
        height, width = self._read(next(iter(self._scenes))).shape[:2]
        self._size = height, width
        return self._size

    def drawn(self, update: Callable[[], object]) -> Iterator[tuple[Path, Picture]]:
        """Find the scale, then yield each flow file with its picture, (H', W', 3) uint8 RGB.

        Args:
            update: called after each reading.

        Raises:
            PwcFlowError: a file cannot be read, or differs in size.
        """
        if self._is_to_be_found:
            found = FoundScale(self._rule, self._look.color_code().smallest_scale_px)
            for flow_file in self._scenes:
                found.add(self._read(flow_file))
                update()
            self._rule = found.scale()
            self._is_to_be_found = False
        used = style_of(self._look).parts
        with self._frames or nullcontext():
            for flow_file, beside in self._scenes.items():
                flow = self._read(flow_file)
                scene = beside.only(used).read(flow, flow_file)
                if self._frames:
                    scene = self._frames.added_to(scene, flow_file)
                with _naming(flow_file):
                    picture = draw(scene, self._look, scale_for(flow, self._rule, self._look))
                self.scores.append(score_of(scene))
                yield flow_file, picture
                update()

    def _read(self, flow_file: Path) -> Flow:
        try:
            flow = read_flow(flow_file)
        except FlowFileError as error:
            raise FlowFileError(f"{error}, or move it out of {flow_file.parent}") from error
        if self._size and flow.shape[:2] != self._size:
            first = next(iter(self._scenes))
            raise FlowFileError(
                f"{flow_file} is {flow.shape[1]} x {flow.shape[0]} pixels but {first} is "
                f"{self._size[1]} x {self._size[0]}, and the pictures of a video have one size; "
                f"move it out of {flow_file.parent}, or give a folder for images"
            )
        return flow


@contextmanager
def _naming(flow_file: Path) -> Iterator[None]:
    """Say of which flow it is that something does not fit, as there are many."""
    try:
        yield
    except (ImageError, OutputError) as error:
        raise type(error)(f"{flow_file}: {error}") from error
