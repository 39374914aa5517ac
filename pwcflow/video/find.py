"""Which videos are meant by files, folders, patterns and lists, and where each of them goes."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path

from pwcflow.errors import VideoError, reason_of
from pwcflow.image_file import IMAGE_SUFFIXES
from pwcflow.video import STDIN, frames_in, natural_key, natural_path_key, open_frames
from pwcflow.video.camera import camera_number
from pwcflow.video.frame_files import is_frame, is_pattern

VIDEO_INPUT_SUFFIXES = {
    ".3g2", ".3gp", ".asf", ".avi", ".divx", ".dv", ".flv", ".gif", ".m1v", ".m2ts", ".m2v", ".m4v",
    ".mjpeg", ".mjpg", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".mxf", ".nut", ".ogm",
    ".ogv", ".rm", ".rmvb", ".ts", ".vob", ".webm", ".wmv", ".y4m",
}  # fmt: skip
"""Suffixes, in lower case, of videos in folders; one that is named by itself may have any."""
_BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}


@dataclass(frozen=True)
class FoundVideo:
    """A video file or a folder of frames."""

    path: Path
    place: Path
    """Its own folder within the one of the outputs: never that of another video."""


def single_video(inputs: Sequence[str], lists: Sequence[Path]) -> Path | None:
    """Return the video, when what is given names one, and not many in some form.

    It does not depend on how many a folder, pattern or list happens to hold just now.
    """
    if lists or len(inputs) != 1:
        return None
    (text,) = inputs
    path = Path(text)
    if not _exists(path) and (text.startswith("@") or _stands_for_videos(text)):
        return None
    return None if path.is_dir() and not _is_one_video(_entries(path)) else path


def find_videos(
    inputs: Sequence[str], lists: Sequence[Path], outputs: Iterable[Path]
) -> list[FoundVideo]:
    """Return the videos that are meant, each once, in order.

    A file goes by its name and what a folder or pattern finds by its path in there, names kept
    whole: `clips/a/1.mp4`, found in `clips`, goes to `a/1.mp4`. Where that would put two videos
    into one place they go by their paths from the folder that they have in common.

    Args:
        inputs: files, folders, patterns with `*`, `?`, `[` and `**`, and lists as `@FILE`. A folder
            that holds images is one video; in any other, videos and folders of images are looked
            for at any depth. A file that is not there is returned: whoever opens it will tell.
        lists: files of such inputs, one a line.
        outputs: folders in which to find nothing, as the results lie there.

    Raises:
        VideoError: a list cannot be read, a pattern or folder has no videos, or two videos cannot
            be told apart.
    """
    skipped = {os.path.realpath(output) for output in outputs}
    found: dict[str, tuple[Path, Path]] = {}  # path and root, by the absolute path
    for text in _expanded(inputs, lists):
        for path, root in _videos_of(text, skipped):
            found.setdefault(os.path.normpath(path.absolute()), (path, root))
    if not found:
        raise VideoError("no videos are named by the lists; write one a line")
    if all(is_frame(path) for path, _ in found.values()):  # a shell has expanded frames/*.png
        path, _ = next(iter(found.values()))
        with open_frames(path):  # says so; or they move, each of them
            pass
    return _placed(found)


def files_of(video: Path) -> list[Path] | None:
    """Return the files that make up a video; None for what is not in files.

    Of a pattern with `%04d` it is all the images beside them.
    """
    if video.is_dir():
        return frames_in(video)
    if not _exists(video) and has_magic(str(video)):
        return sorted(filter(is_frame, _matches(str(video))), key=natural_path_key)
    if not _exists(video) and is_pattern(video):
        return frames_in(video.parent)
    return None if video == STDIN or _is_camera(video) else [video]


def places_of_frames(video: Path) -> set[tuple[str, str | None]]:
    """Return where an image would be one of a video's frames, or take its place, once written.

    Returns:
        folders, without links, and the suffix that the image would need there; None for any.
    """
    if video.is_dir():
        return {(os.path.realpath(video), None)}
    if _exists(video) or not is_pattern(video):
        return set()
    if not has_magic(str(video)):
        return {(os.path.realpath(video.parent), None)}
    return {(os.path.realpath(path.parent), path.suffix) for path in files_of(video) or ()}


def _expanded(inputs: Sequence[str], lists: Sequence[Path]) -> Iterator[str]:
    for text in inputs:
        if text.startswith("@") and not _exists(Path(text)):
            yield from _read_list(Path(text[1:]))
        else:
            yield text
    for path in lists:
        yield from _read_list(path)


def _read_list(path: Path) -> Iterator[str]:
    """Yield the entries of a list; blank lines and those that begin with `#` are none.

    A relative entry is looked for from where we are, as on a command line, then beside the list.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise VideoError(f"there is no list {path}; check the name and the folder") from error
    except OSError as error:
        raise VideoError(f"cannot read the list {path}: {reason_of(error)}; check it") from error
    if b"\0" in data and data[:2] not in _BYTE_ORDER_MARKS:
        raise VideoError(f"{path} is not a list, which is text with one video a line")
    marks = (encoding for mark, encoding in _BYTE_ORDER_MARKS.items() if data.startswith(mark))
    encoding = next(marks, "utf-8")
    text = data.decode(encoding, "replace" if encoding == "utf-16" else "surrogateescape")
    for line in text.split("\n"):
        entry = line.removesuffix("\r")
        if not _exists(Path(entry)):
            entry = entry.strip()
            if len(entry) > 1 and entry[0] == entry[-1] == '"':  # as Windows copies a path
                entry = entry[1:-1]
        if not entry.strip() or entry.startswith("#"):
            continue
        beside = str(path.parent / entry)
        yield beside if not _matches(entry) and _matches(beside) else entry


def _videos_of(text: str, skipped: set[str]) -> Iterator[tuple[Path, Path]]:
    """Yield each video that an input means, and the folder from which its place is counted."""
    path = Path(text)
    if _exists(path) or not has_magic(text):
        yield from _below(path, path if path.is_dir() else path.parent, skipped, given=True)
        return
    root = path
    while has_magic(str(root)):
        root = root.parent
    if not _stands_for_videos(text):  # but for the images of one
        yield path, root
        return
    any_suffix = Path(text).suffix not in ("", ".*") and not has_magic(Path(text).suffix)
    nothing = True
    for match in sorted(_matches(text), key=natural_path_key):
        if not (match.is_dir() or any_suffix or _is_video(match)) or _lies_in(match, skipped):
            continue
        if "**" in text and match.is_dir() and not _is_one_video(_entries(match)):
            continue  # its videos match by themselves
        for video in _below(match, root, skipped, given=False):
            nothing = False
            yield video
    if nothing:
        raise VideoError(f"no video matches {text}; check the pattern, and quote it in a shell")


def _below(
    path: Path, root: Path, skipped: set[str], *, given: bool
) -> Iterator[tuple[Path, Path]]:
    if not path.is_dir():
        yield path, root
    elif _is_one_video(_entries(path)):
        yield path, Path(os.path.normpath(path.absolute())).parent if path == root else root
    else:
        if _lies_in(path, skipped):
            raise VideoError(f"{path} is to take the results; choose another folder for them")
        nothing = True
        for video in _walk(path, skipped, set()):
            nothing = False
            yield video, root
        if nothing and given:
            raise VideoError(
                f"{path} holds no images and no videos; give a folder of frames, of videos, or of "
                "folders of them"
            )


def _walk(folder: Path, skipped: set[str], parents: set[str]) -> Iterator[Path]:
    """Yield the videos in a folder, itself if it is one, at any depth."""
    real = os.path.realpath(folder)
    if _lies_in(folder, skipped) or real in parents:  # results, or a link that leads back
        return
    entries = _entries(folder)
    one_video = _is_one_video(entries)
    if one_video:
        yield folder
    for entry in sorted(entries, key=natural_key):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _walk(entry, skipped, {*parents, real})
        elif not one_video and _is_video(entry):
            yield entry


def _lies_in(path: Path, folders: set[str]) -> bool:
    real = Path(os.path.realpath(path))
    return any(str(folder) in folders for folder in (real, *real.parents))


def _is_one_video(entries: list[Path]) -> bool:
    """Return whether a folder with these entries is a video's frames: more images than videos.

    Neither does a picture make a collection of videos one, nor a video that was made of frames.
    """
    images = sum(map(is_frame, entries))
    return images > 0 and images > sum(map(_is_video, entries))


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise VideoError(
            f"cannot read the folder {folder}: {reason_of(error)}; check its permissions"
        ) from error


def _placed(found: dict[str, tuple[Path, Path]]) -> list[FoundVideo]:
    places = {absolute: _place(absolute, *found[absolute]) for absolute in found}
    alike: dict[str, list[str]] = {}
    for absolute, place in places.items():
        alike.setdefault(os.path.normcase(place), []).append(absolute)
    for several in alike.values():
        if len(several) > 1:
            places.update(_told_apart(several))
    taken: dict[str, str] = {}
    for absolute, place in places.items():
        other = taken.setdefault(os.path.normcase(place), absolute)
        if other != absolute:
            raise VideoError(
                f"{found[other][0]} and {found[absolute][0]} would both go into {place}; give the "
                "folder that they have in common instead"
            )
    return [FoundVideo(path, places[absolute]) for absolute, (path, _) in found.items()]


def _place(absolute: str, path: Path, root: Path) -> Path:
    """Return the path from the root; of frames given by a pattern, the name of their folder."""
    top = os.path.normpath(root.absolute())
    if has_magic(str(path)) and not _exists(path):
        return Path(Path(top).name)
    return Path(absolute).relative_to(top)


def _told_apart(several: list[str]) -> Iterator[tuple[str, Path]]:
    try:
        common = os.path.commonpath(map(os.path.dirname, several))
    except ValueError:  # on two drives
        return
    for absolute in several:
        yield absolute, Path(absolute).relative_to(common)


def _stands_for_videos(text: str) -> bool:
    """Return whether a pattern means several videos, and not the frames of one."""
    return has_magic(text) and Path(text).suffix.lower() not in IMAGE_SUFFIXES


def _matches(text: str) -> list[Path]:
    """Return what a name or pattern stands for: of a file that has both, the file."""
    if _exists(Path(text)):
        return [Path(text)]
    found: dict[str, Path] = {}
    for name in glob(text, recursive=True):  # noqa: PTH207 - that takes no "/*"
        # A link to a folder above makes one file many; one that leads nowhere makes none.
        if os.path.exists(name):  # noqa: PTH110
            found.setdefault(os.path.realpath(name), Path(name))
    return list(found.values())


def _exists(path: Path) -> bool:
    return os.path.lexists(path)


def _is_camera(path: Path) -> bool:
    return camera_number(path) is not None and not _exists(path)


def _is_video(path: Path) -> bool:
    visible = not path.name.startswith(".")
    return visible and path.suffix.lower() in VIDEO_INPUT_SUFFIXES and path.is_file()
