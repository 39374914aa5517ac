"""The command line: each command parses its arguments, hands them on, and tells what was done.

Exit codes: 0 ok, 1 an input or the environment (one line on stderr), 2 usage, 130 interrupted.
"""

import errno
import json
import logging
import math
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from pwcflow import __version__
from pwcflow.errors import OutputError, PwcFlowError

if TYPE_CHECKING:
    from pwcflow.estimator import FlowEstimator

INTERRUPTED = 130

# How PyTorch's allocators and libraries say it: on a GPU, on a CPU, on Windows, in cuDNN.
_OUT_OF_MEMORY = re.compile("out of memory|allocate memory|not enough memory|alloc_failed", re.I)
_NOT_IN_A_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")

app = typer.Typer(
    help="Dense optical flow from files: PWC-Net on a GPU or a CPU.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class Precision(str, Enum):
    """The arithmetic of the network; flow itself is always float32."""

    fp32 = "fp32"
    fp16 = "fp16"
    bf16 = "bf16"


def _positive(value: float | None) -> float | None:
    if value is not None and not (value > 0 and math.isfinite(value)):
        raise typer.BadParameter("must be a number above 0")
    return value


WeightsOption = Annotated[
    str, typer.Option(help="A checkpoint's name or file.", metavar="NAME|FILE")
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:INDEX.")]
PrecisionOption = Annotated[Precision, typer.Option(help="Arithmetic of the network.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Print errors only.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON summary on stdout.")]
MaxFlowOption = Annotated[
    float | None,
    typer.Option(help="Motion in pixels shown fully saturated.", metavar="PX", callback=_positive),
]


@app.command(
    epilog="""\b
Examples:
  pwcflow estimate one.png two.png -o flow.flo
  pwcflow estimate one.png two.png --viz flow.png --max-flow 20
""",
)
def estimate(
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="The first image.")],
    second: Annotated[
        Path, typer.Argument(metavar="SECOND", help="The image after it, of the same size.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Flow file: .flo, .npy or KITTI .png."),
    ] = None,
    viz: Annotated[Path | None, typer.Option(help="Colour image of the flow.")] = None,
    max_flow: MaxFlowOption = None,
    weights: WeightsOption = "default",
    device: DeviceOption = "auto",
    precision: PrecisionOption = Precision.fp32,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the flow that carries FIRST onto SECOND."""
    if not (output or viz):
        raise typer.BadParameter("give -o FLOW, --viz IMAGE, or both")
    with _friendly_errors(quiet):
        from pwcflow.pipeline import estimate_pair

        summary = estimate_pair(
            _loader(weights, device, precision, quiet),
            first,
            second,
            output=output,
            viz=viz,
            max_flow=max_flow,
        )
        size = f"{summary['width']} x {summary['height']} pixels"
        motion = f"largest motion {summary['largest_motion_px']} px"
        _tell(f"{_both(output, viz)}: {size}, {motion}", summary, quiet=quiet, as_json=as_json)


@app.command(
    epilog="""\b
Examples:
  pwcflow video clip.mp4 -o flows
  pwcflow video clip.mp4 -o flow.mp4 --precision fp16
  pwcflow video frames/ --flo flows --viz flow.mp4 --fps 30
""",
)
def video(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="A video file or a folder of frames.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A folder for .flo files, or a colour video's file."),
    ] = None,
    flo: Annotated[Path | None, typer.Option(help="Folder for .flo files.", metavar="DIR")] = None,
    viz: Annotated[Path | None, typer.Option(help="Colour video.", metavar="FILE")] = None,
    max_flow: MaxFlowOption = None,
    fps: Annotated[
        float | None,
        typer.Option(help="Frames per second of the colour video.", callback=_positive),
    ] = None,
    weights: WeightsOption = "default",
    device: DeviceOption = "auto",
    precision: PrecisionOption = Precision.fp32,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write the flow between each two consecutive frames of SOURCE.

    N frames give N - 1 flows, each named by the number of its first frame: 000000.flo and so on.
    """
    if not (output or flo or viz):
        raise typer.BadParameter("give -o OUT, --flo DIR or --viz FILE")
    with _friendly_errors(quiet):
        from pwcflow.pipeline import estimate_video

        folder, movie = _video_outputs(output, flo, viz)
        summary = estimate_video(
            _loader(weights, device, precision, quiet),
            source,
            folder=folder,
            viz=movie,
            max_flow=max_flow,
            fps=fps,
            progress=not quiet,
        )
        size = f"{summary['width']} x {summary['height']} pixels"
        flows = f"{summary['flows']} flows"
        _tell(f"{_both(folder, movie)}: {flows} of {size}", summary, quiet=quiet, as_json=as_json)


@app.command(
    epilog="""\b
Examples:
  pwcflow visualize flow.flo -o flow.png
  pwcflow visualize flows/ -o colours --max-flow 30
""",
)
def visualize(
    source: Annotated[
        Path, typer.Argument(metavar="FLOW", help="A flow file or a folder of them.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="An image, or for a folder a folder.")
    ],
    max_flow: MaxFlowOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write Middlebury colour images of flow files; unknown pixels are black.

    A folder has one scale for all its files, so that a vector has one colour throughout.
    """
    with _friendly_errors(quiet):
        from pwcflow.pipeline import visualize_file, visualize_folder

        if source.is_dir():
            summary = visualize_folder(source, output, max_flow=max_flow, progress=not quiet)
        else:
            summary = visualize_file(source, output, max_flow=max_flow)
        images = "1 image" if summary["images"] == 1 else f"{summary['images']} images"
        scale = f"fully saturated at {summary['max_flow_px']:.4g} px"
        _tell(f"{output}: {images}, {scale}", summary, quiet=quiet, as_json=as_json)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"pwcflow {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line. SIGTERM and a closed terminal are interruptions, as Ctrl-C is."""
    for name in ("SIGTERM", "SIGHUP"):  # Windows has no SIGHUP; under nohup it is ignored
        number = getattr(signal, name, None)
        if number and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    app()


def _loader(
    weights: str, device: str, precision: Precision, quiet: bool
) -> Callable[[], "FlowEstimator"]:
    def load() -> "FlowEstimator":
        from pwcflow.estimator import FlowEstimator  # torch loads here

        return FlowEstimator(weights, device, precision.value, quiet=quiet)

    return load


def _video_outputs(
    output: Path | None, flo: Path | None, viz: Path | None
) -> tuple[Path | None, Path | None]:
    """Return the folder of flows and the colour video that the three options ask for."""
    from pwcflow.video_writer import VIDEO_SUFFIXES

    if output is None:
        return flo, viz
    if output.suffix.lower() in VIDEO_SUFFIXES and not output.is_dir():
        if viz:
            raise OutputError(f"-o {output} and --viz {viz} are both a colour video; drop one")
        return flo, output
    if flo:
        raise OutputError(f"-o {output} and --flo {flo} are both a folder of flows; drop one")
    if output.suffix and not output.is_dir():
        known = ", ".join(sorted(VIDEO_SUFFIXES))
        raise OutputError(
            f"{output} is neither a video that can be written ({known}) nor a folder that exists; "
            "for a new folder with a dot in its name use --flo"
        )
    return output, viz


@contextmanager
def _friendly_errors(quiet: bool) -> Iterator[None]:
    """Turn a user's mistake into one line and exit code 1; anything else is ours and shows."""
    logging.basicConfig(
        format="pwcflow: %(message)s", level=logging.ERROR if quiet else logging.WARNING
    )
    try:
        yield
    except PwcFlowError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        _print("interrupted; what was finished is kept", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        if error.errno == errno.EPIPE:  # who read our output has left: Typer ends without a word
            raise
        what = f"cannot use {error.filename}" if error.filename else "cannot read or write"
        reason = (error.strerror or str(error)).lower()
        _fail(f"{what}: {reason}; check the path, its permissions and the disk")
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not _OUT_OF_MEMORY.search(str(error)):
            raise
        where = "the GPU has" if "cuda" in str(error).lower() else "there is"
        _fail(f"{where} not enough memory for this size; use smaller images or another --device")


def _fail(message: str) -> NoReturn:
    _print(f"error: {message}", err=True)
    raise typer.Exit(1) from None


def _both(*paths: Path | None) -> str:
    return " and ".join(str(path) for path in paths if path)


def _tell(sentence: str, summary: dict[str, Any], *, quiet: bool, as_json: bool) -> None:
    """Print what was done on stdout: the summary as JSON, a sentence, or nothing."""
    if as_json:
        _print(json.dumps(summary))
    elif not quiet:
        _print(sentence)


def _print(text: str, *, err: bool = False) -> None:
    """Print one line, whatever is in it: names of files may hold line ends and escape codes."""
    line = _NOT_IN_A_LINE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
    encoding = getattr(sys.stderr if err else sys.stdout, "encoding", None) or "utf-8"
    typer.echo(line.encode(encoding, "backslashreplace").decode(encoding), err=err)
