"""Who speaks, live: in whatever pieces the audio comes, what a file of it says with the same cut;
and what is kept does not grow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.request import StopReason
from lookhear.engine.core.single_pass import RowsResult
from lookhear.engine.diarisation.file import FileDiarisation
from lookhear.engine.diarisation.live import LiveDiarisation
from lookhear.engine.diarisation.request import ChunkRequest
from lookhear.engine.diarisation.speaker_cache import Chunking
from lookhear.engine.messages import (
    CloseSession,
    DiariseFile,
    DiariseLive,
    DiarisingFailed,
    Event,
    FileDiarised,
    SpeakersHeard,
    SpeakerTurn,
)
from tests.engine.playing import make_core
from tools.random_checkpoints.diarisation import build_random_diariser

STACK, EMPHASIS = 8, 0.97


def speech(seconds: float, seed: int = 0) -> NDArray[np.float32]:
    """Noise whose loudness changes twice a second."""
    draw = np.random.default_rng(seed)
    count = round(seconds * 16_000)
    loud = np.repeat(draw.uniform(0, 2, count // 8000 + 1), 8000)[:count]
    return (0.1 * loud * draw.standard_normal(count)).astype(np.float32)


def scored(request: ChunkRequest) -> RowsResult:
    """A diariser: any deterministic function of all that it is given."""
    seed = hash((request.stretch.tobytes(), request.behind, request.chunk, request.frames))
    loud = np.random.default_rng(seed % 2**32).random((request.frames, 2), np.float32)
    return RowsResult(
        key=request.key,
        tokens=(),
        logprobs=(),
        num_accepted=0,
        stop=StopReason.END,
        rows=np.repeat(loud[::7], 7, 0)[: request.frames],
    )


def of_file(samples: NDArray[np.float32], cut: Chunking) -> list[SpeakerTurn]:
    owner = FileDiarisation(DiariseFile("f", "m", samples), cut, STACK, EMPHASIS)
    events = owner.settle()
    while owner.wants_request():
        events += owner.absorb(scored(owner.make_request()))
    (event,) = events
    assert isinstance(event, FileDiarised)
    return event.turns


def sorted_turns(heard: list[SpeakersHeard]) -> list[SpeakerTurn]:
    over = [turn for event in heard for turn in event.over]
    return sorted(over, key=lambda turn: (turn.start, turn.speaker))


@settings(max_examples=40, deadline=None)
@given(
    pieces=st.lists(st.integers(0, 9000), max_size=12),
    cut=st.tuples(st.integers(1, 6), st.integers(0, 4), st.integers(0, 3)),
    lags=st.booleans(),
)
def test_in_any_pieces_it_is_what_the_file_says(
    pieces: list[int], cut: tuple[int, int, int], lags: bool
) -> None:
    chunking = Chunking(*cut, latest=8, moved=4)
    samples = speech(sum(pieces) / 16_000 + 0.01)[: sum(pieces)]
    owner = LiveDiarisation("k", "s", chunking, STACK, EMPHASIS)
    events: list[Event] = []
    at = 0
    for number, piece in enumerate([*pieces, 0]):
        is_last = number == len(pieces)
        owner.append(samples[at : at + piece], is_last=is_last)
        at += piece
        events += owner.settle()
        while owner.wants_request() and (is_last or not lags):
            events += owner.absorb(scored(owner.make_request()))
        if not lags:
            seen = chunking.behind + chunking.chunk + chunking.ahead
            assert owner.num_kept <= (seen + 1) * STACK * 160 + 9000
    heard = [event for event in events if isinstance(event, SpeakersHeard)]
    assert len(heard) == len(events) and owner.is_done
    assert [event.is_last for event in heard] == [*[False] * (len(heard) - 1), True]
    known = [event.seconds for event in heard]
    assert known == sorted(known) and known[-1] == sum(pieces) // 160 / 100
    assert sorted_turns(heard) == of_file(samples, chunking)
    for event in heard:  # what is under way ends where it is known
        assert all(turn.end == event.seconds for turn in event.open)


# --- through the engine --------------------------------------------------------------------------


def played(core: EngineCore, messages: list[DiariseLive]) -> list[Event]:
    events: list[Event] = []
    for message in messages:
        core.submit(message)
        while core.has_work:
            events += core.step()
        events += core.step()
    core.check()
    return events


def in_pieces(session: str, samples: NDArray[np.float32], size: int) -> list[DiariseLive]:
    starts = range(0, len(samples), size)
    return [
        DiariseLive(session, "m", samples[at : at + size], at, is_last=at == starts[-1])
        for at in starts
    ]


def test_an_engine_says_the_same_however_it_comes(tmp_path: Path) -> None:
    core = make_core(build_random_diariser(tmp_path))
    samples = speech(12.3)
    texts = []
    for session, size in (("a", 1600), ("b", 48_000), ("c", len(samples))):
        told = played(core, in_pieces(session, samples, size))
        heard = [event for event in told if isinstance(event, SpeakersHeard)]
        assert len(heard) == len(told) and {event.session for event in heard} == {session}
        assert [event.is_last for event in heard].count(True) == 1 and heard[-1].is_last
        texts.append(sorted_turns(heard))
        core.submit(CloseSession(session))
    assert texts[0] == texts[1] == texts[2] and len(texts[0]) > 3
    assert {turn.speaker for turn in texts[0]} != {0}


def test_a_session_that_is_closed_is_forgotten(tmp_path: Path) -> None:
    core = make_core(build_random_diariser(tmp_path))
    samples = speech(6.0)
    first = played(core, in_pieces("a", samples, 16_000))
    core.submit(CloseSession("a"))
    assert played(core, in_pieces("a", samples, 16_000)) == first, "speakers are counted anew"
    assert played(core, in_pieces("a", samples, 16_000)) == [], "it is over"
    assert core.stats()["diarised_sessions"] == 0


def test_where_samples_are_missing_there_are_other_speakers(tmp_path: Path) -> None:
    """Another engine goes on, say, when the first one has died."""
    core = make_core(build_random_diariser(tmp_path))
    messages = in_pieces("a", speech(6.0), 16_000)
    events = played(core, [*messages[:2], *messages[3:]])
    assert [type(event) for event in events[-2:]] == [SpeakersHeard, DiarisingFailed]
    assert isinstance(events[-1], DiarisingFailed) and events[-1].code == "audio_missing"


def test_a_model_that_transcribes_refuses() -> None:
    core = make_core(Path("demo-qwen3-asr"))
    (event,) = played(core, [DiariseLive("a", "m", speech(1.0), 0)])
    assert isinstance(event, DiarisingFailed) and event.code == "invalid_model"
    assert "tells speakers apart" in event.message


@pytest.mark.parametrize("is_last", [False, True])
def test_what_failed_says_so_once(is_last: bool) -> None:
    owner = LiveDiarisation("k", "s", Chunking(1, 0, 0, 8, 4), STACK, EMPHASIS)
    owner.append(speech(1.0), is_last=is_last)
    assert owner.wants_request()
    owner.make_request()
    (event,) = owner.fail("model_error", "why")
    assert event == DiarisingFailed("s", "model_error", "why")
    assert owner.is_done and owner.has_failed and owner.settle() == []
