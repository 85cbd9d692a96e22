"""`lookhear transcribe` of whole files: where the text goes, and what one bad file does."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from lookhear.commands import main as cli


class FileServer(ThreadingHTTPServer):
    """Transcribes `x` as `said x`; it cannot read files that begin with a question mark, and
    takes those for too large that begin with an exclamation mark."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[bytes] = []
        self.loading: list[float] = []  # the share that is loaded whenever it is asked
        self.models: list[dict[str, Any]] = [{"id": "ear"}]
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: FileServer

    def do_GET(self) -> None:
        if self.path == "/ready" and self.server.loading:
            state = {"name": "ear", "state": "loading", "stage": "weights"}
            models = [{**state, "progress": self.server.loading.pop(0)}]
            self.reply(503, json.dumps({"status": "starting", "models": models}))
        else:
            self.reply(200, json.dumps({"data": self.server.models}))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append(body)
        if b"octet-stream" not in body:  # a form without a file
            self.reply(200, f"fetched {parse_qs(body.decode())['url'][0]}\n")
            return
        said = body.split(b"octet-stream\r\n\r\n")[1].split(b"\r\n--")[0].decode()
        form = body.split(b'"response_format"\r\n\r\n')[1].split(b"\r\n")[0].decode()
        if said.startswith("?"):
            message = "file: expected audio, got none"
            error = {"type": "invalid_request_error", "message": message, "param": "file"}
            self.reply(400, json.dumps({"error": error}))
        elif said.startswith("!"):
            error = {"message": "file: too large", "param": "file", "code": "file_too_large"}
            self.reply(413, json.dumps({"error": error | {"type": "invalid_request_error"}}))
        elif form == "diarized_json":
            parts = [{"speaker": who, "text": f" {said}{who}"} for who in "AB"]
            self.reply(200, json.dumps({"text": said, "segments": parts}))
        elif form == "verbose_json":
            self.reply(200, json.dumps({"text": f"said {said}", "duration": 1.0}))
        else:
            self.reply(200, f"{'' if form == 'text' else form + ': '}said {said}\n")

    def reply(self, status: int, body: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    for name, said in (("a.wav", "a"), ("bad.wav", "?"), ("b.mp3", "b")):
        Path(name).write_text(said)
    return ["a.wav", "bad.wav", "b.mp3"]


def transcribe(server: FileServer, *arguments: str) -> int:
    return cli.main(["transcribe", "--server", server.url, *arguments])


def test_one_file(server: FileServer, files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert transcribe(server, "a.wav", "--prompt", "names", "--language", "en") == 0
    assert capsys.readouterr().out == "said a\n"
    assert b'name="prompt"\r\n\r\nnames' in server.bodies[0]
    assert transcribe(server, "a.wav", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"text": "said a", "duration": 1.0}
    assert b"vad_filter" not in server.bodies[-1]
    assert transcribe(server, "a.wav", "--no-vad") == 0
    assert b'name="vad_filter"\r\n\r\nfalse' in server.bodies[-1]
    assert transcribe(server, "a.wav", "--live", "--no-vad") == 2
    assert "--no-vad" in capsys.readouterr().err
    for live in (["--delay", "high"], ["--near-field"]):
        assert transcribe(server, "a.wav", *live) == 2
        assert f"{live[0]}: expected --live" in capsys.readouterr().err


def test_what_cannot_be_played_is_told_before_a_server_is_asked(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("talk.m4a").write_bytes(b"\0\0\0\x1cftypM4A " + bytes(600))
    nobody = "http://127.0.0.1:1"
    assert cli.main(["transcribe", "--server", nobody, "--live", "talk.m4a"]) == 1
    said = capsys.readouterr().err
    assert "talk.m4a: expected wav, flac, mp3 or ogg" in said and "got video/mp4" in said
    assert "without --live" in said


def test_of_what_is_too_large_the_sound_may_do(
    server: FileServer, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("film.mp4").write_text("!")
    for more in ([], ["a.wav"]):
        assert transcribe(server, "film.mp4", *more) == 1
        said = capsys.readouterr().err
        assert "lookhear: film.mp4: too large; its sound alone is smaller: ffmpeg -i" in said


EAR = {"id": "ear", "abilities": ["transcribe"], "toy": True}
EYE = {"id": "eye", "abilities": ["chat"]}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([], ["ear is a toy"]),
        (["--model", "ear"], ["ear is a toy"]),
        (["--model", "large"], ["no model here is called large: ", "ear is a toy"]),
        (["--model", "eye"], []),  # the server refuses it
    ],
)
def test_whose_words_they_are(
    server: FileServer,
    files: list[str],
    asked: list[str],
    told: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    server.models = [EYE, EAR]
    assert transcribe(server, "a.wav", *asked) == 0
    lines = capsys.readouterr().err.splitlines()[:-1]  # the last one says what is done
    assert len(lines) == len(told)
    assert all(line.startswith(begin) for line, begin in zip(lines, told, strict=True))


def test_who_says_what(
    server: FileServer, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert transcribe(server, "a.wav", "--speakers") == 0
    assert capsys.readouterr().out == "A: aA\nB: aB\n"
    assert transcribe(server, "a.wav", "--speakers", "--json") == 0
    assert [s["speaker"] for s in json.loads(capsys.readouterr().out)["segments"]] == ["A", "B"]


def test_a_url_is_the_servers_to_fetch(
    server: FileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "https://example.org/talks/talk.mp3?part=1"
    assert transcribe(server, url) == 0
    assert capsys.readouterr().out == f"fetched {url}\n"
    assert transcribe(server, url, "--out", f"{tmp_path}/texts/") == 0
    assert (tmp_path / "texts" / "talk.txt").read_text() == f"fetched {url}\n"
    assert transcribe(server, url, "--live") == 2
    assert "expected a FILE" in capsys.readouterr().err


def test_several_files_and_one_that_is_no_audio(
    server: FileServer, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert transcribe(server, *files) == 1
    captured = capsys.readouterr()
    assert captured.out == "a.wav: said a\nb.mp3: said b\n"
    assert captured.err == (
        "transcribing a.wav (1 of 3) ...\ntranscribing bad.wav (2 of 3) ...\n"
        "lookhear: bad.wav: expected audio, got none\ntranscribing b.mp3 (3 of 3) ...\n"
    )
    assert transcribe(server, "--json", "a.wav", "b.mp3") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["file"], line["text"]) for line in lines] == [
        ("a.wav", "said a"),
        ("b.mp3", "said b"),
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.txt", "said a\n"),
        ("x.srt", "srt: said a\n"),
        ("x.vtt", "vtt: said a\n"),
        ("x.json", '{\n  "text": "said a",\n  "duration": 1.0\n}\n'),
    ],
)
def test_into_a_file(
    server: FileServer,
    files: list[str],
    capsys: pytest.CaptureFixture[str],
    name: str,
    text: str,
) -> None:
    assert transcribe(server, "a.wav", "--out", name) == 0
    assert Path(name).read_text() == text and capsys.readouterr().out == ""


def test_into_a_folder(server: FileServer, files: list[str]) -> None:
    assert transcribe(server, "a.wav", "b.mp3", "--format", "srt", "--out", "new/folder") == 0
    written = {path.name: path.read_text() for path in Path("new/folder").iterdir()}
    assert written == {"a.srt": "srt: said a\n", "b.srt": "srt: said b\n"}


def test_standard_input_is_a_file(
    server: FileServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"piped")))
    assert transcribe(server, "-") == 0
    assert capsys.readouterr().out == "said piped\n"


def test_nobody_types_a_file(
    server: FileServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Typed(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Typed())
    assert transcribe(server, "-") == 2
    assert "expected a file through a pipe" in capsys.readouterr().err


def test_a_pipe_is_a_file(
    server: FileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the shell makes them: `lookhear transcribe <(ffmpeg ...)`."""
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=("piped",), daemon=True)
    writer.start()
    assert transcribe(server, str(tmp_path / "pipe")) == 0
    writer.join()
    assert capsys.readouterr().out == "said piped\n"


def test_names_and_texts_that_the_output_cannot_spell(
    server: FileServer, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = os.fsdecode(b"\xff.wav")
    Path(name).write_text("\u00fc")
    out = io.TextIOWrapper(io.BytesIO(), "latin-1")
    monkeypatch.setattr(sys, "stdout", out)
    assert transcribe(server, name, "a.wav") == 0
    out.seek(0)
    assert out.read() == "\\udcff.wav: said \u00fc\na.wav: said a\n"
    assert b'filename="\xff.wav"' in server.bodies[0]


def test_names_with_brackets_are_told_whole(
    server: FileServer, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    os.rename("a.wav", "a [dQw4w9].wav")
    assert transcribe(server, "a [dQw4w9].wav") == 0
    assert capsys.readouterr().err == "transcribing a [dQw4w9].wav ...\n"


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["gone.wav"], 1, "no such file: gone.wav"),
        (["a.wav/b"], 1, "no such file: a.wav/b"),
        (["."], 1, "expected a file, got a folder: ."),
        (["a" * 300], 1, "File name too long"),
        (["bad.wav"], 1, "lookhear: bad.wav: expected audio, got none"),
        (["a.wav", "b.mp3", "--format", "srt"], 2, "need --out FOLDER"),
        (["a.wav", "new/../a.wav", "--out", "folder"], 1, "no such file"),
        (["a.wav", "./a.wav", "--out", "folder"], 2, "would be written to a.txt"),
        (["a.wav", "--out", "x.doc"], 2, "expected .txt, .srt, .vtt or .json"),
        (["a.wav", "b.mp3", "--out", "a.wav"], 1, "a.wav: expected a folder, got a file"),
        (["a.wav", "b.mp3", "--out", "x.srt"], 2, "--out: expected a folder for several files"),
        (["a.wav", "--out", "c.srt", "--format", "vtt"], 2, "says srt and --format vtt"),
        (["a.wav", "--out", "no/such/x.txt"], 1, "cannot write no/such/x.txt"),
        (["a.wav", "--speakers", "--format", "srt"], 2, "expected text or json, got srt"),
        (["--live", "a.wav", "b.mp3"], 2, "expected one FILE"),
        (["--live", "-"], 2, "lookhear listen -"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    server: FileServer,
    files: list[str],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    status: int,
    words: str,
) -> None:
    assert transcribe(server, *arguments) == status
    captured = capsys.readouterr()
    said = [line for line in captured.err.splitlines() if line.startswith("lookhear: ")]
    assert len(said) == 1 and words in said[0] and captured.out == ""
    assert not os.path.exists("x.srt") and not os.path.exists("c.srt")


@pytest.mark.parametrize("out", ["talk.txt", "./talk.txt", "linked.txt", "folder/"])
@pytest.mark.parametrize("live", [[], ["--live"]], ids=["whole", "live"])
def test_a_recording_is_not_written_over(
    server: FileServer,
    files: list[str],
    capsys: pytest.CaptureFixture[str],
    out: str,
    live: list[str],
) -> None:
    os.mkdir("folder")
    os.rename("a.wav", "folder/talk.txt")
    for other in ("talk.txt", "linked.txt"):
        os.link("folder/talk.txt", other)
    assert transcribe(server, "talk.txt", "--out", out, *live) in (1, 2)
    assert Path("talk.txt").read_text() == "a" and not server.bodies
    (line,) = capsys.readouterr().err.splitlines()
    assert "--out: expected" in line


def test_where_the_text_goes_is_looked_at_before_transcribing(
    server: FileServer, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert transcribe(server, "a.wav", "--out", "no/such/x.srt") == 1
    assert transcribe(server, "a.wav", "--live", "--out", "no/such/x.srt") == 1
    assert "there is no folder no/such" in capsys.readouterr().err
    os.symlink("no/such.srt", "linked.srt")
    for live in ([], ["--live"]):
        assert transcribe(server, "a.wav", "--out", "linked.srt", *live) == 1
        assert "cannot write linked.srt: there is no folder /" in capsys.readouterr().err
    for several in ([], ["--live"], ["b.mp3"]):
        assert transcribe(server, "a.wav", *several, "--out", "x" * 300 + ".srt") in (1, 2)
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("lookhear: ")
    os.makedirs("texts/b.txt")
    assert transcribe(server, "a.wav", "b.mp3", "--out", "texts") == 1
    assert "cannot write texts/b.txt: expected a file, got a folder" in capsys.readouterr().err
    assert not server.bodies


@pytest.mark.parametrize("form", [["--json"], ["--format", "srt"], ["--out", "full.txt"]])
def test_a_full_disk_is_one_line(
    server: FileServer, files: list[str], form: list[str], tmp_path: Path
) -> None:
    os.symlink("/dev/full", "full.txt")
    command = [sys.executable, "-m", "lookhear", "transcribe", "--server", server.url, "a.wav"]
    with open("/dev/full", "wb") as full:
        ended = subprocess.run([*command, *form], stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 1
    said = [line for line in ended.stderr.splitlines() if not line.endswith(" ...")]
    assert len(said) == 1 and said[0].startswith("lookhear: cannot write ")
    assert said[0].endswith("No space left on device")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_nobody_has_to_take_how_it_gets_on(
    server: FileServer, files: list[str], unbuffered: str
) -> None:
    command = [sys.executable, "-m", "lookhear", "transcribe", "--server", server.url, "a.wav"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    reading, gone = os.pipe()
    os.close(reading)
    for place in (os.open("/dev/full", os.O_WRONLY), gone):
        ended = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=place, text=True, env=environment
        )
        os.close(place)
        assert (ended.returncode, ended.stdout) == (0, "said a\n")


def test_what_cannot_be_written_is_printed(
    server: FileServer, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    os.symlink("/dev/full", "full.txt")
    assert transcribe(server, "a.wav", "--out", "full.txt") == 1
    captured = capsys.readouterr()
    assert captured.out == "said a\n"
    assert captured.err.endswith("lookhear: cannot write full.txt: No space left on device\n")


def test_a_server_that_is_loading_is_waited_for(
    server: FileServer, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    server.loading = [0.25, 0.5]
    assert transcribe(server, "a.wav") == 0
    captured = capsys.readouterr()
    assert captured.out == "said a\n"
    assert captured.err.splitlines() == [
        f"waiting for {server.url}, which is loading its model ...",
        "weights ...",
        "transcribing a.wav ...",
    ]
