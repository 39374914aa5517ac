"""Imports follow the architecture downwards, and heavy packages stay where they belong."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pwcflow

PACKAGE = Path(pwcflow.__file__).parent
# From the ground up: a module imports only from the lines above its own.
LAYERS = [
    {"counted", "errors", "frame_selection", "held_stderr", "plain_json", "processors", "progress"},
    {"opencv_log", "openexr_log"},
    {"atomic_file", "cuda_kernels", "cudnn", "device", "exr_header", "made_folders"},
    {"image_file", "locks", "warp"},
    {"ops"},
    {"decoder_head", "decoder_input", "dense_block", "flow_file", "network", "video"},
    {"aligned", "color", "datasets", "mirror", "overlap", "video_writer", "weights"},
    {"evaluation"},
    {"inference", "outputs", "visualization"},
    {"gpu_color"},
    {"estimator"},
    {"training"},
    {"runs"},
    {"pipeline", "viewer"},
    {"bench"},
    {"cli"},
    {"__main__", "__init__"},
]
TORCH_FREE = {
    "__init__", "atomic_file", "cli", "color", "counted", "datasets", "errors", "evaluation",
    "exr_header", "flow_file", "frame_selection", "held_stderr", "image_file", "locks",
    "made_folders", "mirror", "opencv_log", "openexr_log", "outputs", "overlap", "pipeline",
    "plain_json", "processors", "progress", "runs", "video", "video_writer", "viewer",
    "visualization",
}  # fmt: skip


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE)
        yield relative.parts[0].removesuffix(".py"), path


def imports(path, *, at_run_time_of_functions):
    """Yield the absolute modules that a file imports, those only for type checking left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = set()
    for node in ast.walk(tree):
        types_only = isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        later = isinstance(node, ast.FunctionDef) and not at_run_time_of_functions
        if types_only or later:
            skipped.update(map(id, ast.walk(node)))
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module


def test_no_module_imports_upwards():
    height = {name: level for level, names in enumerate(LAYERS) for name in names}
    for name, path in modules():
        assert name in height, f"{name} has no layer: give it one"
        for module in imports(path, at_run_time_of_functions=True):
            parts = module.split(".")
            if parts[0] != "pwcflow" or len(parts) == 1:
                continue
            same_package = parts[1] == name
            assert same_package or height[parts[1]] < height[name], f"{path} imports {module}"


def test_one_file_imports_cupy():
    users = {
        str(path.relative_to(PACKAGE))
        for _, path in modules()
        for module in imports(path, at_run_time_of_functions=True)
        if module.split(".")[0] in ("cupy", "cupy_backends")
    }
    assert users == {"cuda_kernels.py"}


def test_modules_before_the_estimator_import_no_torch():
    for name, path in modules():
        if name in TORCH_FREE:
            found = list(imports(path, at_run_time_of_functions=False))
            assert "torch" not in {module.split(".")[0] for module in found}, path


@pytest.mark.parametrize(
    "command",
    [
        "import pwcflow",
        "import pwcflow.cli",
        "from pwcflow import read_flow, flow_to_color, read_image",
        "import pwcflow.pipeline",
    ],
)
def test_neither_torch_nor_cupy_is_needed_to(command):
    blocked = "import sys; sys.modules['torch'] = sys.modules['cupy'] = None; "
    run = subprocess.run([sys.executable, "-c", blocked + command], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_a_broken_cupy_is_not_touched_on_the_cpu():
    script = (
        "import sys; sys.modules['cupy'] = None\n"
        "import numpy, pwcflow\n"
        "flow = pwcflow.FlowEstimator(device='cpu')(*numpy.zeros((2, 64, 64, 3), numpy.uint8))\n"
        "assert flow.shape == (64, 64, 2)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""


def test_every_public_name_exists():
    for name in pwcflow.__all__:
        assert getattr(pwcflow, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pwcflow.nothing
