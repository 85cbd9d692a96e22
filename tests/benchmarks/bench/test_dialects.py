from __future__ import annotations

from lookhear.bench.dialects import unsigned
from lookhear.bench.measures import metrics
from lookhear.bench.measures.trace import RATE, SpokenWord, Trace
from lookhear.bench.measures.utterances import latencies

KIND = "conversation.item.input_audio_transcription."


def told(*deltas: tuple[float, str]) -> Trace:
    """A turn that ends at three seconds."""
    text = "".join(delta for _, delta in deltas)
    events = [(when, {"type": KIND + "delta", "item_id": "i", "delta": d}) for when, d in deltas]
    events += [
        (3.0, {"type": "input_audio_buffer.committed", "item_id": "i"}),
        (3.0, {"type": KIND + "completed", "item_id": "i", "transcript": text}),
    ]
    return Trace("t", [(3.0, 3 * RATE)], events, close_code=1000)


def test_a_word_does_not_wait_for_the_sign_behind_it() -> None:
    words = (SpokenWord("All", 0.1, 0.5), SpokenWord("well", 0.6, 1.0))
    late, soon = told((1.0, "All"), (2.0, " well"), (3.0, ".")), told((1.0, "All"), (2.0, " well."))
    assert latencies(late, words).commit_lag != latencies(soon, words).commit_lag
    late, soon = unsigned(late), unsigned(soon)
    assert latencies(late, words).commit_lag == latencies(soon, words).commit_lag
    for trace in (late, soon):
        assert metrics.invariant_violations(trace) == []
        assert metrics.hypothesis(trace) == "All well"
