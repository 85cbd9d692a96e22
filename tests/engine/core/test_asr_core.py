"""The whole engine on a small random Qwen3-ASR: what others do must not change what I get, and
what goes wrong goes wrong for one alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from lookhear.engine.messages import (
    SAMPLE_RATE,
    AppendAudio,
    CancelFile,
    CancelTurn,
    CloseSession,
    EndTurn,
    Event,
    FileFailed,
    FileTranscribed,
    Message,
    StartTurn,
    TextCommitted,
    TranscribeFile,
    TurnCompleted,
    TurnFailed,
)
from tests.engine.playing import (
    all_free,
    drain,
    file,
    make_core,
    noise,
    outcome,
    play,
    turn,
    wanted,
)


def scripts() -> dict[str, list[Message]]:
    """Speakers and files of different lengths, languages and contexts."""
    return {
        "a": turn("a", 1, 3.0),
        "b": turn("b", 2, 2.2, 0.7, prompt="Ada"),
        "c": turn("c", 3, 3.5, 1.0, language="de"),
        "f": file("f", 4, 7.0),
        "g": file("g", 5, 0.3, language="en"),
        "h": turn("h", 6, 2.6, 0.6, languages=("ko", "fil")),
        "i": file("i", 7, 9.0, languages=("ko", "fil"), keywords=("Ada",)),
    }


@pytest.fixture(scope="module")
def alone(served_asr: Path) -> dict[str, tuple[str, ...]]:
    core = make_core(served_asr)
    texts = {name: outcome(play(core, script), name) for name, script in scripts().items()}
    assert len(set(texts.values())) > 3, "the clips should differ"
    return texts


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"token_budget": 40, "max_rows": 3},
        {"draft_verification": False, "max_rows": 1},
    ],
    ids=["roomy", "chunks", "one row and no drafts"],
)
def test_together_equals_alone(
    served_asr: Path, alone: dict[str, tuple[str, ...]], changes: dict[str, object]
) -> None:
    core = make_core(served_asr, **changes)
    events = play(core, *scripts().values())
    assert {name: outcome(events, name) for name in scripts()} == alone
    assert all_free(core) and not core.has_work


def test_what_is_detected_is_one_of_the_languages_asked_for(served_asr: Path) -> None:
    core = make_core(served_asr)
    heard = set()
    for seed in range(4):
        for script in (
            turn("s", seed, 2.0, languages=("ko", "fil")),
            file("s", seed, 3.0, languages=("ko", "fil")),
        ):
            for event in play(core, script):
                if isinstance(event, TurnCompleted | FileTranscribed) and event.text:
                    heard.add(event.language)
    assert heard and heard <= {"ko", "fil", None}
    assert heard != {None}
    assert all_free(core)


def test_a_second_tick_reads_only_the_open_window_and_the_text(served_asr: Path) -> None:
    core = make_core(served_asr, tick_seconds=0.5)
    samples = noise(7, 5.0)
    core.submit(StartTurn("s", "t", wanted(language="en")))
    reads, encoded = [], []
    for start in range(0, len(samples), 8000):
        before = core.stats()
        core.submit(AppendAudio("s", "t", samples[start : start + 8000], start + 8000))
        drain(core)
        after = core.stats()
        reads.append(after["prompt_tokens_read"] - before["prompt_tokens_read"])
        encoded.append(after["media_tokens_encoded"] - before["media_tokens_encoded"])
    # From 4.1 s on two windows of 26 tokens are closed; the third is open and is all that counts.
    assert encoded[-1] == 15 and max(encoded) <= 26 + 7
    assert reads[-1] < max(reads) and core.stats()["prompt_tokens_found"] > 0
    core.submit(EndTurn("s", "t"))
    drain(core)

    anew = make_core(served_asr, tick_seconds=0.5, freeze_windows=False)
    play(anew, turn("s", 7, 5.0, 0.5, language="en"))
    assert anew.stats()["media_tokens_encoded"] > 1.5 * core.stats()["media_tokens_encoded"]


def test_an_end_at_any_step_frees_all_and_disturbs_nobody(
    served_asr: Path, alone: dict[str, tuple[str, ...]]
) -> None:
    """Of a turn, a session and a file, after every number of steps, prompts in small chunks."""
    core = make_core(served_asr, token_budget=40)
    for steps in range(10):
        ends: list[Message] = [CancelTurn("x", "t"), CloseSession("x"), CancelFile("h")]
        for message in (
            *turn("x", 8, 2.0, 2.0)[:2],
            *file("h", 9, 2.0),
            *file("g", 5, 0.3, language="en"),
        ):
            core.submit(message)
        events: list[Event] = []
        for _ in range(steps):
            events += core.step()
        for end in (ends[steps % 2], ends[2]):
            core.submit(end)
            core.check()
        later = drain(core)
        assert not [e for e in later if getattr(e, "session", "") == "x" or "h" in _file(e)]
        assert outcome(events + later, "g") == alone["g"]
        assert all_free(core)
        core.submit(CloseSession("x"))


def _file(event: Event) -> str:
    return str(getattr(event, "request", ""))


def test_an_end_of_the_one_who_reads_lets_those_who_wait_go_on(served_asr: Path) -> None:
    """Two with one long context: the second waits for what the first is about to write."""
    context = {"prompt": "many words " * 12}
    expected = outcome(play(make_core(served_asr), file("two", 2, 1.0, **context)), "two")
    for steps in (1, 2, 4):
        core = make_core(served_asr, token_budget=40)
        for message in (*file("one", 1, 1.0, **context), *file("two", 2, 1.0, **context)):
            core.submit(message)
        events: list[Event] = []
        for _ in range(steps):
            events += core.step()
        core.submit(CancelFile("one"))
        core.check()
        assert outcome(events + drain(core), "two") == expected


# --- bad input -----------------------------------------------------------------------------------


def failure(events: list[Event], name: str) -> tuple[str, str]:
    (failed,) = [e for e in events if isinstance(e, TurnFailed | FileFailed)]
    assert name in (getattr(failed, "session", ""), getattr(failed, "request", ""))
    return failed.code, failed.message


def test_a_context_longer_than_the_model_fails_alone(
    served_asr: Path, alone: dict[str, tuple[str, ...]]
) -> None:
    core = make_core(served_asr)
    long = file("long", 1, 1.0, prompt="x y z " * 300)
    events = play(core, long, scripts()["a"])
    code, message = failure(events, "long")
    assert code == "context_length_exceeded" and "expected at most 512 tokens" in message
    assert outcome(events, "a") == alone["a"] and all_free(core)


def test_what_can_never_fit_into_memory_fails_alone_and_blocks_nobody(
    served_asr: Path, alone: dict[str, tuple[str, ...]]
) -> None:
    core = make_core(served_asr, kv_cache_gigabytes=0.001, max_context_tokens=256)
    events = play(core, file("long", 1, 1.0, prompt="x y z " * 1000), scripts()["g"])
    assert failure(events, "long")[0] == "context_length_exceeded"
    assert outcome(events, "g") == alone["g"] and all_free(core)


def test_audio_over_the_limit_fails_alone(
    served_asr: Path, alone: dict[str, tuple[str, ...]]
) -> None:
    core = make_core(served_asr, max_audio_seconds=3.2)
    events = play(core, turn("long", 1, 3.5), scripts()["a"])
    assert failure(events, "long")[0] == "audio_too_long"
    assert outcome(events, "a") == alone["a"]
    assert failure(play(core, file("long", 1, 5.0)), "long")[0] == "audio_too_long"
    assert all_free(core)


def test_a_turn_longer_than_a_segment_goes_on_in_the_next(served_asr: Path) -> None:
    core = make_core(served_asr, max_segment_seconds=3.0)
    done = [e for e in play(core, turn("s", 6, 6.0)) if isinstance(e, TurnCompleted)]
    assert [e.duration for e in done] == [6.0]
    assert all_free(core)


def test_empty_and_tiny_clips(served_asr: Path) -> None:
    core = make_core(served_asr)
    events = play(
        core,
        [StartTurn("empty", "t", wanted()), EndTurn("empty", "t")],
        turn("tiny", 1, 0.01),
        turn("short", 1, 0.2),
        file("nothing", 0, 0.0),
        file("blip", 0, 0.03),
    )
    assert not [e for e in events if isinstance(e, TurnFailed | FileFailed)]
    assert outcome(events, "empty") == ("",) and outcome(events, "nothing") == ("",)
    assert {e.session for e in events if isinstance(e, TurnCompleted)} == {"empty", "tiny", "short"}


def test_the_end_as_the_first_token_is_an_empty_text(
    served_asr: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = make_core(served_asr)
    ends = core._runner._end_tokens  # type: ignore[attr-defined]
    logits = torch.full((1, core._runner._decoder.vocab), -10.0)  # type: ignore[attr-defined]
    logits[0, min(ends)] = 10.0
    monkeypatch.setattr(
        "lookhear.engine.models.qwen3.Qwen3Model.logits",
        lambda self, hidden: logits.expand(len(hidden), -1).clone(),
    )
    events = play(core, scripts()["a"], scripts()["f"])
    assert outcome(events, "a") == ("",) and outcome(events, "f") == ("",)
    assert not [e for e in events if isinstance(e, TextCommitted)] and all_free(core)


def test_audio_that_is_not_a_number_fails_alone(
    served_asr: Path, alone: dict[str, tuple[str, ...]]
) -> None:
    broken = noise(0, 3.0)
    broken[100] = np.nan
    core = make_core(served_asr)
    bad: list[Message] = [
        StartTurn("bad", "t", wanted()),
        AppendAudio("bad", "t", broken, len(broken)),
        EndTurn("bad", "t"),
    ]
    events = play(core, bad, scripts()["a"])
    assert "not finite" in failure(events, "bad")[1]
    assert outcome(events, "a") == alone["a"] and all_free(core)
    # The same clip, and others in the blocks that it wrote: nothing of it is left.
    core.submit(TranscribeFile("again", wanted(), broken))
    assert "not finite" in failure(drain(core), "again")[1]
    assert outcome(play(core, scripts()["f"]), "f") == alone["f"]


def test_weights_that_break_in_memory_fail_requests_not_the_engine(
    served_asr: Path, monkeypatch: pytest.MonkeyPatch, alone: dict[str, tuple[str, ...]]
) -> None:
    core = make_core(served_asr)
    with monkeypatch.context() as patch:
        patch.setattr(
            "lookhear.engine.models.qwen3.Qwen3Model.logits",
            lambda self, hidden: torch.full((len(hidden), self.vocab), torch.nan),
        )
        code, message = failure(play(core, scripts()["a"]), "a")
        assert code == "model_error" and "not finite" in message
    assert all_free(core)
    assert outcome(play(core, scripts()["a"]), "a") == alone["a"]


def test_more_requests_than_memory_wait_and_all_are_answered(
    served_asr: Path, alone: dict[str, tuple[str, ...]]
) -> None:
    """32 blocks: never more than two requests at a time, whatever their number."""
    core = make_core(served_asr)
    pool = core._runner._pool  # type: ignore[attr-defined]
    assert pool.allocate(pool.num_free - 32) is not None
    events = play(core, *scripts().values(), *(turn(f"s{i}", i, 1.0, 1.0) for i in range(3)))
    assert not [e for e in events if isinstance(e, TurnFailed | FileFailed)]
    assert {name: outcome(events, name) for name in alone} == alone
    assert pool.available() == 32


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"language": "xx"}, "invalid_language"),
        ({"words": True}, "invalid_words"),
        ({"task": "translate"}, "invalid_task"),
        ({"task": "sing"}, "invalid_task"),
    ],
)
def test_wrong_settings_fail_with_expected_and_got(
    served_asr: Path, changes: dict[str, object], code: str
) -> None:
    core = make_core(served_asr)
    for script in (turn("x", 1, 0.5, **changes), file("x", 1, 0.5, **changes)):  # type: ignore[arg-type]
        got, message = failure(play(core, script), "x")
        assert got == code and "expected" in message and "got" in message


def test_an_encoder_out_of_memory_fails_those_requests_only(
    served_asr: Path, monkeypatch: pytest.MonkeyPatch, alone: dict[str, tuple[str, ...]]
) -> None:
    core = make_core(served_asr)
    with monkeypatch.context() as patch:

        def full(*_: object) -> None:
            raise torch.OutOfMemoryError("no memory left")

        patch.setattr("lookhear.engine.models.qwen3_asr.Qwen3AsrModel.encode", full)
        assert "no memory left" in failure(play(core, scripts()["a"]), "a")[1]
    assert all_free(core)
    assert outcome(play(core, scripts()["f"]), "f") == alone["f"]


def test_a_file_and_a_turn_say_how_long_they_were(served_asr: Path) -> None:
    core = make_core(served_asr)
    events = play(core, scripts()["f"], scripts()["b"])
    durations = {e.duration for e in events if isinstance(e, TurnCompleted | FileTranscribed)}
    assert durations == {7.0, 2.2} and SAMPLE_RATE == 16_000


def test_no_closed_window_is_encoded_twice_however_many_speak(
    served_asr: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last tokens are read in every tick: the cache has room for a window of every turn."""

    def encoded(least: int) -> int:
        monkeypatch.setattr("lookhear.engine.families.qwen3_asr.ENCODER_CACHE_BYTES", least)
        core = make_core(served_asr, max_live_turns=6)
        play(core, *(turn(f"s{i}", i, 4.5) for i in range(6)))
        return core.stats()["media_tokens_encoded"]

    assert encoded(0) == encoded(2**30)
