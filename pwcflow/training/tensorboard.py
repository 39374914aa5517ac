"""A run's numbers and pictures as TensorBoard reads them."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from pwcflow.errors import OutputError, reason_of
from pwcflow.image_file import Image


def import_tensorboard() -> Any:
    """Return PyTorch's module that writes for TensorBoard.

    Raises:
        OutputError: the package that it needs is not installed.
    """
    try:
        return import_module("torch.utils.tensorboard")
    except ImportError as error:
        raise OutputError(
            "files for TensorBoard cannot be written: this needs the package tensorboard "
            f"({error}); run: pip install 'pwcflow[tensorboard]'"
        ) from error


class EventFile:
    """Appends to the event files of a folder, which TensorBoard shows as one run."""

    def __init__(self, folder: Path, *, resumed_at: int) -> None:
        """Open a new event file.

        Args:
            folder: made if missing.
            resumed_at: the step that the run goes on from, -1 for one that made none. What an
                earlier file tells of later steps, which are now made again, is no longer shown.

        Raises:
            OutputError: the package is missing, or the file cannot be written.
        """
        library = import_tensorboard()
        self._folder = folder
        self._excepthook = threading.excepthook
        threading.excepthook = self._told_later
        try:
            with self._writing():
                self._writer = library.SummaryWriter(str(folder), purge_step=resumed_at + 1)
        except OutputError:
            threading.excepthook = self._excepthook
            raise

    def add_numbers(self, group: str, numbers: Mapping[str, object], step: int) -> None:
        """Add those of the values that are numbers, each under its own name."""
        with self._writing():
            for name, value in numbers.items():
                if isinstance(value, int | float):
                    self._writer.add_scalar(f"{group}/{name}", value, step)

    def add_picture(self, group: str, name: str, image: Image, step: int) -> None:
        """Add an image, and let all there is so far be seen."""
        with self._writing():
            self._writer.add_image(f"{group}/{name}", image, step, dataformats="HWC")
            self._writer.flush()

    def close(self) -> None:
        """Write what is left."""
        try:
            with self._writing():
                self._writer.close()
        finally:
            threading.excepthook = self._excepthook

    def _told_later(self, args: threading.ExceptHookArgs) -> None:
        """Pass over what the thread that writes could not write: the next call here raises it."""
        its_own = type(args.thread).__module__.startswith("tensorboard.")
        if not (its_own and isinstance(args.exc_value, OSError)):
            self._excepthook(args)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(
                f"cannot write {self._folder}: {reason_of(error)}; check its folder and the disk"
            ) from error
