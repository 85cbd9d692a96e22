"""A transcript in sentences and paragraphs, and what one speaker says between pauses. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from lookhear.engine.messages import FileTranscribed
from lookhear.gateway.deepgram.shapes import Json, whole, words

PAUSE = 1.5  # seconds behind a sentence that part paragraphs
LONG = 80  # words, behind which the next sentence begins another
ENDS, CLOSING = ".?!…。？！؟۔।", "\"'”’»)]"
NAMED = ("start", "end", "speaker")  # of a sentence, and of what is made of it
# Before a name, where a full stop ends nothing; nor does it behind an initial.
TITLES = frozenset("dr dra fr frau hr jr mme mr mrs ms nr prof sig sr sra st".split())


def utterances(result: FileTranscribed, split: float, channel: int) -> list[Json]:
    """What one speaker says between pauses of so many seconds; without words, the segments."""
    said = words(whole(result.words, result.text), 0.0)
    if not said:
        return [_utterance(told, told["confidence"], channel) for told in _segments(result)]
    groups = list(_parted(said, lambda last, word: word["start"] - last["end"] >= split))
    told = []
    for group, part in zip(groups, _joined(groups, result.text), strict=True):
        sure = sum(word["confidence"] for word in group) / len(group)
        told.append(_utterance(part, sure, channel) | {"words": group})
    return told


def _utterance(said: Json, sure: float, channel: int) -> Json:
    about = {"confidence": round(sure, 4), "channel": channel, "transcript": said["text"]}
    return {name: said[name] for name in NAMED if name in said} | about | {"words": []}


def paragraphs(result: FileTranscribed) -> Json:
    """Sentences of one speaker, until there is a pause or they are many."""
    said = words(whole(result.words, result.text), 0.0)
    sentences = _joined(list(_parted(said, lambda last, _: _ends(last))), result.text)
    told: list[list[Json]] = []
    for sentence in sentences or _segments(result):
        last = told[-1][-1] if told else None
        goes_on = (
            last is not None
            and last.get("speaker") == sentence.get("speaker")
            and sentence["start"] - last["end"] < PAUSE
            and _count(told[-1]) < LONG
        )
        if not goes_on:
            told.append([])
        told[-1].append(sentence)
    lines = "\n\n".join(_lines(told, result.text))
    return {"transcript": f"\n{lines}", "paragraphs": [_paragraph(part) for part in told]}


def _paragraph(sentences: Sequence[Json]) -> Json:
    first, last = sentences[0], sentences[-1]
    speaker = {} if "speaker" not in first else {"speaker": first["speaker"]}
    told = [{name: sentence[name] for name in ("text", "start", "end")} for sentence in sentences]
    count = {"num_words": _count(sentences), "start": first["start"], "end": last["end"]}
    return {"sentences": told, **speaker, **count}


def _lines(told: Sequence[Sequence[Json]], text: str) -> Iterator[str]:
    """Of each paragraph."""
    written, places = _placed([sentence["text"] for part in told for sentence in part], text)
    at = 0
    for part in told:
        first, at = at, at + len(part)
        line = written[places[first][0] : places[at - 1][1]]
        yield line if "speaker" not in part[0] else f"Speaker {part[0]['speaker']}: {line}"


def _count(sentences: Sequence[Json]) -> int:
    return sum(sentence["num_words"] for sentence in sentences)


def _parted(said: Sequence[Json], parts: Callable[[Json, Json], bool]) -> Iterator[list[Json]]:
    """said: words -> groups of them. parts: whether two that follow each other belong to two; those
    of two speakers do."""
    group: list[Json] = []
    for word in said:
        last = group[-1] if group else None
        if last is not None and (parts(last, word) or last.get("speaker") != word.get("speaker")):
            yield group
            group = []
        group.append(word)
    if group:
        yield group


def _joined(groups: Sequence[Sequence[Json]], text: str) -> list[Json]:
    """Each group as the text has it: not everywhere there are spaces between words."""
    said = [word["punctuated_word"] for group in groups for word in group]
    written, places = _placed(said, text)
    told, at = [], 0
    for group in groups:
        first, at = at, at + len(group)
        speaker = {} if "speaker" not in group[0] else {"speaker": group[0]["speaker"]}
        told.append(
            {
                "text": " ".join(written[places[first][0] : places[at - 1][1]].split()),
                "start": group[0]["start"],
                "end": group[-1]["end"],
                "num_words": len(group),
                **speaker,
            }
        )
    return told


def _placed(parts: Sequence[str], text: str) -> tuple[str, list[tuple[int, int]]]:
    """A text and where in it the parts are, one behind the other: in this one if it is made of
    them, else in one with a space between them."""
    places, end = list[tuple[int, int]](), -1
    for part in parts:
        begin = text.find(part, max(end, 0))
        if begin < 0 or (end >= 0 and text[end:begin].strip()):
            return _placed(parts, " ".join(parts))
        end = begin + len(part)
        places.append((begin, end))
    return text, places


def _segments(result: FileTranscribed) -> list[Json]:
    """Of a model that does not time words."""
    return [
        {
            "text": segment.text.strip(),
            "start": round(segment.start, 3),
            "end": round(segment.end, 3),
            "confidence": round(math.exp(min(segment.avg_logprob, 0.0)), 4),
            "num_words": len(segment.text.split()),
            **({} if segment.speaker is None else {"speaker": segment.speaker}),
        }
        for segment in result.segments
    ]


def _ends(word: Json) -> bool:
    """Whether a word is the last of a sentence."""
    bare = word["punctuated_word"].rstrip(CLOSING)
    if not bare.endswith(tuple(ENDS)):
        return False
    letters = bare.strip(ENDS + CLOSING)
    is_initial = len(letters) == 1 and letters.isupper()
    return not (bare[-1] == "." and (is_initial or letters.lower() in TITLES))
