"""Turns, answers and files as spans, below the span of whoever asked, and nothing of the words."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from lookhear.engine.client.errors import EngineRequestError
from lookhear.engine.messages import RequestDone
from tests.gateway.chatting import ask, user
from tests.gateway.fake_engine import FakeEngine, transcript
from tests.gateway.files.test_http import wav
from tests.gateway.running import MANUAL, running, tone

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
ASKS = {"traceparent": f"00-{TRACE}-{CALLER}-01"}


class Kept:
    """Spans that have ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def all(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def one(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.all if span.name == name]
        return found

    def parent(self, span: ReadableSpan) -> ReadableSpan:
        assert span.parent is not None
        found = {s.context.span_id: s for s in self.all if s.context is not None}
        return found[span.parent.span_id]


def check_caller(kept: Kept, span: ReadableSpan) -> None:
    """It is below the server's span, which is below the caller's."""
    server = kept.parent(span)
    assert server.parent is not None and f"{server.parent.span_id:016x}" == CALLER
    assert span.context is not None and f"{span.context.trace_id:032x}" == TRACE


@pytest.fixture
def kept() -> Kept:
    return Kept()


async def test_a_turn(kept: Kept) -> None:
    async with running(traces=kept.provider) as it:
        async with it.client(additional_headers=ASKS) as client:
            await client.until("session.created")
            await client.update(MANUAL)
            await client.append(tone(2.0))
            await client.send("input_audio_buffer.commit")
            text = (await client.until("transcription.completed"))["transcript"]
    assert text and text == transcript(32_000)
    turn = kept.one("turn")
    check_caller(kept, turn)
    events = [event.name for event in turn.events]
    assert "speech ended" in events and "text committed" in events
    assert turn.attributes is not None and turn.attributes["lookhear.audio_seconds"] == 2.0
    assert turn.status.status_code is StatusCode.UNSET
    ticks = [span for span in kept.all if span.name == "tick"]
    for tick in ticks:
        assert kept.parent(tick) is turn and tick.attributes is not None
        assert tick.attributes["lookhear.waited_seconds"] == 0.25
        (begun,) = tick.events
        assert tick.start_time is not None and tick.end_time is not None
        assert begun.timestamp - tick.start_time == 250_000_000
        assert tick.end_time - begun.timestamp == 500_000_000
    assert ticks
    for span in kept.all:
        assert text not in span.to_json() and "w1" not in span.to_json()


async def test_requests_and_sockets_are_named_by_what_is_served_and_say_no_query(
    kept: Kept,
) -> None:
    async with running(traces=kept.provider) as it:
        async with httpx.AsyncClient(base_url=it.http, trust_env=False, verify=False) as http:
            for method, path in (
                ("POST", "/v1/listen?keyterm=secret"),
                ("GET", "/v1/models/one?limit=secret"),
                ("GET", "/v1/models/another"),
                ("GET", "/elsewhere"),
            ):
                await http.request(method, path)
        refused = await it.refused("intent=transcription&lookhear_resume=secret")
        assert refused.error["code"] == "missing_required_parameter"  # so the query was read
    names = sorted(span.name for span in kept.all)
    model = "GET /v1/models/{id:path}"
    assert names[:3] == ["GET", model, model] and names[4] == "POST /v1/listen"
    assert names[3].endswith(" /v1/realtime")
    for span in kept.all:
        assert span.attributes is not None and "/" in str(span.attributes["http.url"])
        assert "secret" not in span.to_json() and "intent" not in span.to_json()


async def test_an_answer_and_a_refused_one(kept: Kept) -> None:
    engine = FakeEngine(sees=True)
    async with running(engine=engine, traces=kept.provider) as it:
        async with httpx.AsyncClient(
            base_url=it.http, headers=ASKS, trust_env=False, verify=False
        ) as http:
            assert (await ask(http, user("a secret question"))).status_code == 200
            engine.chat.fail_next("context_length_exceeded", "too long a secret", 0)
            assert (await ask(http, user("another"))).status_code == 400
    good, bad = [span for span in kept.all if span.name == "answer"]
    for span in (good, bad):
        check_caller(kept, span)
    assert [event.name for event in good.events] == ["first token"]
    assert good.attributes is not None and good.attributes["lookhear.reason"] == "stop"
    assert bad.status.status_code is StatusCode.ERROR
    assert bad.status.description == "context_length_exceeded"
    assert not any("secret" in span.to_json() for span in kept.all)


async def test_a_file_and_a_refused_one(kept: Kept) -> None:
    engine = FakeEngine()
    async with running(engine=engine, traces=kept.provider) as it:
        async with httpx.AsyncClient(
            base_url=it.http, headers=ASKS, trust_env=False, verify=False
        ) as http:
            for error in (None, EngineRequestError("audio_too_long", "too long")):
                engine.file_error = error
                await http.post("/v1/audio/transcriptions", files={"file": ("a.wav", wav(1.0))})
    good, bad = [span for span in kept.all if span.name == "file"]
    check_caller(kept, good)
    assert good.attributes is not None and good.attributes["lookhear.tokens"] == 5
    windows = [span for span in kept.all if span.name == "window"]
    assert [kept.parent(window) for window in windows] == [good]  # the other was not begun
    assert bad.status.status_code is StatusCode.ERROR


async def test_a_window_of_a_section_belongs_to_its_file(kept: Kept) -> None:
    engine = FakeEngine()
    engine.file_gate = asyncio.Event()
    async with running(engine=engine, traces=kept.provider) as it:
        async with httpx.AsyncClient(
            base_url=it.http, headers=ASKS, trust_env=False, verify=False
        ) as http:
            sent = {"file": ("a.wav", wav(1.0))}
            asked = asyncio.create_task(http.post("/v1/audio/transcriptions", files=sent))
            await engine.wait_for(lambda: bool(engine.files))
            [file] = engine.files
            done = RequestDone(file.request, "3", "batch", 0.0, 0.5)
            engine.on_request(file.settings.model, done)
            engine.file_gate.set()
            await asked
    [whole] = [span for span in kept.all if span.name == "file"]
    windows = [span for span in kept.all if span.name == "window"]
    assert [kept.parent(window) for window in windows] == [whole, whole]


async def test_what_is_open_when_the_engine_dies_or_the_client_leaves_ends(kept: Kept) -> None:
    engine = FakeEngine(hold=True)
    async with running(engine=engine, traces=kept.provider) as it:
        for leaves in (False, True):
            async with it.client() as client:
                await client.until("session.created")
                await client.update(MANUAL)
                await client.append(tone(1.0))
                await engine.wait_for(lambda: bool(engine.turns))
                if not leaves:
                    engine.die()
                    await client.receive()
                    engine.be_well()
    died, left = [span for span in kept.all if span.name == "turn"]
    assert died.status.status_code is StatusCode.ERROR
    assert left.events[-1].name == "given up"
