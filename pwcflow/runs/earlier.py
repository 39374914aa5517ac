"""What an earlier run left in a folder: to be gone on with, done already, or not to be touched."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pwcflow.errors import OutputError
from pwcflow.frame_selection import ALL_FRAMES, FrameSelection
from pwcflow.runs.flow_files import numbered_flows, usable_flows
from pwcflow.runs.provenance import (
    RECORD_NAME,
    Maker,
    Record,
    RunRecord,
    difference,
    input_of,
    record_or_fault,
    recorded_suffix,
)
from pwcflow.runs.video_outputs import MADE_OF_VIZ, VideoOutputs
from pwcflow.video_writer import shows_all

if TYPE_CHECKING:
    from pwcflow.estimator import FlowEstimator


@dataclass(frozen=True)
class EarlierRun:
    """What there is to go on from."""

    outputs: VideoOutputs
    video: Path
    selection: FrameSelection
    identity: Record
    """What identifies the input, and what is taken of it."""
    record: Record | None
    """That of the earlier run, on the same input; None when a run is to begin anew."""

    def check(self, maker: Maker) -> None:
        """Raise `OutputError` unless `maker` would compute what is there."""
        if self.record:
            _check_same(self.outputs, difference(self.record, self.identity, maker))

    def usable_flows(self, height: int, width: int) -> int:
        """Return how many flow files can stay, from the first on, of a video of this size."""
        if not self.record or not self.outputs.folder:
            return 0
        return usable_flows(self.outputs.folder, height, width, self.outputs.suffix)

    def is_done(self) -> bool:
        """Return whether there is nothing left to do."""
        if not self.record or self.record.get("complete") is not True:
            return False
        viz, asked = self.record.get("viz"), self.outputs.viz_settings()
        if asked is not None:
            # as much as is asked for, and no more: an option of before may be left out now
            before = viz.items() if viz else ()
            same = {name: value for name, value in before if name not in MADE_OF_VIZ} == asked
            if not same or not self._shows_all():
                return False
        height, width = self.record.get("height", 0), self.record.get("width", 0)
        return not self.outputs.folder or self.usable_flows(height, width) == self.record.get(
            "flows"
        )

    def _shows_all(self) -> bool:
        """Return whether the colour video is whole, which only reading it can tell."""
        assert self.record, "asked for with one"
        assert self.outputs.viz, "asked for one"
        flows, fps = self.record.get("flows"), self.record["viz"].get("fps")
        if flows is None or fps is None:
            return False
        return shows_all(self.outputs.viz, flows, fps)

    def new_record(
        self, estimator: "FlowEstimator", height: int, width: int, kept: int
    ) -> RunRecord | None:
        """Return the record of the run that begins; None when it has no folder of its own."""
        folder = self.outputs.record_folder()
        if folder is None:
            return None
        devices = str(self.record.get("device", "")).split(", ") if self.record and kept else []
        if str(estimator.device) not in devices:
            devices.append(str(estimator.device))
        return RunRecord(
            folder=folder,
            video=self.identity,
            weights=estimator.weights.name,
            weights_sha256=estimator.weights.sha256,
            precision=estimator.precision,
            network_scale=estimator.network_scale,
            devices=devices,
            height=height,
            width=width,
            suffix=self.outputs.suffix if self.outputs.folder else recorded_suffix(self.record),
        )


def find_earlier_run(
    outputs: VideoOutputs, video: Path, selection: FrameSelection = ALL_FRAMES
) -> EarlierRun:
    """Return what there is in the folder that is to take the flows of a video.

    Args:
        outputs: where the flows shall go; their folder is locked by now.
        video: the input.
        selection: what is taken of it.

    Raises:
        OutputError: the folder holds flows of another input, or of nobody knows what, and they
            may not be overwritten.
        VideoError: the input is not there or cannot be read.
    """
    folder = outputs.record_folder()
    if folder is None:
        return EarlierRun(outputs, video, selection, {}, None)
    identity = input_of(video, selection.settings())
    found = record_or_fault(folder)
    record = None if isinstance(found, str) else found
    recorded = recorded_suffix(record)
    if outputs.folder and recorded != outputs.suffix:
        _check_not_of_others(folder, outputs.suffix, found if isinstance(found, str) else None)
    flows = numbered_flows(folder, recorded)
    alone = outputs.folder is None and outputs.viz is not None and outputs.viz.exists()
    if outputs.overwrite or not (flows or alone):
        return EarlierRun(outputs, video, selection, identity, None)
    if isinstance(found, str):
        raise OutputError(
            f"{folder} holds flows already, of an earlier run, but its {RECORD_NAME}, which tells "
            f"what made them, {found}; put that file back to go on with them, give --overwrite to "
            "remove them, or another folder"
        )
    _check_same(outputs, difference(found, identity, None))
    if outputs.folder and recorded != outputs.suffix:
        _check_same(outputs, f"as {recorded}, now as {outputs.suffix}")
    return EarlierRun(outputs, video, selection, identity, record)


def _check_not_of_others(folder: Path, suffix: str, fault: str | None) -> None:
    """Raise `OutputError` for files that no run is known to have made, such as images."""
    others = numbered_flows(folder, suffix)
    if others:
        why = f", as {RECORD_NAME} beside it {fault}; put that back, or" if fault else ";"
        raise OutputError(
            f"{others[0]} is named as a flow would be, but no run is known to have made it{why} "
            "choose another folder"
        )


def _check_same(outputs: VideoOutputs, other: str | None) -> None:
    if other is not None:
        raise OutputError(
            f"{outputs.record_folder()} holds flows {other}; give --overwrite to remove them, or "
            "another folder"
        )
