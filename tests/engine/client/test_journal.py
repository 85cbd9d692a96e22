"""What an engine's death leaves of a session: nothing is lost, repeated or contradicted."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.messages import SAMPLE_RATE
from tests.engine.client.replayed import Death, play, script
from tests.engine.speech.scripted import Speech


@st.composite
def sessions(draw: st.DrawFn) -> dict[str, Speech]:
    """One to four turns of up to 25 words, with short and long pauses."""
    turns: list[Speech] = []
    for number in range(draw(st.integers(1, 4))):
        at, times = draw(st.floats(0.1, 1.5)), []
        for _ in range(draw(st.integers(0, 25))):
            length = draw(st.floats(0.2, 0.6))
            times.append((at, at + length))
            at += length + draw(st.sampled_from([0.15, 0.2, 0.6, 0.9, 3.5]))
        words = [f" w{number}.{i}" for i in range(len(times))]
        turns.append(Speech(words, times, turns[-1] if turns else None))
    return {f"t{number}": speech for number, speech in enumerate(turns)}


@settings(max_examples=100, deadline=None)
@given(
    speeches=sessions(),
    chunk=st.sampled_from([0.1, 0.25, 1.0]),
    deaths=st.lists(
        st.builds(Death, st.integers(0, 200), st.integers(0, 4), st.integers(0, 30)), max_size=5
    ),
    language=st.sampled_from([None, "en"]),
)
def test_texts_and_times_are_those_of_a_session_that_nothing_befell(
    speeches: dict[str, Speech], chunk: float, deaths: list[Death], language: str | None
) -> None:
    messages = script(speeches, round(chunk * SAMPLE_RATE), language=language)
    whole, _, _ = play(speeches, messages)
    told, journal, held = play(speeches, messages, deaths)
    expected = {name: "".join(speech.words).lstrip() for name, speech in speeches.items()}
    assert whole.texts() == expected
    assert told.texts() == expected and list(told.texts()) == list(expected)
    assert told.words() == whole.words()
    assert not journal.is_busy and held.bytes == journal._bytes
    journal.close()
    assert held.bytes == 0 and held.forgotten_seconds == 0.0
