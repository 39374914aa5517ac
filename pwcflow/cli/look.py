"""The options that tell how a flow is shown."""

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pwcflow.cli.console import score_told
from pwcflow.cli.options import one_of, positive

if TYPE_CHECKING:
    from pwcflow.visualization import Look

_LARGEST_PX = 1e9  # what is above in a flow stands for unknown
_RULES = ("frame", "sequence", "percentile")
_COLORS = {"black": (0, 0, 0), "white": (255, 255, 255), "gray": (128, 128, 128)}


def _max_flow(text: str) -> float | str:
    if text in _RULES:
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise typer.BadParameter(f"must be a number above 0, or one of {', '.join(_RULES)}: {text}")
    return value


def _color(text: str) -> tuple[int, ...]:
    if text.lower() in _COLORS:
        return _COLORS[text.lower()]
    if not re.fullmatch("#?[0-9a-fA-F]{6}", text):
        raise typer.BadParameter(f"must be {', '.join(_COLORS)}, or as #ff8000: {text}")
    return tuple(bytes.fromhex(text.removeprefix("#")))


def _not_negative(value: float | None) -> float | None:
    if value is not None and not 0 <= value <= _LARGEST_PX:
        raise typer.BadParameter("must be a number from 0 to 1e9, as no motion is above")
    return value


def _style_option(names: str) -> Any:
    return typer.Option(metavar="NAME", help=f"What is shown: {names}.  [default: wheel]")


def _legend_option(others: str) -> Any:
    return typer.Option(
        metavar="none|inside|beside",
        parser=one_of("none", "inside", "beside"),
        help="Where wheel, arrow or colour bar explain the picture.  [default: none; beside for "
        f"{others}]",
    )


def _opacity_option(default: str) -> Any:
    return typer.Option(
        metavar="0..1",
        min=0.0,
        max=1.0,
        help=f"Of what lies over a frame.  [default: {default}]",
    )


StyleOption = Annotated[
    str | None,
    _style_option("wheel, arrows, streamlines, heat, overlay, side, warp, error or occlusion"),
]
VideoStyleOption = Annotated[
    str | None, _style_option("wheel, arrows, streamlines, heat, overlay, side or warp")
]
MaxFlowOption = Annotated[
    Any,
    typer.Option(
        metavar="PX|RULE",
        parser=_max_flow,
        help="Motion shown fully saturated, in pixels; or frame, the largest of each picture; "
        "sequence, of all; percentile, what 1 % of all pixels exceed.  [default: sequence]",
    ),
]
PaletteOption = Annotated[
    Any,
    typer.Option(
        metavar="middlebury|colorblind",
        parser=one_of("middlebury", "colorblind"),
        help="Colours of directions.  [default: middlebury]",
    ),
]
BackgroundOption = Annotated[
    Any,
    typer.Option(
        metavar="white|black",
        parser=one_of("white", "black"),
        help="Colour of no motion.  [default: white]",
    ),
]
GammaOption = Annotated[
    float | None,
    typer.Option(
        metavar="G",
        callback=positive,
        help="Above 1 shows slow motion stronger.  [default: 1]",
    ),
]
NoiseFloorOption = Annotated[
    float | None,
    typer.Option(
        metavar="PX",
        callback=_not_negative,
        help="Motion up to this counts as none.  [default: 0]",
    ),
]
UnknownOption = Annotated[
    Any,
    typer.Option(
        metavar="COLOR",
        parser=_color,
        help="Colour of unknown pixels, as #ff8000.  [default: black; gray on black]",
    ),
]
LegendOption = Annotated[Any, _legend_option("heat and error")]
VideoLegendOption = Annotated[Any, _legend_option("heat")]
SpacingOption = Annotated[
    int | None,
    typer.Option(
        metavar="PX",
        min=2,
        max=10_000,
        help="Distance of arrows or streamlines.  [default: in proportion to the picture]",
    ),
]
OpacityOption = Annotated[float | None, _opacity_option("0.75; 0.6 for occlusion")]
VideoOpacityOption = Annotated[float | None, _opacity_option("0.75")]
TruthOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", readable=False, help="True flow, for --style error."),
]


def chosen_look(
    *,
    without: str | None = None,
    max_flow: float | str | None = None,
    parts: tuple[str, ...] = (),
    has_record: Callable[[], bool] = lambda: False,
    beside: dict[str, Path | None] | None = None,
    **asked: Any,
) -> "Look":
    """Return what is chosen; wrong usage if it does not go together.

    Args:
        without: what `--viz` would write, if there is no such thing; None when there is.
        max_flow: the option.
        parts: the fields of a `Scene` that the command has at hand.
        has_record: whether a record may tell of the frames; asked where the style needs them.
        beside: those that options may give; None where there are no such options.
        asked: the fields of `Look`.
    """
    given = {name: value for name, value in asked.items() if value is not None}
    files = {name: path for name, path in (beside or {}).items() if path is not None}
    options = [*given, *(["max_flow"] if max_flow is not None else []), *files]
    if options and without:
        option = options[0].replace("_", "-")
        raise typer.BadParameter(f"--{option} is for {without}; give --viz FILE too")
    from pwcflow.visualization import Look, check_parts, style_of
    from pwcflow.visualization.scene import FRAMES

    try:
        look = Look(**given)
        style = style_of(look)
        if max_flow is not None and not style.has_scale:
            raise ValueError(f"--max-flow is not for the style {look.style}, which has no scale")
        floor = look.noise_floor or 0.0
        if isinstance(max_flow, float) and max_flow <= floor:
            raise ValueError(f"--noise-floor {floor:g} must be below --max-flow {max_flow:g}")
        if beside is None and not set(style.needs) <= set(parts):
            raise ValueError(
                f"the style {look.style} needs more than a video; write its flows, and give them "
                f"to pwcflow visualize --style {look.style}"
            )
        found = FRAMES if style.needs_frames and has_record() else ()
        check_parts(look, (*parts, *files, *found), tuple(files))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return look


def error_told(summary: Mapping[str, Any]) -> str:
    """Return what a summary says about the error that is shown, to end a sentence with."""
    if summary["style"] != "error":
        return ""
    measured = summary["flows_measured"]
    if not measured:
        return ", no pixel whose error is known"
    if measured < summary.get("images", 1):
        return f", mean of {measured} of these: {score_told(summary)}"
    return f", mean {score_told(summary)}"


def scale_told(summary: Mapping[str, Any]) -> str:
    """Return what a summary says about the scale, to end a sentence with."""
    from pwcflow.visualization import STYLES

    if summary["max_flow_px"] is not None:
        return f", {STYLES[summary['style']].scale_tells} {summary['max_flow_px']} px"
    return ", each to its own scale" if summary["scale"] == "frame" else ""
