"""Many videos one after the other: what one of them has is no matter to the others."""

import errno
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from pwcflow.errors import FlowFileError, ImageError, OutputError, VideoError, memory_shortage
from pwcflow.frame_selection import ALL_FRAMES, FrameSelection
from pwcflow.locks import InUseError
from pwcflow.outputs import check_folder
from pwcflow.pipeline import FindMaker, LoadEstimator, Summary, estimate_video
from pwcflow.runs.video_outputs import VideoOutputs
from pwcflow.video.find import FoundVideo

VIZ_NAME = "flow.mp4"
"""The colour video of each of many videos, in a folder of its own."""

_NO_USE_TO_GO_ON = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}


def estimate_videos(
    load_estimator: LoadEstimator,
    videos: Sequence[FoundVideo],
    outputs: VideoOutputs,
    *,
    selection: FrameSelection = ALL_FRAMES,
    find_maker: FindMaker = lambda: None,
    progress: bool = False,
) -> Summary:
    """Write the flows of many videos, each into its own place, as `estimate_video` does.

    A video that cannot be used is told in the summary, and the next one follows. One that another
    process is at is passed over.

    Args:
        load_estimator: returns the estimator to use; called once, unless it fails.
        videos: which, and their places.
        outputs: `folder` and `viz` are the folders in which the places are.
        selection: which frames of each are taken, and at what size.
        find_maker: as for `estimate_video`; called once.
        progress: show progress bars on stderr.

    Raises:
        OutputError: the folders cannot be written into, or the disk is full.
        WeightsError, DeviceError: nothing can be computed.
        KeyboardInterrupt: of an interruption; its text says how far it came.
    """
    for folder in filter(None, (outputs.folder, outputs.viz)):
        check_folder(folder, "what is made of many videos goes into a folder")
    started = time.monotonic()
    results: list[Summary] = []
    load_once, find_once = cache(load_estimator), cache(find_maker)
    for number, found in enumerate(videos, 1):
        label = f"{number}/{len(videos)} {found.path.name}"
        own = _outputs_of(found, outputs)
        try:
            result = estimate_video(
                load_once,
                found.path,
                own,
                selection=selection,
                find_maker=find_once,
                progress=progress,
                label=label,
            )
        except InUseError as error:
            result = {"video": str(found.path), "outcome": "skipped", "reason": str(error)}
        except (FlowFileError, ImageError, OutputError, VideoError) as error:
            if _no_use_to_go_on(error):
                raise OutputError(f"{error}; {_so_far(results, len(videos))}") from error
            result = _failed(found, str(error))
        except (MemoryError, RuntimeError) as error:
            shortage = memory_shortage(error)
            if shortage is None:
                raise
            result = _failed(found, shortage)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_so_far(results, len(videos))) from None
        results.append(result)
    outcomes = Counter(result["outcome"] for result in results)
    return {
        "videos": len(results),
        **{outcome: outcomes[outcome] for outcome in ("done", "skipped", "failed")},
        "results": results,
        "seconds": round(time.monotonic() - started, 3),
    }


def _outputs_of(found: FoundVideo, outputs: VideoOutputs) -> VideoOutputs:
    return replace(
        outputs,
        folder=outputs.folder and outputs.folder / found.place,
        viz=outputs.viz and outputs.viz / found.place / VIZ_NAME,
        own_folders=True,
    )


def _failed(found: FoundVideo, reason: str) -> Summary:
    named = str(found.path) in reason
    return {
        "video": str(found.path),
        "outcome": "failed",
        "reason": reason if named else f"{found.path}: {reason}",
    }


def _no_use_to_go_on(error: BaseException | None) -> bool:
    """Return whether the next video would meet the same: a full disk, or one that is read-only."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _NO_USE_TO_GO_ON:
            return True
        error = error.__cause__
    return False


def _so_far(results: Sequence[Summary], videos: int) -> str:
    finished = sum(result["outcome"] != "failed" for result in results)
    return f"{finished} of {videos} videos are done; the same command goes on with the rest"
