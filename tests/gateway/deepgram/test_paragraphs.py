"""Sentences and paragraphs of a transcript."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.messages import FileTranscribed, Segment, Word
from lookhear.gateway.deepgram.paragraphs import LONG, PAUSE, paragraphs, utterances


def heard(*words: Word, segments: Sequence[Segment] = ()) -> FileTranscribed:
    text = "".join(word.word for word in words)
    return FileTranscribed("file", text, "en", 60.0, list(segments), list(words), 1, None)


def said(text: str, start: float = 0.0, speaker: int | None = None) -> list[Word]:
    """A word a second."""
    return [
        Word(f" {word}", start + i, start + i + 0.8, 0.9, speaker=speaker)
        for i, word in enumerate(text.split())
    ]


def sentences(result: FileTranscribed) -> list[list[str]]:
    told = paragraphs(result)["paragraphs"]
    return [[sentence["text"] for sentence in paragraph["sentences"]] for paragraph in told]


def test_sentences_end_with_their_signs() -> None:
    result = heard(*said('Mrs. Smith went. "Where to?" J. did not know'))
    assert sentences(result) == [["Mrs. Smith went.", '"Where to?"', "J. did not know"]]
    [paragraph] = paragraphs(result)["paragraphs"]
    assert (paragraph["start"], paragraph["end"], paragraph["num_words"]) == (0.0, 8.8, 9)


def test_a_pause_behind_a_sentence_begins_a_paragraph() -> None:
    one, late = said("One. Two"), said("goes on. Three.", 10.0)
    assert sentences(heard(*one, *late)) == [["One.", "Two goes on.", "Three."]]
    assert sentences(heard(*said("One."), *said("Two.", 0.9 + PAUSE))) == [["One."], ["Two."]]


def test_a_paragraph_does_not_grow_for_ever() -> None:
    told = paragraphs(heard(*said("Ten words are said again and again and again here. " * 30)))
    counts = [paragraph["num_words"] for paragraph in told["paragraphs"]]
    assert sum(counts) == 300 and max(counts) < LONG + 10


def test_speakers_have_paragraphs_of_their_own() -> None:
    result = heard(*said("Are you", 0.0, 0), *said("Yes.", 2.0, 1), *said("Good. Fine.", 3.0, 0))
    assert sentences(result) == [["Are you"], ["Yes."], ["Good.", "Fine."]]
    told = paragraphs(result)
    assert [paragraph["speaker"] for paragraph in told["paragraphs"]] == [0, 1, 0]
    lines = "\nSpeaker 0: Are you\n\nSpeaker 1: Yes.\n\nSpeaker 0: Good. Fine."
    assert told["transcript"] == lines


def test_languages_without_spaces_get_none() -> None:
    spelt = ["今", "日は", "、", "晴れ", "です。", " はい。", "明", "日", "も", "です。"]
    said = [Word(part, float(i), i + 0.8, 0.9) for i, part in enumerate(spelt)]
    result = heard(*said)
    assert sentences(result) == [["今日は、晴れです。", "はい。", "明日もです。"]]
    told = paragraphs(result)
    assert told["transcript"] == "\n今日は、晴れです。 はい。明日もです。"
    assert told["paragraphs"][0]["num_words"] == len(spelt)
    [part] = utterances(result, 0.8, 0)
    assert part["transcript"] == "今日は、晴れです。 はい。明日もです。"
    assert len(part["words"]) == len(spelt)


def test_where_words_are_not_those_of_the_text_they_are_joined_by_spaces() -> None:
    result = replace(heard(*said("One two. Three.")), text="1, 2. 3.")
    assert sentences(result) == [["One two.", "Three."]]
    assert paragraphs(result)["transcript"] == "\nOne two. Three."


def test_segments_stand_for_sentences_of_a_model_that_times_no_words() -> None:
    segments = tuple(
        Segment(f" Part {i}.", 3.0 * i, 3.0 * i + 2.9, [1], -0.1, 0.0) for i in range(2)
    )
    assert sentences(heard(segments=segments)) == [["Part 0.", "Part 1."]]


def test_of_silence_there_are_none() -> None:
    assert paragraphs(heard()) == {"transcript": "\n", "paragraphs": []}
    assert utterances(heard(), 0.8, 0) == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["one", "two.", "Three?", "Mr.", "vier!", "5"]),
            st.floats(0, 4),
            st.sampled_from([None, 0, 1]),
        ),
        max_size=40,
    )
)
def test_all_that_was_said_is_in_one_of_them(parts: list[tuple[str, float, int | None]]) -> None:
    words, clock = list[Word](), 0.0
    for text, pause, speaker in parts:
        clock += pause
        words.append(Word(f" {text}", clock, clock + 0.2, 0.5, speaker=speaker))
        clock += 0.2
    result = heard(*words)
    told = paragraphs(result)
    texts = [s["text"] for paragraph in told["paragraphs"] for s in paragraph["sentences"]]
    assert " ".join(texts) == result.text.strip()
    spoken = utterances(result, 0.8, 3)
    assert " ".join(part["transcript"] for part in spoken) == result.text.strip()
    assert all(part["channel"] == 3 for part in spoken)
    times = [(p["start"], p["end"]) for p in told["paragraphs"]]
    assert times == sorted(times)
