"""Wrong usage: exit code 2, and nothing written."""

import inspect
from pathlib import Path

import pytest
import typer
from typer.models import OptionInfo

from pwcflow.cli import app
from pwcflow.cli.train_usage import told
from pwcflow.visualization import STYLES
from tests.command_line import files_below, invoke, process

BAD_USAGE = [
    ("video frames -o out --to gif", "--to is one of flo png npy npz pfm flo5 exr, not gif"),
    ("video frames -o out/v.mp4 --to png", "--to is for a folder of flows; give --flo DIR"),
    ("estimate 1.png 2.png", "give -o FLOW, --backward FLOW, --viz IMAGE"),
    ("video frames", "give -o OUT, --flo DIR or --viz FILE"),
    ("visualize flow.flo", "--output"),
    ("estimate 1.png -o out/a.flo", "SECOND"),
    ("estimate 1.png 2.png -o out/a.flo --precision fp8", "must be fp32, fp16, bf16 or auto: fp8"),
    ("estimate 1.png 2.png -o out/a.flo --max-flow 9", "--max-flow is for a colour image"),
    ("video frames -o out --max-flow 9", "--max-flow and --fps are for a colour video"),
    ("video frames --flo out --fps 9", "--max-flow and --fps are for a colour video"),
    ("video frames -o out/v.mp4 --overwrite", "--overwrite is for a folder of flows"),
    ("video frames -o out --flo out/f", "-o out and --flo out/f are both a folder of flows"),
    ("video frames -o out/v.mp4 --viz out/w.mp4", "are both a colour video"),
    ("video frames -o out --fps 0", "must be a number above 0"),
    ("nonsense", "nonsense"),
    *(
        (f"{command} --max-flow={number}", "must be a number above 0")
        for command in (
            "estimate 1.png 2.png --viz out/a.png",
            "video frames --viz out/v.mp4",
            "visualize flow.flo -o out/a.png",
        )
        for number in ("0", "-1", "nan", "inf")
    ),
    ("visualize flow.flo -o out/a.png --max-flow=much", "or one of frame, sequence, percentile"),
    *(
        (f"visualize flow.flo -o out/a.png {options}", message)
        for options, message in (
            ("--style rainbow", "there is no style rainbow; use wheel, arrows, streamlines"),
            ("--style heat --palette colorblind", "--palette is not for the style heat, but for"),
            ("--style overlay", "the style overlay needs --frame"),
            ("--style warp --frame 1.png", "the style warp needs --second"),
            ("--truth flow.flo", "--truth is not for the style wheel, but for error"),
            (
                "--style error --truth flow.flo --max-flow 9",
                "--max-flow is not for the style error",
            ),
            ("--style arrows --frame 1.png --background black", "not for arrows over a frame"),
            ("--opacity 0.5", "--opacity is not for the style wheel, but for overlay, occlusion"),
            ("--style overlay --frame 1.png --opacity 2", "--opacity"),
            ("--style arrows --spacing 1", "--spacing"),
            ("--gamma 0", "must be a number above 0"),
            ("--style arrows --spacing 10001", "--spacing"),
            ("--noise-floor -1", "must be a number from 0 to 1e9"),
            ("--noise-floor 1e10", "must be a number from 0 to 1e9"),
            ("--noise-floor 5 --max-flow 5", "--noise-floor 5 must be below --max-flow 5"),
            ("--unknown red-ish", "must be black, white, gray, or as #ff8000: red-ish"),
            ("--background blue", "must be white or black: blue"),
            ("--legend below", "must be none, inside or beside: below"),
            ("--palette viridis", "must be middlebury or colorblind: viridis"),
        )
    ),
    ("visualize folder -o out/a --style warp --frame frames --second 2.png", "--second is for one"),
    ("visualize flows -o out/a --fps 9", "--fps is for a video of a folder of flows; give such a"),
    ("visualize flow.flo -o out/a.mp4 --fps 9", "--fps is for a video of a folder of flows"),
    ("visualize flows -o out/a.mp4 --fps 0", "must be a number above 0"),
    ("estimate 1.png 2.png -o out/a.flo --style heat", "--style is for a colour image; give --viz"),
    ("estimate 1.png 2.png -o out/a.flo --truth flow.flo", "--truth is for a colour image"),
    ("estimate 1.png 2.png --viz out/a.png --style error", "the style error needs --truth"),
    ("video frames -o out --gamma 2", "--gamma is for a colour video; give --viz FILE too"),
    (
        "video frames -o out/v.mp4 --style occlusion",
        "write its flows, and give them to pwcflow vis",
    ),
    ("train --steps 1", "give -o DIR, or --preview PNG"),
    ("train -o out", "give the length of the run: --minutes or --steps"),
    ("train -o out --steps 1 --minutes 1", "length of the run by --minutes or --steps, not both"),
    ("train -o out --data kitti:frames --steps 5 --minutes 1", "or --steps, not both"),
    ("train -o out --steps 0", "--steps"),
    ("train -o out --minutes nan", "must be a number above 0"),
    ("train -o out --steps 1 --batch 65537", "'--batch'"),
    ("train -o out --steps 1 --batch 99999999999999999999", "'--batch'"),
    ("train -o out --steps 1 --motion 10000.5", "must be above 0, at most 10000: 10000.5"),
    ("train --preview out/a.png --motion 1e300", "must be above 0, at most 10000: 1e+300"),
    ("train -o out --steps 1 --motion nan", "must be above 0, at most 10000: nan"),
    ("train -o out --steps 1 --size 64", "must be such as 384x512: 64"),
    ("train -o out --steps 1 --size 0x64", "must be such as 384x512: 0x64"),
    ("train -o out --steps 1 --size 100x100", "must be multiples of 64: 100 x 100"),
    ("train -o out --steps 1 --seed -1", "--seed"),
    (f"train -o out --steps 1 --seed {2**63}", "--seed"),
    *(
        (f"train -o out --steps 1 --warm-up {share}", "must be a number from 0 up, below 1")
        for share in ("1", "-0.1", "nan")
    ),
    *(
        (
            f"train -o out --recipe default --minutes 1 {option}",
            f"decide {option.split()[0]}: leave",
        )
        for option in (
            "--size 384x512",
            "--lr 6e-4",
            "--warm-up 0.05",
            "--optimizer muon",
            "--robust 0.5",
            "--motion 13",
            "--init default",
            "--keep 0.2",
            "--data kitti:frames",
        )
    ),
    ("train -o out --recipe default --steps 1", "decide --steps: leave out one or the other"),
    ("train -o out --recipe default --steps 1 --lr 1", "decide --steps, --lr: leave out one or"),
    ("train -o out --recipe default", "the length of all stages of --recipe together: --minutes"),
    ("train -o out --recipe long --minutes 1", "must be default: long"),
    (
        "train --preview out/a.png --init default",
        "--preview does not train: leave out --init",
    ),
    (
        "train --preview out/a.png -o out --steps 5 --holdout x --photos y",
        "--preview does not train: leave out --output, --holdout, --steps",
    ),
    (
        "train -o out --steps 1 --holdout x",
        "--holdout measures on other images than those trained on: give --photos or --sprites",
    ),
    ("train --preview out/a.png --recipe default", "--preview does not train: leave out --recipe"),
    ("train --recipe default --minutes 1", "give -o DIR, or --preview PNG"),
    ("train -o out --steps 1 --init default --keep 1", "must be a number from 0 up, below 1: 1"),
    (
        "train -o out --recipe default --minutes 1 --keep-of default",
        "the stages of --recipe decide --keep-of: leave out one or the other",
    ),
    ("train -o out --steps 1 --init default --keep-of default", "--keep-of is what --keep is a"),
    ("train -o out --steps 1 --keep 0.2", "--keep is a share of the weights of --init: give that"),
]


@pytest.mark.parametrize(("line", "message"), BAD_USAGE, ids=[line for line, _ in BAD_USAGE])
def test_wrong_usage_ends_with_two_and_writes_nothing(inputs, line, message):
    result = invoke(*line.split())
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert files_below(inputs / "out") == []


EMPTY = [
    (["video", "frames", "-o", ""], "'--output' / '-o'"),
    (["video", "frames", "--output="], "'--output' / '-o'"),
    (["video", "frames", "--flo", ""], "'--flo'"),
    (["video", "frames", "--viz", ""], "'--viz'"),
    (["video", "", "-o", "out"], "'INPUT'"),
    (["video", "frames", "", "-o", "out"], "'INPUT'"),
    (["estimate", "1.png", "2.png", "-o", ""], "'--output' / '-o'"),
    (["visualize", "flow.flo", "-o", ""], "'--output' / '-o'"),
    (["convert", "flow.flo", "-o", ""], "'--output' / '-o'"),
    (["view", "flows", "-o", ""], "'--output' / '-o'"),
    (["bench", "-o", ""], "'--output' / '-o'"),
    (["info", ""], "'FILE'"),
    (["train", "--steps", "1", "-o", ""], "'--output' / '-o'"),
    (["train", "--steps", "1", "-o", "out", "--photos", "frames", "--photos", ""], "'--photos'"),
]


@pytest.mark.parametrize(("arguments", "name"), EMPTY, ids=[" ".join(line) for line, _ in EMPTY])
def test_an_empty_name_is_wrong_usage_and_nothing_is_written(inputs, arguments, name):
    before = files_below(inputs)
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    told = result.stderr.splitlines()[-1].replace("...'", "'")  # some Typers show dots
    assert told == f"Error: Invalid value for {name}: it is empty; give a value"
    assert files_below(inputs) == before


def test_an_empty_value_does_not_stop_a_completion():
    command = typer.main.get_command(app).commands["estimate"]
    context = command.make_context("estimate", ["", "-o", "x"], resilient_parsing=True)
    assert context.params["output"] == Path("x")


def test_the_process_of_a_wrong_usage_ends_with_two(inputs):
    assert process("estimate", "1.png", "2.png")[0] == 2


def option_helps(command):
    """Return what the help of a command says of each option, by its first name."""
    options = typer.main.get_command(app).commands[command].params
    return {option.opts[0]: getattr(option, "help", None) or "" for option in options}


@pytest.mark.parametrize("style", sorted(STYLES))
def test_the_help_of_a_video_names_the_styles_that_it_takes(inputs, style):
    """Those that look at more than frames are named by `visualize` alone."""
    refused = invoke("video", "one.mp4", "--viz", "out/a.mp4", "--style", style).exit_code == 2
    assert refused == (style in ("error", "occlusion"))
    told, of_all = option_helps("video"), option_helps("visualize")
    assert (style in told["--style"]) != refused
    assert not (refused and style in told["--legend"] + told["--opacity"])
    assert style in of_all["--style"]


def test_the_help_of_a_training_says_what_is_required():
    told = option_helps("train")
    assert "Required without --preview" in told["--output"]
    assert "This or --steps is required without --preview" in told["--minutes"]


def test_an_option_is_named_where_its_value_has_the_same_name():
    # Typer 0.27 takes `--MINUTES` for the option's name otherwise.
    taken = []
    for command in app.registered_commands:
        for name, parameter in inspect.signature(command.callback).parameters.items():
            for option in getattr(parameter.annotation, "__metadata__", ()):
                same = str(getattr(option, "metavar", None)).replace("-", "_") == name.upper()
                # In an annotation the first name stands where a default would.
                named = option.default is not ... if isinstance(option, OptionInfo) else True
                if same and not named:
                    taken.append(f"{command.callback.__name__}: {name}")
    assert taken == []


def test_a_training_is_told_with_all_that_it_was_measured_on():
    result = {
        "weights": "run/weights.safetensors",
        "pairs": 1,
        "outcome": "finished",
        "errors": {"training": 4.071, "holdout": 5.0},
        "errors_before": {"training": 5.158},
        "errors_of_no_motion": {"training": 2.506},
        "scores": {"sintel clean": {"pairs": 3, "end_point_error_px": 3.16362, "outliers": 0.1}},
    }
    assert told(result) == (
        "run/weights.safetensors: 1 pair, finished, error on training pairs 5.16 -> 4.07 px "
        "(no motion: 2.51 px), error on holdout pairs 5.00 px, on sintel clean 3.164 px"
    )
