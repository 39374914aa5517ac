"""Downloads from a server in this process: whole files are cached, and nothing else."""

import hashlib
import io
import logging
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import torch

from pwcflow.errors import WeightsError
from pwcflow.weights.cache import cache_folder
from pwcflow.weights.catalogue import Checkpoint
from pwcflow.weights.download import fetch
from pwcflow.weights.identity import provenance_of_named


def checkpoint_bytes():
    buffer = io.BytesIO()
    torch.save({"conv.weight": torch.zeros(200_000)}, buffer)
    return buffer.getvalue()


GOOD = checkpoint_bytes()
PAGE = b"<!DOCTYPE html><html><body>Please sign in</body></html>"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        match self.path:
            case "/good":
                self.answer(GOOD, len(GOOD))
            case "/page":
                self.answer(PAGE, len(PAGE))
            case "/cut":
                self.answer(GOOD[: len(GOOD) // 2], len(GOOD))
            case "/cut-unannounced":
                self.answer(GOOD[: len(GOOD) // 2], None)
            case "/empty":
                self.answer(b"", 0)
            case _:
                self.send_error(404)

    def answer(self, data, length):
        self.send_response(200)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.requests = []
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PWCFLOW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache"


def checkpoint_at(server, page, sha256=""):
    return checkpoint_on(server.server_port, page, sha256)


def checkpoint_on(port, page, sha256=""):
    return Checkpoint(
        name="test",
        file_name="test.pth",
        trained_on="nothing",
        licence="for tests only",
        url=f"http://127.0.0.1:{port}/{page}",
        sha256=sha256,
    )


def assert_refused(checkpoint, cache, reason):
    with pytest.raises(WeightsError) as caught:
        fetch(checkpoint)
    message = str(caught.value)
    assert reason in message
    assert checkpoint.url in message
    assert str(cache / "test.pth") in message
    assert "or give the file in place of its name" in message
    assert "\n" not in message
    assert list(cache.iterdir()) == []


def test_a_file_is_downloaded_once_and_its_licence_shown(server, cache, caplog):
    checkpoint = checkpoint_at(server, "good", hashlib.sha256(GOOD).hexdigest())
    with caplog.at_level(logging.WARNING):
        assert fetch(checkpoint) == cache / "test.pth"
    assert (cache / "test.pth").read_bytes() == GOOD
    assert "licence for tests only" in caplog.text
    assert "checksum" not in caplog.text
    assert fetch(checkpoint) == cache / "test.pth"
    assert server.requests == ["/good"]
    assert list(cache.iterdir()) == [cache / "test.pth"]


def test_it_is_told_that_no_checksum_is_known(server, caplog):
    with caplog.at_level(logging.WARNING):
        fetch(checkpoint_at(server, "good"))
    assert "licence for tests only; no checksum is published for it" in caplog.text


def test_a_file_without_a_published_hash_is_held_against_what_was_downloaded(server, cache):
    checkpoint = checkpoint_at(server, "good")
    path = fetch(checkpoint)
    expected = hashlib.sha256(GOOD).hexdigest()
    assert (cache / "test.pth.sha256").read_text() == f"{expected}  test.pth\n"
    assert sorted(cache.iterdir()) == [path, cache / "test.pth.sha256"]
    assert provenance_of_named(checkpoint, path).sha256 == expected

    changed = bytearray(GOOD)
    changed[len(GOOD) // 2] ^= 1
    path.write_bytes(changed)
    found = hashlib.sha256(changed).hexdigest()
    reason = f"begins with {found[:8]}, not {expected[:8]}, .*; remove it, and it is downloaded"
    with pytest.raises(WeightsError, match=reason):
        provenance_of_named(checkpoint, path)
    path.unlink()
    assert provenance_of_named(checkpoint, fetch(checkpoint)).sha256 == expected


@pytest.mark.parametrize("kept", [None, "", "damaged\n"])
def test_a_file_got_another_way_is_taken_where_no_hash_is_known(kept, server, cache):
    cache.mkdir()
    (cache / "test.pth").write_bytes(GOOD)
    if kept is not None:
        (cache / "test.pth.sha256").write_text(kept)
    checkpoint = checkpoint_at(server, "none")
    provenance = provenance_of_named(checkpoint, fetch(checkpoint))
    assert provenance.sha256 == hashlib.sha256(GOOD).hexdigest()


def test_the_start_of_a_hash_is_enough(server):
    fetch(checkpoint_at(server, "good", hashlib.sha256(GOOD).hexdigest()[:8]))


def test_a_wrong_hash_is_refused(server, cache):
    assert_refused(checkpoint_at(server, "good", "0" * 8), cache, "must begin with 00000000")


def test_a_web_page_is_refused(server, cache):
    assert_refused(checkpoint_at(server, "page"), cache, "answered with a web page")


def test_a_connection_cut_half_way_is_refused(server, cache):
    reason = f"cut after {len(GOOD) // 2} of {len(GOOD)} bytes"
    assert_refused(checkpoint_at(server, "cut"), cache, reason)


@pytest.mark.parametrize("page", ["cut-unannounced", "empty"])
def test_what_cannot_be_loaded_is_refused(page, server, cache):
    assert_refused(checkpoint_at(server, page), cache, "not a whole checkpoint")


def test_a_missing_file_is_refused(server, cache):
    assert_refused(checkpoint_at(server, "none"), cache, "answered 404 Not Found")


def test_a_server_that_is_down_is_told(cache):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # taken, but nobody listens
        checkpoint = checkpoint_on(nobody.getsockname()[1], "good")
        assert_refused(checkpoint, cache, "refused")


def test_a_cache_that_cannot_be_written_says_which_variable_to_set(server, cache):
    cache.write_bytes(b"")
    with pytest.raises(WeightsError, match="set PWCFLOW_CACHE to a folder"):
        fetch(checkpoint_at(server, "good"))


def test_a_cache_that_cannot_be_looked_into_says_which_variable_to_set(server, monkeypatch):
    monkeypatch.setenv("PWCFLOW_CACHE", "/" + "long" * 100)
    with pytest.raises(WeightsError, match=r"file name too long; set PWCFLOW_CACHE to a folder"):
        fetch(checkpoint_at(server, "good"))


@pytest.mark.parametrize("cache", ["~pwcflow-nobody/x", None], ids=["other", "own"])
def test_an_unknown_home_folder_says_which_variable_to_set(cache, monkeypatch):
    users = pytest.importorskip("pwd")

    def nobody(_):
        raise KeyError

    monkeypatch.setattr(users, "getpwuid", nobody)
    for variable in ("PWCFLOW_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(variable, raising=False)
    if cache:
        monkeypatch.setenv("PWCFLOW_CACHE", cache)
    with pytest.raises(WeightsError, match=r"cache ~.* is unknown; set PWCFLOW_CACHE to a folder"):
        cache_folder()


def test_no_progress_is_shown_where_there_is_no_terminal(server, capsys):
    fetch(checkpoint_at(server, "good"))
    assert capsys.readouterr().err == ""


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("quiet", [False, True])
def test_progress_is_shown_on_a_terminal_unless_quiet(quiet, server, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    fetch(checkpoint_at(server, "good"), quiet=quiet)
    assert ("test.pth" in terminal.getvalue()) is not quiet


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {"PWCFLOW_CACHE": "/a"}, Path("/a")),
        ("linux", {"PWCFLOW_CACHE": "~/a", "HOME": "/h"}, Path("/h/a")),
        ("linux", {"XDG_CACHE_HOME": "/x", "HOME": "/h"}, Path("/x/pwcflow")),
        ("linux", {"HOME": "/h"}, Path("/h/.cache/pwcflow")),
        ("darwin", {"HOME": "/h"}, Path("/h/Library/Caches/pwcflow")),
        ("win32", {"LOCALAPPDATA": "/l"}, Path("/l/pwcflow/Cache")),
        ("win32", {"HOME": "/h"}, Path("/h/AppData/Local/pwcflow/Cache")),
    ],
)
def test_the_cache_folder_is_the_platforms(platform, environment, expected, monkeypatch):
    for variable in ("PWCFLOW_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_folder() == expected
