"""The options that tell which frames of a video are taken, and at what size."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from pwcflow.frame_selection import (
    FrameSelection,
    parse_moment,
    parse_raw,
    parse_reader,
    parse_size,
)

_T = TypeVar("_T")


def _usage(parse: Callable[[str], _T]) -> Callable[[str], _T]:
    """Return a parser whose `ValueError` is the user's wrong usage."""

    def parsed(text: str) -> _T:
        try:
            return parse(text)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error

    return parsed


StartOption = Annotated[
    Any,
    typer.Option(
        metavar="FRAME|TIME",
        parser=_usage(parse_moment),
        help="The first frame taken: its number, from 0, or a time as 12.5s or 1:30.",
    ),
]
EndOption = Annotated[
    Any,
    typer.Option(
        metavar="FRAME|TIME",
        parser=_usage(parse_moment),
        help="The frame to stop before: its number or time.",
    ),
]
StepOption = Annotated[int, typer.Option(metavar="N", min=1, help="Take every Nth frame.")]
ResizeOption = Annotated[
    Any,
    typer.Option(
        "--resize",
        metavar="WxH",
        parser=_usage(parse_size),
        help="Resize frames first; the flow is that of the resized ones.",
    ),
]
ScaleOption = Annotated[
    float | None, typer.Option(metavar="F", help="Multiply both sides of frames first.")
]
MaxSideOption = Annotated[
    int | None,
    typer.Option(
        metavar="PX", min=1, help="Shrink frames whose longer side has more pixels, to so many."
    ),
]
RawOption = Annotated[
    Any,
    typer.Option(
        metavar="WxH:LAYOUT",
        parser=_usage(parse_raw),
        help="The input is frames without a header, as 640x360:rgb24.",
    ),
]
ReaderOption = Annotated[
    str,
    typer.Option(
        metavar="auto|opencv|av",
        help="What decodes videos; av is PyAV, for AV1, interlaced video and more than 8 bits.",
    ),
]


def frame_selection(**values: Any) -> FrameSelection:
    """Return the selection that the options make; wrong usage if they do not go together."""
    given = {name: value for name, value in values.items() if value is not None}
    try:
        return FrameSelection(**{**given, "reader": parse_reader(given.get("reader", "auto"))})
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
