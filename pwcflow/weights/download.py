"""Fetching a named checkpoint into the cache folder, whole, or not at all.

It is checked against its publisher's SHA-256, where there is one, and always for being loadable.
Where there is none, its SHA-256 is kept beside it, so that later damage does not go unnoticed.
"""

import http.client
import logging
import sys
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from tqdm import tqdm

from pwcflow.atomic_file import replacing
from pwcflow.errors import OutputError, WeightsError, reason_of
from pwcflow.weights.cache import cache_folder, checksum_file
from pwcflow.weights.catalogue import Checkpoint
from pwcflow.weights.files import is_web_page, load_tensors

_log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 30.0
_BLOCK_BYTES = 1 << 18


def fetch(checkpoint: Checkpoint, *, quiet: bool = False) -> Path:
    """Return the file of a checkpoint in the cache folder, downloaded if it is not there yet.

    The licence, and that no checksum is known if so, is logged as a warning before a download, so
    that it is seen.

    Args:
        checkpoint: one that has a URL.
        quiet: show no progress; none is shown either where stderr is not a terminal.

    Raises:
        WeightsError: the download failed, is not whole, is not the file expected where its
            SHA-256 is known, or cannot be stored. Nothing is left in the cache then.
    """
    target = cache_folder() / checkpoint.file_name
    try:
        if target.is_file():
            return target
        unchecked = "" if checkpoint.sha256 else "; no checksum is published for it"
        _log.warning("weights '%s': licence %s%s", checkpoint.name, checkpoint.licence, unchecked)
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as temporary:
            with temporary.open("wb") as file:
                found = _download(checkpoint, file, target, quiet)
            _check_loads(checkpoint, temporary, target)
            if not checkpoint.sha256:
                with replacing(checksum_file(target)) as kept:
                    kept.write_text(f"{found}  {target.name}\n", encoding="utf-8")
    except (OSError, OutputError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else error
        raise WeightsError(
            f"cannot keep weights '{checkpoint.name}' in the cache {target.parent}: {reason}; "
            "set PWCFLOW_CACHE to a folder with room that can be written"
        ) from error
    return target


def _download(checkpoint: Checkpoint, file: BinaryIO, target: Path, quiet: bool) -> str:
    """Copy what the checkpoint's URL gives into a file; return its SHA-256, which is checked."""
    request = Request(checkpoint.url, headers={"User-Agent": "pwcflow"})
    digest, received = sha256(), 0
    try:
        response = urlopen(request, timeout=_TIMEOUT_SECONDS)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _failed(checkpoint, target, _reason(error)) from error
    with response:
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdecimal() else None
        with tqdm(
            total=total,
            unit="B",
            unit_scale=True,
            desc=checkpoint.file_name,
            disable=True if quiet or sys.stderr is None else None,  # None: unless on a terminal
        ) as progress:
            while block := _read(response, checkpoint, target):
                if not received and is_web_page(block):
                    raise _failed(checkpoint, target, "the server answered with a web page")
                file.write(block)
                digest.update(block)
                received += len(block)
                progress.update(len(block))
    if total is not None and received != total:
        reason = f"the connection was cut after {received} of {total} bytes"
        raise _failed(checkpoint, target, reason)
    if not digest.hexdigest().startswith(checkpoint.sha256):
        reason = (
            f"the file's SHA-256 is {digest.hexdigest()}, but must begin with {checkpoint.sha256}, "
            "so it is another file or was changed on its way"
        )
        raise _failed(checkpoint, target, reason)
    return digest.hexdigest()


def _read(response: http.client.HTTPResponse, checkpoint: Checkpoint, target: Path) -> bytes:
    try:
        return response.read(_BLOCK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise _failed(checkpoint, target, _reason(error)) from error


def _check_loads(checkpoint: Checkpoint, temporary: Path, target: Path) -> None:
    """Refuse what cannot be loaded: not every server says how long its file is."""
    try:
        load_tensors(temporary)
    except WeightsError as error:
        reason = "what the server sent is not a whole checkpoint"
        raise _failed(checkpoint, target, reason) from error


def _reason(error: BaseException) -> str:
    """Return why a request failed, for a person."""
    if isinstance(error, HTTPError):
        error.close()
        return f"the server answered {error.code} {error.reason}"
    if isinstance(error, URLError):
        if isinstance(error.reason, str):
            return error.reason
        error = error.reason
    if isinstance(error, TimeoutError):
        return f"the server was silent for {_TIMEOUT_SECONDS:.0f} seconds"
    reason = reason_of(error) if isinstance(error, OSError) else str(error)
    return reason or type(error).__name__


def _failed(checkpoint: Checkpoint, target: Path, reason: str) -> WeightsError:
    return WeightsError(
        f"cannot download weights '{checkpoint.name}' from {checkpoint.url}: {reason}; try again, "
        f"or get the file another way and put it at {target} or give the file in place of its name"
    )
