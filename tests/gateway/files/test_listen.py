"""Deepgram's `POST /v1/listen`: recordings in the body and by URL, and errors in its own words."""

from __future__ import annotations

import asyncio
import hashlib
import http.server
import io
import threading
from collections.abc import AsyncIterator, Iterator
from ipaddress import ip_network
from typing import Any

import httpx
import numpy as np
import pytest
import pytest_asyncio
import soundfile

from lookhear.engine.client.client import EngineRequestError
from lookhear.engine.messages import FileTranscribed, Segment, TokenLogprob, TranscribeFile, Word
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.fetching.fetcher import Fetcher
from lookhear.gateway.services.services import FILES_OF_ONE
from lookhear.gateway.slots import Claim
from lookhear.media.base import FetchError
from lookhear.media.fetching.rules import FetchPolicy
from tests.gateway.deepgram.frames import check_transcript
from tests.gateway.fake_engine import CARDS, FakeEngine, OnProgress
from tests.gateway.files.test_http import wav
from tests.gateway.running import Running, running
from tests.media.audio.encoders import encode_alaw, encode_mulaw, encode_pcm16

pytestmark = pytest.mark.asyncio(loop_scope="module")
SAID = "transcribe 1.0 seconds."


@pytest_asyncio.fixture(loop_scope="module")
async def client(shared: Running) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        base_url=shared.http, trust_env=False, verify=False, timeout=60
    ) as client:
        shared.engine.be_well()
        yield client


async def post(client: httpx.AsyncClient, query: str = "", **options: Any) -> httpx.Response:
    content = options.pop("content", wav(1.0))
    return await client.post(f"/v1/listen?{query}", content=content, **options)


async def test_a_recording_becomes_text_and_words(
    shared: Running, client: httpx.AsyncClient
) -> None:
    answer = await post(client, "language=en-GB&keyterm=Ada&keyterm=Charles+Babbage")
    assert answer.status_code == 200
    told = check_transcript(answer.json())
    assert told["metadata"]["duration"] == 1.0
    assert told["metadata"]["sha256"] == hashlib.sha256(wav(1.0)).hexdigest()
    assert answer.headers["dg-request-id"] == told["metadata"]["request_id"]
    [heard] = told["results"]["channels"][0]["alternatives"]
    assert (heard["transcript"], heard["confidence"]) == (SAID, 0.9)
    assert [word["word"] for word in heard["words"]] == ["seconds"]
    assert "detected_language" not in told["results"]["channels"][0]
    settings = shared.engine.files[-1].settings
    assert (settings.language, settings.keywords) == (
        "en",
        ("Ada", "Charles Babbage"),
    )


async def test_what_has_no_effect_is_named(client: httpx.AsyncClient) -> None:
    answer = await post(client, "numerals=true&interim_results=true&tag=mine&diarize=false")
    assert answer.headers["x-lookhear-ignored"] == "numerals, interim_results"
    assert "x-lookhear-ignored" not in (await post(client, "language=en")).headers


async def test_the_language_is_told_to_who_leaves_it_open(
    shared: Running, client: httpx.AsyncClient
) -> None:
    for query, among in (("=true", ()), ("=en&detect_language=fr", ("en", "fr"))):
        told = check_transcript((await post(client, f"detect_language{query}")).json())
        assert told["results"]["channels"][0]["detected_language"] == "en"
        settings = shared.engine.files[-1].settings
        assert (settings.language, settings.languages) == (None, among)


class Wordy(FakeEngine):
    """Hears two utterances in every recording."""

    async def transcribe_file(
        self, message: TranscribeFile, on_progress: OnProgress | None = None
    ) -> FileTranscribed:
        words = [Word(" One", 0.0, 0.2, 0.8), Word(" two.", 0.3, 0.5, 0.6)]
        words.append(Word(" Three.", 2.0, 2.5, 1.0))
        segments = [Segment(" One two.", 0.0, 0.5, [1], -0.5, 0.0)]
        logprobs = [TokenLogprob(" One", -0.5, [])] if message.settings.logprobs else None
        is_wordy = message.settings.words
        text = " One two. Three." if is_wordy else " One two."
        return FileTranscribed(
            message.request, text, "en", 3.0, segments, words if is_wordy else [], 4, logprobs
        )


async def test_utterances_lie_between_pauses() -> None:
    async with running(engine=Wordy()) as gateway:
        async with httpx.AsyncClient(
            base_url=gateway.http, trust_env=False, verify=False
        ) as client:
            told = check_transcript((await post(client, "utterances=true")).json())
            parts = told["results"]["utterances"]
            assert [(u["transcript"], u["start"], u["end"]) for u in parts] == [
                ("One two.", 0.0, 0.5),
                ("Three.", 2.0, 2.5),
            ]
            told = (await post(client, "utterances=true&utt_split=1.6")).json()
            [whole] = told["results"]["utterances"]
            assert whole["transcript"] == "One two. Three." and whole["confidence"] == 0.8


@pytest.mark.parametrize("asked", ["paragraphs", "smart_format"])
async def test_sentences_make_paragraphs(asked: str) -> None:
    async with running(engine=Wordy()) as gateway:
        async with httpx.AsyncClient(
            base_url=gateway.http, trust_env=False, verify=False
        ) as client:
            told = check_transcript((await post(client, f"{asked}=true")).json())
            plain = check_transcript((await post(client)).json())
    [heard] = told["results"]["channels"][0]["alternatives"]
    assert heard["paragraphs"]["transcript"] == "\nOne two.\n\nThree."
    assert [p["num_words"] for p in heard["paragraphs"]["paragraphs"]] == [2, 1]
    assert "paragraphs" not in plain["results"]["channels"][0]["alternatives"][0]


def stereo(*amplitudes: float, seconds: float = 1.0) -> bytes:
    """A WAV with a tone in each channel."""
    tone = np.sin(np.arange(round(seconds * 16000)) * 2 * np.pi * 300 / 16000)
    data = io.BytesIO()
    soundfile.write(data, np.outer(tone, amplitudes), 16000, format="WAV", subtype="PCM_16")
    return data.getvalue()


def loudness(samples: Any) -> float:
    return float(np.sqrt(2 * np.mean(np.square(samples))))


async def test_channels_are_heard_one_by_one_for_who_asks(
    shared: Running, client: httpx.AsyncClient
) -> None:
    content = stereo(0.5, 0.1)
    before = len(shared.engine.files)
    answer = await post(client, "multichannel=true&utterances=true", content=content)
    told = check_transcript(answer.json())
    assert told["metadata"]["channels"] == 2 == len(told["results"]["channels"])
    heard = shared.engine.files[before:]
    assert [loudness(file.samples) for file in heard] == pytest.approx([0.5, 0.1], abs=1e-3)
    assert [part["channel"] for part in told["results"]["utterances"]] == [0, 1]
    ids = [part["id"] for part in told["results"]["utterances"]]
    assert ids == ["utterance_0", "utterance_1"]
    mixed = check_transcript((await post(client, content=content)).json())
    assert mixed["metadata"]["channels"] == 1
    assert loudness(shared.engine.files[-1].samples) == pytest.approx(0.3, abs=1e-3)


async def test_bare_samples_of_several_channels(shared: Running, client: httpx.AsyncClient) -> None:
    bare = stereo(0.5, 0.1)[44:]
    query = "encoding=linear16&sample_rate=16000&channels=2"
    answer = await post(client, query, content=bare)
    assert check_transcript(answer.json())["metadata"]["duration"] == 1.0
    assert loudness(shared.engine.files[-1].samples) == pytest.approx(0.3, abs=1e-3)
    answer = await post(client, f"{query}&multichannel=true", content=bare)
    assert check_transcript(answer.json())["metadata"]["channels"] == 2
    assert loudness(shared.engine.files[-1].samples) == pytest.approx(0.1, abs=1e-3)


async def test_too_many_channels_are_refused(shared: Running, client: httpx.AsyncClient) -> None:
    before = len(shared.engine.files)
    answer = await post(client, "multichannel=true", content=stereo(*[0.1] * 17, seconds=0.1))
    assert answer.status_code == 400
    assert answer.json()["err_msg"].startswith("multichannel: expected a recording of at most 16")
    assert len(shared.engine.files) == before


async def test_a_model_without_word_times_tells_segments() -> None:
    engine = Wordy()
    engine.models = [type(CARDS[0])("deaf-to-time", "qwen", [], 0, 1, has_word_times=False)]
    async with running(engine=engine) as gateway:
        async with httpx.AsyncClient(
            base_url=gateway.http, trust_env=False, verify=False
        ) as client:
            told = check_transcript((await post(client, "utterances=true")).json())
    [heard] = told["results"]["channels"][0]["alternatives"]
    assert heard["words"] == [] and heard["confidence"] == pytest.approx(0.6065)
    [part] = told["results"]["utterances"]
    assert (part["transcript"], part["confidence"]) == ("One two.", pytest.approx(0.6065))


@pytest.mark.parametrize(
    "encoding, encode, rate",
    [
        ("linear16", encode_pcm16, 16000),
        ("linear16", encode_pcm16, 44100),
        ("mulaw", encode_mulaw, 8000),
        ("alaw", encode_alaw, 8000),
    ],
)
async def test_bare_samples_are_read_as_the_client_says(
    shared: Running, client: httpx.AsyncClient, encoding: str, encode: Any, rate: int
) -> None:
    tone = (0.3 * np.sin(np.arange(rate) * 2 * np.pi * 300 / rate)).astype(np.float32)
    query = f"encoding={encoding}&sample_rate={rate}"
    answer = await post(client, query, content=encode(tone))
    assert check_transcript(answer.json())["metadata"]["duration"] == 1.0
    heard = shared.engine.files[-1].samples
    assert np.sqrt(np.mean(np.square(heard))) == pytest.approx(0.3 / 2**0.5, abs=0.01)
    # A file says itself what it is.
    answer = await post(client, query)
    assert check_transcript(answer.json())["metadata"]["duration"] == 1.0


@pytest.mark.parametrize(
    "query", ["encoding=opus", "encoding=linear16", "sample_rate=1&channels=0"]
)
async def test_a_file_that_says_itself_how_it_is_to_be_read_is_read_so(
    client: httpx.AsyncClient, query: str
) -> None:
    answer = await post(client, query)
    assert check_transcript(answer.json())["metadata"]["duration"] == 1.0


@pytest.fixture
def website() -> Iterator[str]:
    """The URL of a recording."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = wav(1.0)
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/talk.wav"
        server.shutdown()
        thread.join()


async def test_a_recording_by_its_url(website: str) -> None:
    config = GatewayConfig(port=0, allow_networks=(ip_network("127.0.0.0/8"),))
    async with running(config) as gateway:
        async with httpx.AsyncClient(
            base_url=gateway.http, trust_env=False, verify=False
        ) as client:
            answer = await client.post("/v1/listen", json={"url": website})
            told = check_transcript(answer.json())
    assert told["results"]["channels"][0]["alternatives"][0]["transcript"] == SAID


@pytest.mark.parametrize("path", ["/v1/listen", "/v1/audio/transcriptions"])
async def test_slow_addresses_stop_no_upload(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    arrived, gate = asyncio.Semaphore(0), asyncio.Event()

    async def slow(fetcher: Fetcher, url: str, policy: FetchPolicy, claim: Claim) -> bytes:
        arrived.release()
        await gate.wait()
        raise FetchError("timeout", "it never came")

    monkeypatch.setattr(Fetcher, "get", slow)
    address = "http://slow.test/a.wav"
    by_url: dict[str, Any] = {"json" if path == "/v1/listen" else "data": {"url": address}}
    async with running() as gateway:
        async with httpx.AsyncClient(
            base_url=gateway.http, trust_env=False, verify=False, timeout=60
        ) as client:
            slowly = [asyncio.create_task(client.post(path, **by_url)) for _ in range(5)]
            for _ in range(FILES_OF_ONE):
                await arrived.acquire()
            assert (await client.post("/v1/listen", content=wav(1.0))).status_code == 200
            gate.set()
            assert {answer.status_code for answer in await asyncio.gather(*slowly)} == {400}


@pytest.mark.parametrize(
    "query, options, status, named",
    [
        ("diarize=true", {}, 400, "diarize"),
        ("paragraphs=perhaps", {}, 400, "paragraphs"),
        ("encoding=opus&sample_rate=48000", {"content": bytes(999)}, 400, "encoding"),
        ("encoding=linear16", {"content": bytes(1000)}, 400, "sample_rate"),
        ("utt_split=soon", {}, 400, "utt_split"),
        ("language=xx", {}, 400, "language"),
        ("", {"content": b""}, 400, "body"),
        ("", {"content": b"no recording"}, 400, "file"),
        ("", {"content": b"{", "headers": {"content-type": "application/json"}}, 400, "body"),
        ("", {"content": b"{}", "headers": {"content-type": "application/json"}}, 400, "url"),
        (
            "",
            {"content": rb'{"url": "http://127.0.0.1:1/\ud800"}'}
            | {"headers": {"content-type": "application/json"}},
            400,
            "url",
        ),
        (
            "",
            {"content": b'{"url": "http://127.0.0.1:1/a.wav"}'}
            | {"headers": {"content-type": "application/json"}},
            400,
            "url",
        ),
        ("", {"headers": {"origin": "http://elsewhere"}}, 403, "Origin"),
    ],
)
async def test_errors_are_in_its_own_words(
    client: httpx.AsyncClient, query: str, options: dict[str, Any], status: int, named: str
) -> None:
    answer = await post(client, query, **options)
    assert answer.status_code == status
    told = answer.json()
    assert set(told) == {"err_code", "err_msg", "request_id"}
    assert told["err_msg"].startswith(f"{named}: "), told
    assert told["request_id"] == answer.headers["dg-request-id"] == answer.headers["x-request-id"]
    assert answer.headers["dg-error"] == told["err_msg"]


async def test_their_names_of_models_are_refused_where_names_are_strict() -> None:
    async with running(GatewayConfig(port=0, strict_models=True)) as gateway:
        async with httpx.AsyncClient(
            base_url=gateway.http, trust_env=False, verify=False
        ) as client:
            answer = await post(client, "model=nova-3")
    assert answer.status_code == 400 and answer.json()["err_msg"].startswith("model: ")


async def test_what_the_engine_refuses_is_told(shared: Running, client: httpx.AsyncClient) -> None:
    shared.engine.file_error = EngineRequestError("invalid_language", "language: expected en")
    answer = await post(client)
    assert (answer.status_code, answer.json()["err_code"]) == (400, "Bad Request")
    shared.engine.file_error = EngineRequestError("server_error", "it broke")
    answer = await post(client)
    assert (answer.status_code, answer.json()["err_code"]) == (500, "INTERNAL_SERVER_ERROR")


async def test_a_key_is_asked_for_in_its_own_words() -> None:
    async with running(GatewayConfig(port=0, api_keys=("secret",))) as gateway:
        async with httpx.AsyncClient(
            base_url=gateway.http, trust_env=False, verify=False
        ) as client:
            answer = await post(client)
            assert (answer.status_code, answer.json()["err_code"]) == (401, "INVALID_AUTH")
            answer = await post(client, headers={"authorization": "Token secret"})
            assert answer.status_code == 200


async def test_errors_of_other_paths_keep_theirs(client: httpx.AsyncClient) -> None:
    assert (await client.post("/v1/audio/transcriptions")).json()["error"]["message"]
    for method, status, told in (("GET", 426, "a WebSocket handshake"), ("PUT", 405, "POST")):
        answer = await client.request(method, "/v1/listen")
        assert answer.status_code == status
        assert answer.json()["err_msg"].startswith(f"expected {told}")
