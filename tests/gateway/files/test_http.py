"""The plain HTTP side: files, models, health, metrics, refusals."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import tempfile
import wave
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from lookhear.engine.client.client import EngineRequestError
from lookhear.engine.messages import Pong
from lookhear.gateway.app import browser
from lookhear.gateway.config import GatewayConfig
from tests.gateway.fake_engine import CARDS, FakeEngine
from tests.gateway.running import MANUAL, PATIENCE, Running, running, tone

MUCH = 20_000_000  # bytes, more than sockets hold


def wav(seconds: float) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(24_000)
        out.writeframes(tone(seconds))
    return file.getvalue()


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def post(
    http: httpx.AsyncClient, path: str = "transcriptions", file: bytes | None = None, **data: Any
) -> httpx.Response:
    audio = wav(1.0) if file is None else file
    return await http.post(f"/v1/audio/{path}", files={"file": ("a.wav", audio)}, data=data)


async def test_every_format(http: httpx.AsyncClient) -> None:
    text = "transcribe 1.0 seconds."
    answer = await post(http)
    assert answer.json() == {
        "text": text,
        "usage": {"type": "duration", "seconds": 1},
        "languages": [{"code": "en"}],
    }
    assert answer.headers["x-request-id"].startswith("req_")
    answer = await post(http, response_format="text")
    assert (answer.text, answer.headers["content-type"]) == (
        text + "\n",
        "text/plain; charset=utf-8",
    )
    answer = await post(http, response_format="srt")
    assert answer.text == f"1\n00:00:00,000 --> 00:00:01,000\n{text}\n"
    answer = await post(http, response_format="vtt")
    assert answer.text == f"WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n{text}\n"
    assert answer.headers["content-type"].startswith("text/vtt")
    answer = await post(http, response_format="verbose_json")
    body = answer.json()
    assert "words" not in body
    assert set(body["segments"][0]) == {
        "id", "seek", "start", "end", "text", "tokens", "temperature", "avg_logprob",
        "compression_ratio", "no_speech_prob",
    }  # fmt: skip


async def test_without_an_aligner_its_option_is_named() -> None:
    engine = FakeEngine()
    engine.models = [replace(CARDS[0], has_word_times=False, takes_aligner=True)]
    words: dict[str, Any] = {
        "response_format": "verbose_json",
        "timestamp_granularities[]": "word",
    }
    async with running(engine=engine) as gateway:
        async with httpx.AsyncClient(
            base_url=gateway.http, trust_env=False, verify=False
        ) as client:
            answer = await post(client, **words)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "invalid_words")
    assert "segment, fake/whisper has no word times" in error["message"]
    assert "--aligner" in error["message"]


async def test_languages_are_the_only_ones_that_may_be_detected(
    shared: Running, http: httpx.AsyncClient
) -> None:
    given: dict[str, Any] = {"language": "fr"}
    for data in ({"languages[]": ["en-GB", "de", "de"]}, {"languages[]": "de"}, given):
        answer = await post(http, **data)
        assert "x-lookhear-ignored" not in answer.headers
    among, one, told = (message.settings for message in shared.engine.files)
    assert (among.language, among.languages) == (None, ("en", "de"))
    assert (one.language, one.languages) == ("de", ())
    answer = await post(http, **{**given, "languages[]": "de"})
    assert told.language == "fr" and answer.headers["x-lookhear-ignored"] == "languages"


async def test_each_segment_has_its_language(shared: Running, http: httpx.AsyncClient) -> None:
    shared.engine.segment_languages = ["en", "de", None]
    shared.engine.file_segments = [" One.", " Zwei.", " Tres."]
    answer = (await post(http, response_format="verbose_json")).json()
    told = [segment.get("language") for segment in answer["segments"]]
    assert told == ["english", "german", None]
    assert (await post(http)).json()["languages"] == [{"code": "en"}, {"code": "de"}]


async def test_silence_of_no_length_gives_empty_text(http: httpx.AsyncClient) -> None:
    answer = await post(http, file=wav(0))
    assert answer.status_code in (200, 400)  # an empty file may count as no audio, never as 500


@pytest.mark.parametrize(
    ("data", "status", "param", "words"),
    [
        ({"keywords[]": "x" * 101}, 400, "keywords[]", ["at most 100 characters"]),
        ({"hotwords": ",".join(map(str, range(101)))}, 400, "hotwords", ["at most 100 words"]),
        ({"keywords[]": "x", "include[]": "all"}, 400, "include[]", ["logprobs", "all"]),
        ({"response_format": "mp3"}, 400, "response_format", ["verbose_json", "mp3"]),
        ({"language": "xx"}, 400, "language", ["de, en, fr", "xx"]),
        ({"languages[]": ["en", "xx"]}, 400, "languages[]", ["de, en, fr", "xx"]),
        ({"temperature": "hot"}, 400, "temperature", ["0 to 1", "hot"]),
        ({"temperature": "nan"}, 400, "temperature", ["0 to 1", "nan"]),
        ({"temperature": "2"}, 400, "temperature", ["0 to 1", "2"]),
        ({"stream": "maybe"}, 400, "stream", ["true or false", "maybe"]),
        (
            {"timestamp_granularities[]": "page"}, 400, "timestamp_granularities[]",
            ["segment or word", "page"],
        ),
    ],
)  # fmt: skip
async def test_bad_fields(
    http: httpx.AsyncClient, data: dict[str, Any], status: int, param: str, words: list[str]
) -> None:
    answer = await post(http, **data)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"
    assert error["message"].startswith(param)
    assert "expected" in error["message"]
    for word in words:
        assert word in error["message"]


async def test_a_form_has_room_for_all_that_its_fields_may_hold(
    shared: Running, http: httpx.AsyncClient
) -> None:
    words = [f"word{number}" for number in range(100)]
    fields: dict[str, Any] = {"language": "en", "prompt": "p", "keywords[]": words}
    answer = await post(http, **fields)
    assert answer.status_code == 200, answer.text
    assert shared.engine.files[-1].settings.keywords == tuple(words)
    address = f"data:audio/wav;base64,{base64.b64encode(wav(30.0)).decode()}"
    assert len(address) > 1 << 20
    forms: list[dict[str, Any]] = [{"data": {"url": address}}, {"files": {"url": (None, address)}}]
    for form in forms:
        answer = await http.post("/v1/audio/transcriptions", **form)
        assert answer.status_code == 200, answer.text
        assert answer.json()["usage"]["seconds"] == 30


@pytest.mark.parametrize(
    "name",
    ["language", "response_format", "temperature", "stream", "chunking_strategy", "url"]
    + ["timestamp_granularities[]", "include[]"],
)
async def test_what_a_form_says_is_not_repeated_at_length(
    http: httpx.AsyncClient, name: str
) -> None:
    for said in ("x" * 100_000, "[" * 100_000):
        fields: dict[str, Any] = {name: said}
        answer = await post(http, **fields)
        assert answer.status_code == 400, answer.text
        assert len(answer.text) < 600


@pytest.mark.parametrize("file", [b"", b"not audio at all", wav(1.0)[:30], b"\x00" * 5000])
async def test_what_is_no_audio(http: httpx.AsyncClient, file: bytes) -> None:
    answer = await post(http, file=file)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_audio"
    assert "expected" in answer.json()["error"]["message"]


async def test_bad_bodies(http: httpx.AsyncClient) -> None:
    path = "/v1/audio/transcriptions"
    answers = [
        await http.post(path, json={"file": "x"}),
        await http.post(path, files={"other": ("a", b"x")}),
        await http.post(path, data={"file": "x"}, files={"other": ("a", b"x")}),
        await http.post(
            path, content=b"--x\r\nbroken", headers={"content-type": "multipart/form-data"}
        ),
        await http.post(
            path,
            content=b"--x\r\nbro",
            headers={"content-type": "multipart/form-data; boundary=x"},
        ),
    ]
    for answer in answers:
        assert answer.status_code == 400, answer.text
        assert "expected" in answer.json()["error"]["message"]


async def test_too_large_uploads() -> None:
    async with (
        running(GatewayConfig(port=0, max_upload_bytes=10_000)) as gateway,
        httpx.AsyncClient(base_url=gateway.http, trust_env=False, verify=False, timeout=60) as http,
    ):
        declared = await post(http, file=bytes(20_000))

        async def body() -> AsyncIterator[bytes]:  # without a length
            yield b"--x\r\ncontent-disposition: form-data; name=file; filename=a\r\n\r\n"
            for _ in range(20):
                yield bytes(1000)

        chunked = await http.post(
            "/v1/audio/transcriptions",
            content=body(),
            headers={"content-type": "multipart/form-data; boundary=x"},
        )
        for answer in (declared, chunked):
            assert answer.status_code == 413
            assert answer.json()["error"]["code"] == "file_too_large"
            assert "10000" in answer.json()["error"]["message"]


@pytest.mark.parametrize("framing", [f"content-length: {MUCH}", "transfer-encoding: chunked"])
async def test_who_is_refused_and_asks_to_be_closed_hears_why(framing: str) -> None:
    """As urllib and many a proxy ask. The server takes all that is sent, and closes behind it."""
    head = (
        "POST /v1/audio/transcriptions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        f"content-type: multipart/form-data; boundary=x\r\n{framing}\r\n\r\n"
    )
    body = bytes(MUCH) if "length" in framing else b"%x\r\n%s\r\n0\r\n\r\n" % (MUCH, bytes(MUCH))
    async with running(GatewayConfig(port=0, max_upload_bytes=10_000)) as gateway:
        reading, writing = await asyncio.open_connection("127.0.0.1", urlsplit(gateway.http).port)
        writing.write(head.encode() + body)
        await writing.drain()
        answer = await asyncio.wait_for(reading.read(), PATIENCE)
        writing.close()
    assert answer.startswith(b"HTTP/1.1 413 ") and b"file_too_large" in answer


@pytest.mark.parametrize(
    ("code", "message", "status", "param"),
    [
        ("audio_too_long", "file: expected at most 5 s of audio", 400, "file"),
        ("invalid_language", "language: expected de, en; got 'fr'", 400, "language"),
        ("invalid_task", "task: m has one language and cannot translate", 400, None),
        ("invalid_words", "words: m gives no word times", 400, "timestamp_granularities[]"),
        ("server_error", "asked to fail", 500, None),
    ],
)
async def test_engine_refusals(
    shared: Running,
    http: httpx.AsyncClient,
    code: str,
    message: str,
    status: int,
    param: str | None,
) -> None:
    shared.engine.file_error = EngineRequestError(code, message)
    answer = await post(http)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert (error["code"], error["message"], error["param"]) == (code, message, param)


async def test_a_model_of_one_language_hears_no_other(http: httpx.AsyncClient) -> None:
    assert (await post(http, model="fake-english", language="en-US")).status_code == 200
    refused = await post(http, model="fake-english", language="fr")
    assert refused.status_code == 400
    assert refused.json()["error"]["message"] == 'language: expected one of en, got "fr"'


async def test_a_translation_goes_to_a_model_that_translates(
    shared: Running, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared.engine, "models", list(reversed(shared.engine.models)))
    answer = await post(http, "translations")
    assert answer.status_code == 200
    assert shared.engine.files[-1].settings.model == "fake/whisper"
    assert (await post(http, "translations", language="de")).status_code == 200
    settings = shared.engine.files[-1].settings
    assert (settings.task, settings.language) == ("translate", "de")
    refused = await post(http, "translations", model="fake-english")
    assert refused.status_code == 400
    expected = 'model: expected one that can translate ("fake/whisper"), got "fake-english"'
    assert refused.json()["error"]["message"] == expected


async def test_a_file_goes_to_the_model_it_names(shared: Running, http: httpx.AsyncClient) -> None:
    await post(http)
    await post(http, model="fake-english")
    await post(http, model="")
    used = [file.settings.model for file in shared.engine.files]
    assert used == ["fake/whisper", "fake-english", "fake/whisper"]
    shared.engine.down.add("fake/whisper")
    refused = await post(http)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "engine_not_ready")
    assert "fake/whisper" in refused.json()["error"]["message"]
    assert (await post(http, model="fake-english")).status_code == 200


async def test_an_engine_that_is_started_again_is_waited_for(
    shared: Running, http: httpx.AsyncClient
) -> None:
    engine = shared.engine
    engine.down.add("fake/whisper")
    engine.restarted = asyncio.Event()
    waiting = asyncio.create_task(post(http))
    await engine.wait_for(lambda: engine.waiting == 1)
    assert not engine.files
    engine.down.clear()
    engine.restarted.set()
    assert (await waiting).status_code == 200


async def test_a_client_that_hangs_up_stops_its_work(
    shared: Running, http: httpx.AsyncClient
) -> None:
    shared.engine.file_gate = asyncio.Event()
    request = asyncio.create_task(post(http))
    await shared.engine.wait_for(lambda: bool(shared.engine.files))
    request.cancel()
    await asyncio.gather(request, return_exceptions=True)
    await shared.engine.wait_for(lambda: bool(shared.engine.cancelled_files))


@pytest.mark.parametrize("path", ["/v1/audio/transcriptions", "/v1/chat/completions"])
async def test_a_client_that_hangs_up_while_it_sends(shared: Running, path: str) -> None:
    pieces: list[Any] = [
        {"type": "http.request", "body": b"--x\r\ncontent-", "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Any] = []

    async def receive() -> Any:
        return pieces.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [
            (b"host", b"127.0.0.1"),
            (b"content-type", b"multipart/form-data; boundary=x"),
        ],
    }
    await shared.app(scope, receive, send)  # and nothing is raised: it is nobody's bug
    assert sent[0]["status"] == 499


async def test_a_full_disk_is_told_as_such(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An upload waits in a temporary file, if it is large."""
    large = wav(60.0)
    with monkeypatch.context() as full:
        full.setattr(tempfile, "TemporaryFile", lambda *_, **__: open("/dev/full", "w+b"))
        assert (await post(http)).status_code == 200  # a small one needs no room there
        answer = await post(http, file=large)
    assert answer.status_code == 507
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("server_error", "insufficient_storage")
    assert "No space left on device" in error["message"]
    assert "upload.no_room" in caplog.text
    assert (await post(http, file=large)).status_code == 200


async def test_our_bugs_have_a_request_id_too(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "browser_folder", lambda: [][0])
    answer = await http.get("/")
    assert answer.status_code == 500
    assert answer.headers["x-request-id"].startswith("req_")
    # In the words of whoever asked.
    theirs = await http.get("/", headers={"anthropic-version": "2023-06-01"})
    told, id = theirs.json(), theirs.headers["x-request-id"]
    assert (theirs.status_code, told["type"], told["error"]["type"]) == (500, "error", "api_error")
    assert told["error"]["message"] == answer.json()["error"]["message"]
    assert told["request_id"] == theirs.headers["request-id"] == id


@pytest.mark.parametrize("format", ["json", "text", "srt", "vtt"])
async def test_times_that_a_format_has_no_place_for_are_named(
    http: httpx.AsyncClient, format: str
) -> None:
    """The AI SDK asks for segments whenever it is told a language."""
    asked: dict[str, Any] = {"timestamp_granularities[]": ["segment", "word"]}
    answer = await post(http, response_format=format, **asked)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-lookhear-ignored"] == "timestamp_granularities"


async def test_health_ready_and_errors(shared: Running, http: httpx.AsyncClient) -> None:
    assert (await http.get("/health")).json() == {"status": "ok"}
    ready = await http.get("/ready")
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    shared.engine.down.add("fake-english")
    down = await http.get("/ready")
    assert (down.status_code, down.headers["retry-after"]) == (503, "1")
    assert down.json() == {
        "status": "engine_down",
        "models": [
            {"name": "fake/whisper", "state": "ready", "stage": "", "progress": 1.0},
            {
                "name": "fake-english",
                "state": "restarting",
                "stage": "loading weights",
                "progress": 0.25,
            },
        ],
    }
    shared.engine.ready = False
    assert (await http.get("/health")).status_code == 200
    refused = await post(http)
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"
    for method, path, status, code in (
        ("GET", "/v1/live/sessions", 404, "not_found"),
        ("POST", "/v1/realtime/calls", 404, "not_found"),
        ("POST", "/chat/completions", 404, "not_found"),  # an address without its /v1
        ("POST", "/embeddings", 404, "not_found"),
        ("DELETE", "/icon.svg", 405, "method_not_allowed"),
        ("GET", "/v1/audio/transcriptions", 405, "method_not_allowed"),
        ("GET", "/rerank", 405, "method_not_allowed"),
        ("PUT", "/health", 405, "method_not_allowed"),
        ("DELETE", "/metrics", 405, "method_not_allowed"),
        ("GET", "/../etc/passwd", 404, "not_found"),
        ("GET", "/" + "a" * 10_000, 404, "not_found"),
        ("GET", "/v1/realtime", 426, "upgrade_required"),
        ("POST", "/v1/realtime", 405, "method_not_allowed"),
    ):
        answer = await http.request(method, path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert ("allow" in answer.headers) is (status == 405)
        assert "x-request-id" in answer.headers and len(answer.content) < 400


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/chat/completions", "; is it /v1/chat/completions?"),
        ("/v1/v1/chat/completions", "; is it /v1/chat/completions?"),
        ("/audio/transcriptions", "; is it /v1/audio/transcriptions?"),
        ("/v1/conversations/conv_1/items", "; a conversation goes on by previous_response_id of P"),
        ("/v1/batches", "; no batches are kept here, ask all at once"),
        ("/v1/audio/speech", "; this server hears and writes, it does not speak"),
        ("/v1/realtime/calls", "; WebRTC is not spoken here, connect to the WebSocket"),
        ("/v1/realtime/sessions", "; keys for browsers are made by POST /v1/realtime/client_sec"),
        ("/v1/nothing", ""),
    ],
)
async def test_a_path_that_is_none_is_told_what_was_probably_meant(
    http: httpx.AsyncClient, path: str, hint: str
) -> None:
    message = (await http.post(path)).json()["error"]["message"]
    assert message.startswith(f"expected a path of this server, got POST {path}{hint}")
    assert hint or message.endswith(path)


async def test_a_socket_elsewhere_is_told_where_they_are(shared: Running) -> None:
    """Not 403, which looks as if a key were wrong."""
    for path in ("/realtime", "/v1/chat/completions"):
        with pytest.raises(InvalidStatus) as raised:
            async with connect(shared.http.replace("http", "ws") + path, proxy=None):
                pass
        response = raised.value.response
        told = json.loads(response.body)["error"]
        assert (response.status_code, told["code"]) == (404, "not_found")
        assert told["message"] == (
            f'expected one of the paths /v1/listen, /v1/realtime, /v2/listen, got "{path}"'
        )


async def test_a_plain_get_of_a_socket_is_told_what_is_missing(http: httpx.AsyncClient) -> None:
    for path, words in (
        ("/v1/realtime", "error"),
        ("/v1/listen", "err_msg"),
        ("/v2/listen", "err_msg"),
    ):
        answer = await http.get(path)
        assert (answer.status_code, answer.headers["upgrade"]) == (426, "websocket")
        told = answer.json()[words]
        told = told["message"] if words == "error" else told
        assert told.startswith(f"expected a WebSocket handshake, got a plain GET {path};")


async def test_models_with_a_slash(http: httpx.AsyncClient) -> None:
    for path in ("fake/whisper", "fake%2Fwhisper"):
        card = (await http.get(f"/v1/models/{path}")).json()
        assert (card["id"], card["object"]) == ("fake/whisper", "model")


async def test_metrics() -> None:
    async with (
        running() as gateway,
        httpx.AsyncClient(base_url=gateway.http, trust_env=False, verify=False, timeout=60) as http,
    ):
        async with gateway.client() as client:
            await client.until("session.created")
            await client.update(MANUAL)
            await client.append(tone(0.5))
            await client.send("input_audio_buffer.commit")
            await client.until(".completed")
            text = (await http.get("/metrics")).text
            assert "lookhear_sessions_active 1.0" in text
            assert 'lookhear_turns_total{outcome="completed"} 1.0' in text
            assert 'lookhear_audio_seconds_total{way="realtime"} 0.5' in text
            assert "lookhear_commit_lag_seconds_count 1.0" in text
            assert 'lookhear_engine_ready{model="fake-english",replica="1"} 1.0' in text
            gateway.engine.stats["fake-english"] = Pong(
                1,
                {"requests": 7, "accepted_tokens": 30, "live_turns": 2, "unheard_of": 1},
                busy_seconds=1.5,
            )
            text = (await http.get("/metrics")).text
            assert 'lookhear_engine_requests{model="fake-english",replica="1"} 7.0' in text
            assert 'lookhear_engine_busy_seconds{model="fake-english",replica="1"} 1.5' in text
            assert 'lookhear_engine_accepted_tokens{model="fake-english",replica="1"} 30.0' in text
            gateway.engine.stats.clear()  # its engine died
            gateway.engine.down.add("fake-english")
            text = (await http.get("/metrics")).text
            assert 'lookhear_engine_live_turns{model="fake-english",replica="1"}' not in text
            assert 'lookhear_engine_ready{model="fake-english",replica="1"} 0.0' in text
            assert 'lookhear_engine_ready{model="fake/whisper",replica="1"} 1.0' in text
        await gateway.engine.wait_for(lambda: not gateway.engine.sessions)
        text = (await http.get("/metrics")).text
        assert "lookhear_sessions_active 0.0" in text
        assert 'lookhear_sessions_total{code="1000"} 1.0' in text


async def test_keys_guard_the_api_only() -> None:
    config = GatewayConfig(port=0, api_keys=("secret",))
    async with (
        running(config, FakeEngine()) as gateway,
        httpx.AsyncClient(base_url=gateway.http, trust_env=False, verify=False, timeout=60) as http,
    ):
        for path, status in (("/v1/models", 401), ("/metrics", 401), ("/ready", 200)):
            assert (await http.get(path)).status_code == status
        good = await http.get("/v1/models", headers={"authorization": "Bearer secret"})
        assert good.status_code == 200


@pytest.mark.parametrize("allowed", ["https://app.example", "https://App.Example"])
async def test_foreign_pages_and_allowed_ones(allowed: str) -> None:
    config = GatewayConfig(port=0, allow_origins=(allowed,))
    async with (
        running(config) as gateway,
        httpx.AsyncClient(base_url=gateway.http, trust_env=False, verify=False, timeout=60) as http,
    ):
        evil = await http.get("/v1/models", headers={"origin": "https://evil.example"})
        assert evil.status_code == 403
        good = await http.get("/v1/models", headers={"origin": "https://app.example"})
        assert good.headers["access-control-allow-origin"] == "https://app.example"
        exposed = good.headers["access-control-expose-headers"]  # what SDKs read in a page
        assert {"retry-after", "request-id", "x-request-id"} <= set(exposed.split(", "))
        preflight = await http.options(
            "/v1/audio/transcriptions",
            headers={
                "origin": "https://app.example",
                "access-control-request-method": "POST",
                "access-control-request-headers": "authorization,x-stainless-lang",
            },
        )
        assert preflight.status_code == 200


async def test_the_browser_page(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    folder = browser.browser_folder()
    assert folder is not None
    for file in (path for path in folder.rglob("*.*") if path.is_file()):
        assert (await http.get(f"/{file.relative_to(folder).as_posix()}")).status_code == 200
    monkeypatch.setattr(browser, "browser_folder", lambda: None)
    assert (await http.get("/")).status_code == 404
    (tmp_path / "browser").mkdir()
    (tmp_path / "browser" / "index.html").write_text("<!doctype html>")
    (tmp_path / "browser" / "app.js").write_text("1")
    (tmp_path / "secret.txt").write_text("no")
    monkeypatch.setattr(browser, "browser_folder", lambda: tmp_path / "browser")
    page = await http.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"].startswith("default-src 'self'")
    assert "javascript" in (await http.get("/app.js")).headers["content-type"]
    long = "/" + "a" * 300
    for path in ("/..%2Fsecret.txt", "/%2e%2e/secret.txt", "/missing.js", long, "/%00"):
        assert (await http.get(path)).status_code == 404
    (tmp_path / "browser" / "chat").mkdir()
    (tmp_path / "browser" / "chat" / "chat.js").write_text("2")
    (tmp_path / "browser" / "other").mkdir()
    for outside in (tmp_path, tmp_path / "browser" / "other"):
        (outside / "secret.js").write_text("no")
    assert (await http.get("/chat/chat.js")).text == "2"
    for path in (
        "/chat",
        "/chat/missing.js",
        "/other/secret.js",
        "/%2e%2e/secret.js",
        "/..%2Fsecret.js",
        "/chat/%2e%2e/secret.js",
        "/chat/..%2Fsecret.js",
        "/chat/..%2Fother%2Fsecret.js",
        "/chat%2F..%2F..%2Fsecret.js",
        "/chat/%2e%2e%5csecret.js",
        "/chat/%00",
        "/chat/" + "a" * 300 + ".js",
    ):
        assert (await http.get(path)).status_code == 404, path
    assert (await http.post("/chat/chat.js")).status_code == 405


@pytest.mark.parametrize("name", browser.RECORDINGS)
async def test_the_sample_recordings(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, name: str
) -> None:
    path = f"/recordings/{name}"
    sample = await http.get(path)
    assert sample.headers["content-type"] == "audio/ogg"
    assert sample.content.startswith(b"OggS")
    for other in ("/recordings/hello.json", "/recordings/..%2fkennedy.opus"):
        assert (await http.get(other)).status_code == 404
    for folder in (None, tmp_path):
        monkeypatch.setattr(browser, "packaged_folder", lambda folder=folder: folder)
        assert (await http.get(path)).status_code == 404


async def test_voices_are_sought_in_files_unless_that_is_switched_off(
    http: httpx.AsyncClient, shared: Running
) -> None:
    engine: FakeEngine = shared.engine
    await post(http)
    assert engine.files[-1].speech == []  # nobody speaks in a tone
    await post(http, vad_filter="false")
    assert engine.files[-1].speech is None
    for strategy in (
        {"chunking_strategy": "auto"},
        {"chunking_strategy": '{"type": "server_vad", "threshold": 0.3}'},
        {"chunking_strategy[type]": "server_vad", "chunking_strategy[prefix_padding_ms]": "0"},
        {"chunking_strategy": "null"},
        {"chunking_strategy": '{"type": "server_vad", "prefix_padding_ms": 300.0}'},
        {"chunking_strategy": '{"type": "server_vad", "threshold": null}'},
    ):
        assert (await post(http, **strategy)).status_code == 200
        assert engine.files[-1].speech == []
    [whole] = [{"chunking_strategy": '{"type": "server_vad", "threshold": 0}'}]
    await post(http, **whole)
    assert engine.files[-1].speech == [(0, 16_000)]  # at this threshold everything is a voice


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"vad_filter": "maybe"}, "vad_filter"),
        ({"vad_filter": "false", "chunking_strategy": '{"type":"server_vad"}'}, "vad_filter"),
        ({"chunking_strategy": "manual"}, "chunking_strategy"),
        ({"chunking_strategy": '{"type": "semantic_vad"}'}, "chunking_strategy.type"),
        ({"chunking_strategy": '{"type": "server_vad", "speed": 1}'}, "chunking_strategy"),
        ({"chunking_strategy": '{"type": "server_vad", "threshold": 2}'}, "chunking_strategy"),
        ({"chunking_strategy": '{"type": "server_vad", "prefix_padding_ms": 0.5}'},
         "chunking_strategy"),
        ({"chunking_strategy": '{"type": "server_vad", "prefix_padding_ms": 1e999}'},
         "chunking_strategy"),
        ({"chunking_strategy[type]": "server_vad", "chunking_strategy[threshold]": "loud"},
         "chunking_strategy"),
    ],
)  # fmt: skip
async def test_what_cannot_be_a_voice_detectors_setting_is_named(
    http: httpx.AsyncClient, fields: dict[str, Any], param: str
) -> None:
    answer = await post(http, **fields)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == param


async def test_log_probabilities_of_the_tokens_come_with_json(http: httpx.AsyncClient) -> None:
    asked: dict[str, Any] = {"include[]": "logprobs"}
    body = (await post(http, **asked)).json()
    [token] = body["logprobs"]
    assert bytes(token["bytes"]).decode() == token["token"] == body["text"]
    assert token["logprob"] == -0.5
    for wrong in ({"include[]": "words"}, {**asked, "response_format": "srt"}):
        answer = await post(http, "transcriptions", None, **wrong)
        assert answer.status_code == 400 and answer.json()["error"]["param"] == "include[]"


@pytest.mark.parametrize(
    ("path", "kind", "body", "code"),
    [
        ("audio/transcriptions", "application/json", b"{}", "invalid_content_type"),
        ("audio/transcriptions", "multipart/form-data", b"x", "invalid_form"),
        ("audio/transcriptions", "multipart/form-data; boundary=x", b"x", "invalid_form"),
        ("chat/completions", "application/json", b"{", "invalid_json"),
        ("chat/completions", "application/json", b'{"a":' * 10_000, "invalid_json"),
        ("responses", "application/json", b"", "invalid_json"),
    ],
)
async def test_a_body_of_another_kind_has_a_code(
    http: httpx.AsyncClient, path: str, kind: str, body: bytes, code: str
) -> None:
    answer = await http.post(f"/v1/{path}", content=body, headers={"content-type": kind})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, code) and error["param"]
