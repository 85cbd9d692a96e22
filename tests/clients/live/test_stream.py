"""The live stream: everything said is transcribed once, whatever happens to the connection."""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from lookhear.blocking import Client
from lookhear.client import AsyncClient
from lookhear.errors import (
    AuthenticationError,
    ConnectionFailed,
    InvalidRequest,
    ModelNotFound,
    ServerError,
    SourceError,
)
from lookhear.live.events import (
    Event,
    Reconnecting,
    SessionReady,
    SpeechStarted,
    SpeechStopped,
    TextDelta,
    TurnCompleted,
)
from lookhear.live.options import StreamOptions
from lookhear.live.stream import LiveStream
from lookhear.live.turns import ServerVad
from lookhear.transport.retry import Retry
from tests.clients.counting_server import CountingServer, Drop, said, speech

TURNS = ([101, 102], [103], [104, 105, 106])
VAD = ServerVad()
AT_ONCE = Retry(tries=5, first=0.0)


async def chunked(pcm: bytes, size: int = 9_999) -> AsyncIterator[bytes]:
    for first in range(0, len(pcm), size):  # an odd size: samples are split
        yield pcm[first : first + size]


async def heard(
    server: CountingServer, source: bytes, vad: ServerVad | None = VAD, retry: Retry = AT_ONCE
) -> list[Event]:
    client = AsyncClient(server.url, retry=retry)
    stream = client.transcribe(chunked(source), turn_detection=vad)
    return [event async for event in stream]


def words(events: list[Event]) -> list[str]:
    """Words of the completed turns, in the order of their place in the source."""
    turns = [event for event in events if isinstance(event, TurnCompleted)]
    return " ".join(turn.text for turn in sorted(turns, key=lambda turn: turn.start)).split()


def check_wire_promises(events: list[Event]) -> None:
    """Deltas of a turn join to its text, nothing follows its end, no item is used twice."""
    text: dict[str, str] = {}
    done: set[str] = set()
    for event in events:
        if isinstance(event, TextDelta):
            assert event.item_id not in done
            text[event.item_id] = text.get(event.item_id, "") + event.text
        elif isinstance(event, TurnCompleted):
            assert event.item_id not in done
            done.add(event.item_id)
            assert text.get(event.item_id, "") == event.text
        elif isinstance(event, Reconnecting):
            assert not done & set(event.superseded)
            done |= set(event.superseded)
    assert set(text) <= done, "text of a turn that never ended"


async def test_turns_come_with_their_place_in_the_source() -> None:
    async with CountingServer().running() as server:
        events = await heard(server, speech(*TURNS))
    check_wire_promises(events)
    assert words(events) == said(*TURNS)
    assert isinstance(events[0], SessionReady)
    starts = [e.start for e in events if isinstance(e, SpeechStarted)]
    assert starts[0] == pytest.approx(0.9 - 0.3)  # the silence before, less the prefix padding
    stops = [e.end for e in events if isinstance(e, SpeechStopped)]
    assert stops[0] == pytest.approx(0.9 + 0.4 + 203 / 24_000 + 0.5, abs=0.001)
    assert server.paths == ["/v1/realtime?intent=transcription"]


async def test_null_turn_detection_is_one_turn() -> None:
    async with CountingServer().running() as server:
        events = await heard(server, speech(*TURNS), vad=None)
    check_wire_promises(events)
    assert len([e for e in events if isinstance(e, TurnCompleted)]) == 1
    assert words(events) == said(*TURNS)
    assert server.updates[0]["audio"]["input"]["turn_detection"] is None


@pytest.mark.parametrize("late", [False, True], ids=["in order", "late"])
@pytest.mark.parametrize("code", [None, 1011])
async def test_a_drop_at_any_event_loses_nothing(code: int | None, late: bool) -> None:
    """Break the connection before each event in turn, until the index is beyond the last one."""
    index = 0
    while True:
        drops = [Drop(after_events=index, code=code)]
        async with CountingServer(drops, completions_late=late).running() as server:
            events = await heard(server, speech(*TURNS))
        check_wire_promises(events)
        assert words(events) == said(*TURNS), f"dropped before event {index}"
        if server.connections == 1:
            break
        assert len([e for e in events if isinstance(e, Reconnecting)]) == 1
        index += 1
    assert index >= 20, "the script ended early"


async def test_a_drop_after_any_frame_loses_nothing() -> None:
    index = 1
    while True:
        drops = [Drop(after_frames=index)]
        async with CountingServer(drops).running() as server:
            events = await heard(server, speech(*TURNS))
        check_wire_promises(events)
        assert words(events) == said(*TURNS), f"dropped after frame {index}"
        if server.connections == 1:
            break
        index += 1
    assert index >= 5


@pytest.mark.parametrize("index", range(1, 20, 3))
async def test_repeated_drops_lose_nothing(index: int) -> None:
    drops = [Drop(after_events=index, code=1012), Drop(after_frames=3), Drop(after_events=4)]
    async with CountingServer(drops, completions_late=True).running() as server:
        events = await heard(server, speech(*TURNS))
    check_wire_promises(events)
    assert words(events) == said(*TURNS)


async def test_a_drop_in_a_manual_turn_repeats_the_whole_turn() -> None:
    async with CountingServer([Drop(after_events=6)]).running() as server:
        events = await heard(server, speech(*TURNS), vad=None)
    check_wire_promises(events)
    assert words(events) == said(*TURNS)
    (reconnecting,) = [e for e in events if isinstance(e, Reconnecting)]
    assert reconnecting.resume == 0.0 and reconnecting.lost == 0.0
    assert len(reconnecting.superseded) == 1


async def test_a_turn_longer_than_the_replay_buffer_says_what_is_lost() -> None:
    async with CountingServer([Drop(after_frames=45)]).running() as server:
        client = AsyncClient(server.url, retry=AT_ONCE)
        source = chunked(speech(list(range(101, 301)), word_ms=300), 48_000)
        options = {"turn_detection": None, "replay_seconds": 5.0}
        events = [e async for e in client.transcribe(source, **options)]  # type: ignore[arg-type]
    (reconnecting,) = [e for e in events if isinstance(e, Reconnecting)]
    assert reconnecting.lost == pytest.approx(reconnecting.resume) and reconnecting.lost > 1.0


async def test_one_huge_chunk_is_sent_in_bounded_pieces() -> None:
    turn = list(range(101, 301))

    async def at_once() -> AsyncIterator[bytes]:
        yield speech(turn, word_ms=300)

    async with CountingServer().running() as server:
        client = AsyncClient(server.url)
        text = await client.transcribe_text(at_once(), turn_detection=None, replay_seconds=1.0)
    assert text.split() == said(turn, word_ms=300)


async def test_tries_are_counted_until_something_is_done() -> None:
    async with CountingServer([Drop(after_events=2)] * 50).running() as server:
        with pytest.raises(ConnectionFailed, match="5 tries"):
            await heard(server, speech(*TURNS))
    assert server.connections == 6


async def test_no_server_is_an_error_at_once() -> None:
    async with CountingServer().running() as server:
        url = server.url
    with pytest.raises(ConnectionFailed, match=url):
        [e async for e in AsyncClient(url).transcribe(chunked(b""))]


async def test_a_failing_server_is_sought_again_and_then_quoted() -> None:
    error = {"type": "server_error", "message": "the engine has stopped", "code": "engine_failed"}
    async with CountingServer([Drop(4, code=1011, error=error)]).running() as server:
        events = await heard(server, speech(*TURNS))
    assert words(events) == said(*TURNS)
    (reconnecting,) = [e for e in events if isinstance(e, Reconnecting)]
    assert reconnecting.reason == "closed with 1011: the engine has stopped"
    async with CountingServer([Drop(4, code=1011, error=error)] * 6).running() as server:
        with pytest.raises(ServerError, match="the engine has stopped"):
            await heard(server, speech(*TURNS))


@pytest.mark.parametrize("code", ["session_idle", "session_expired"])
async def test_a_session_whose_time_is_over_is_begun_anew(code: str) -> None:
    """Of a pipe in which nothing came for a quarter of an hour, say."""
    error = {"type": "invalid_request_error", "message": "it is over", "code": code}
    async with CountingServer([Drop(4, code=1001, error=error)]).running() as server:
        events = await heard(server, speech(*TURNS))
    assert words(events) == said(*TURNS)
    (reconnecting,) = [e for e in events if isinstance(e, Reconnecting)]
    assert reconnecting.reason == "closed with 1001: it is over"


async def test_a_server_that_loads_its_model_is_waited_for() -> None:
    """For more tries than a lost one, and in words that say what it does."""
    error = {"type": "server_error", "message": "the model loads", "code": "engine_not_ready"}
    drops = [Drop(0, code=1013, error=error)] * 8
    async with CountingServer(list(drops)).running() as server:
        events = await heard(server, speech(*TURNS))
    assert words(events) == said(*TURNS)
    assert [e.reason for e in events if isinstance(e, Reconnecting)] == ["the model loads"] * 8
    impatient = Retry(tries=5, first=0.0, loading=0.0)
    async with CountingServer(list(drops)).running() as server:
        with pytest.raises(ServerError, match="the model loads"):
            await heard(server, speech(*TURNS), retry=impatient)
    assert server.connections == 6


class Clock:
    """Time that passes while somebody waits, and only then. at: what happens when; seconds."""

    def __init__(self, *at: tuple[float, Callable[[], None]]) -> None:
        self.now = 0.0
        self.waits: list[float] = []
        self._at = list(at)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        while self._at and self._at[0][0] <= self.now:
            self._at.pop(0)[1]()
        await asyncio.sleep(0)


def stream(
    server: CountingServer, source: AsyncIterator[bytes], clock: Clock, retry: Retry | None = None
) -> LiveStream:
    return LiveStream(
        AsyncClient(server.url).server,
        source,
        StreamOptions(),
        retry or Retry(),
        clock=lambda: clock.now,
        sleep=clock.sleep,
    )


@pytest.mark.parametrize("away", [290.0, 310.0])
async def test_a_server_is_sought_for_as_long_as_its_audio_is_kept(away: float) -> None:
    """What is said meanwhile, too: here four minutes of it."""
    counting = CountingServer([Drop(after_frames=3)])
    clock = Clock((away, lambda: setattr(counting, "is_away", False)))
    silence = bytes(24_000 * 2 * 30)
    said_late = asyncio.Event()

    async def spoken() -> AsyncIterator[bytes]:
        yield speech(*TURNS)
        for _ in range(8):
            yield silence
        said_late.set()
        yield speech([107])

    async with counting.running() as server:
        lost: list[Reconnecting] = []
        events: list[Event] = []
        live = stream(server, spoken(), clock)
        try:
            async for event in live.events():
                events.append(event)
                if isinstance(event, Reconnecting):
                    server.is_away = not lost or server.is_away
                    lost.append(event)
                    if event.attempt == 2:
                        async with asyncio.timeout(60):
                            await said_late.wait()  # it is read although nobody takes it
        except ConnectionFailed as error:
            assert away > 300 and re.search(r"did not bring it back in 30\d s", str(error))
        else:
            assert away < 300 and words(events) == said(*TURNS, [107])
    assert all(event.lost == 0.0 for event in lost)
    assert [e.patience for e in lost] == sorted((e.patience for e in lost), reverse=True)
    assert lost[0].patience == 300.0 and max(clock.waits) <= 8.0 * 1.2


async def test_a_full_server_is_asked_again_when_it_says() -> None:
    async with CountingServer(refusals=[7, 3]).running() as server:
        clock = Clock()
        events = [e async for e in stream(server, chunked(speech(*TURNS)), clock).events()]
    assert words(events) == said(*TURNS)
    told = [event for event in events if isinstance(event, Reconnecting)]
    assert [event.reason for event in told] == ["all places are taken"] * 2
    assert [wait >= least for wait, least in zip(clock.waits, (7, 3), strict=True)] == [True] * 2
    assert told[0].patience == Retry().refused


async def test_a_server_that_refuses_because_its_model_loads_is_waited_for() -> None:
    """For longer than one that is full."""
    loads = ("engine_not_ready", "the model loads")
    async with CountingServer(refusals=[9] * 40, refusal=loads).running() as server:
        clock = Clock()
        events = [e async for e in stream(server, chunked(speech(*TURNS)), clock).events()]
        assert words(events) == said(*TURNS)
        assert sum(clock.waits) > Retry().refused and server.refusals == []
        server.refusals = [9] * 1000
        impatient = Retry(first=0.0, loading=0.0, refused=0.0)
        with pytest.raises(ServerError, match="the model loads"):
            [e async for e in stream(server, chunked(speech(*TURNS)), Clock(), impatient).events()]
    assert len(server.refusals) >= 998


async def test_who_has_no_place_inside_comes_back_for_one() -> None:
    """A session that the server let in: it goes on, but not with what is said now."""
    error = {"type": "transcription_error", "code": "too_many_speakers", "message": "all taken"}
    async with CountingServer([Drop(after_events=3, error=error)]).running() as server:
        clock, events, told = Clock(), list[Event](), list[str]()
        async for event in stream(server, chunked(speech(*TURNS)), clock).events():
            events.append(event)
            if isinstance(event, Reconnecting):
                server.refusals = [] if told else [7]
                told.append(event.reason)
    check_wire_promises(events)
    assert words(events) == said(*TURNS)
    assert told == ["closed with 1013: all taken", "all places are taken"]
    assert clock.waits[1] >= 7 and server.connections == 2


async def test_a_server_that_stays_full_is_given_up() -> None:
    async with CountingServer(refusals=[9] * 100).running() as server:
        clock = Clock()
        with pytest.raises(ServerError, match="all places are taken") as refused:
            [e async for e in stream(server, chunked(speech(*TURNS)), clock).events()]
    assert refused.value.code == "too_many_speakers" and sum(clock.waits) <= Retry().refused * 1.2


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "invalid_request_error", "code": "model_not_found"}, ModelNotFound),
        ({"type": "invalid_request_error", "code": "invalid_api_key"}, AuthenticationError),
        ({"type": "invalid_request_error", "param": "session.audio"}, InvalidRequest),
    ],
)
async def test_refusals_are_typed_and_not_retried(
    error: dict[str, str], kind: type[ServerError]
) -> None:
    reply = {"type": "error", "error": {"message": "expected this, got that", **error}}
    async with CountingServer(reply_to_update=reply).running() as server:
        with pytest.raises(kind, match="expected this, got that") as caught:
            await heard(server, speech(*TURNS))
    assert caught.value.param == error.get("param")
    assert server.connections == 1


async def test_a_wrong_key_is_refused_in_the_handshake() -> None:
    async with CountingServer(api_key="right").running() as server:
        with pytest.raises(AuthenticationError, match="Incorrect API key"):
            [e async for e in AsyncClient(server.url, "wrong").transcribe(chunked(b""))]
        client = AsyncClient(server.url, "right")
        text = await client.transcribe_text(chunked(speech([101])))
    assert text.split() == said([101])


async def test_what_is_asked_for_reaches_the_server() -> None:
    async with CountingServer().running() as server:
        client = AsyncClient(server.url + "/v1/")
        await client.transcribe_text(
            chunked(speech([101])),
            model="a/b",
            language="de",
            prompt="so far",
            keywords=["lamp"],
            delay="high",
            near_field=True,
            provisional=True,
            turn_detection=ServerVad(silence_duration_ms=700),
        )
    update = server.updates[0]
    assert update["type"] == "transcription"
    assert update["lookhear"] == {"provisional": True, "words": False}
    audio = update["audio"]["input"]
    assert audio["transcription"] == {
        **{"model": "a/b", "language": "de", "prompt": "so far"},
        **{"keywords": ["lamp"], "delay": "high"},
    }
    assert audio["turn_detection"]["silence_duration_ms"] == 700
    assert audio["noise_reduction"] == {"type": "near_field"}
    assert server.paths == ["/v1/realtime?intent=transcription&model=a%2Fb"]


async def test_a_broken_source_ends_the_session_with_its_error() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield speech([101])
        raise SourceError("the microphone was pulled out")

    async with CountingServer().running() as server:
        with pytest.raises(SourceError, match="pulled out"):
            [e async for e in AsyncClient(server.url).transcribe(broken())]
    assert server.connections == 1


async def test_leaving_early_closes_the_session() -> None:
    async with CountingServer().running() as server:
        stream = AsyncClient(server.url).transcribe(chunked(speech(*TURNS)))
        async for event in stream:
            if isinstance(event, TextDelta):
                break
        await stream.aclose()
    assert server.connections == 1


async def test_the_blocking_client_says_the_same() -> None:
    def blocking(url: str) -> tuple[list[Event], str]:
        def chunks() -> Iterator[bytes]:
            yield speech(*TURNS)

        with Client(url) as client:
            events = list(client.transcribe(chunks()))
            for event in client.transcribe(chunks()):
                if isinstance(event, TextDelta):
                    break  # leaving early must not hang
            return events, client.transcribe_text(chunks())

    async with CountingServer().running() as server:
        events, text = await asyncio.to_thread(blocking, server.url)
    check_wire_promises(events)
    assert words(events) == said(*TURNS) == text.split()


async def test_a_session_that_is_forgotten_ends_wherever_it_is_collected() -> None:
    def forget(url: str) -> str:
        with Client(url) as client:
            events = client.transcribe(iter([speech(*TURNS)]))
            assert isinstance(next(events), SessionReady)
            cycle: list[object] = [events]
            cycle.append(cycle)
            del events, cycle
            client._thread.loop.call_soon_threadsafe(gc.collect)
            return client.transcribe_text(iter([speech(*TURNS)]))

    async with CountingServer().running() as server:
        gc.collect()
        gc.disable()  # the next time is on the client's thread
        try:
            text = await asyncio.to_thread(forget, server.url)
        finally:
            gc.enable()
    assert text.split() == said(*TURNS) and server.connections == 2


@pytest.mark.parametrize(
    ("variable", "proxy", "expected"),
    [
        ("http_proxy", "127.0.0.1:9", "as http://HOST:PORT"),
        ("http_proxy", "http://127.0.0.1:xx", "as http://HOST:PORT"),
        ("socks_proxy", "socks5://127.0.0.1:9", "pip install python-socks"),
    ],
    ids=["no scheme", "no port", "socks"],
)
async def test_a_proxy_that_cannot_be_used_is_named(
    variable: str, proxy: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, proxy)
    client = AsyncClient("http://gpu-box.example:8000", retry=AT_ONCE)
    with pytest.raises(ConnectionFailed, match=expected):
        [event async for event in client.transcribe(chunked(b"ab" * 100))]
    with pytest.raises(ConnectionFailed, match=expected):
        await client.conversation().__aenter__()
