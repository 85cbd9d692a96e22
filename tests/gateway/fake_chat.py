"""The chat half of the fake engine: it answers with what it was shown and told, word by word.

A token is a word, so token counts are known too. A picture of w x h pixels costs a token per begun
32 x 32 of it. With `enable_thinking` in the template's variables it thinks first. If it has tools
it calls what is said behind "call ": "call f {} & g {}".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.messages import (
    SAMPLE_RATE,
    AnswerCall,
    AnswerCompleted,
    AnswerFailed,
    AnswerStarted,
    AnswerText,
    AnswerUsage,
    AudioPart,
    CancelAnswer,
    ChatMessage,
    ChosenToken,
    DropPicture,
    DropRecording,
    EmbeddingsPart,
    Event,
    HoldEmbeddings,
    HoldPicture,
    HoldRecording,
    ImagePart,
    ModelCard,
    PromptTokens,
    ReadAhead,
    StartAnswer,
    TextPart,
    TokenLogprob,
    VideoPart,
)

VISION = ModelCard(
    "fake/vision",
    "qwen3-vl",
    [],
    1_700_000_000,
    2_100_000,
    has_word_times=False,
    abilities=["chat", "image", "video"],
    context_tokens=4096,
)
OMNI = replace(VISION, id="fake/omni", abilities=["chat", "image", "video", "audio"])
THOUGHT = "let me look"
HEARD = 13  # tokens of a second of a recording
PATCH = 32  # pixels, both ways, that are one token

Pixels = NDArray[np.uint8]
Samples = NDArray[np.float32]
Held = HoldPicture | DropPicture | HoldRecording | DropRecording | HoldEmbeddings
ChatRequest = Held | ReadAhead | StartAnswer | CancelAnswer


def picture_tokens(pixels: Pixels) -> int:
    height, width = pixels.shape[:2]
    return int(-(-height // PATCH) * -(-width // PATCH))


def reply(
    messages: list[ChatMessage],
    held: dict[str, Pixels],
    recordings: dict[str, Samples],
    embeddings: dict[str, Samples],
) -> str:
    """What the fake answers: all media with their sizes, and the last text."""
    words: list[str] = []
    text = _spelt([token for message in messages for token in message.tokens]) or "nothing"
    for part in (part for message in messages for part in message.parts):
        match part:
            case TextPart():
                text = part.text
            case ImagePart():
                words.append(f"picture {size(held[part.picture])},")
            case VideoPart():
                words.append(f"video {len(part.pictures)} x {size(held[part.pictures[0]])},")
            case AudioPart():
                words.append(f"recording {len(recordings[part.recording]) / SAMPLE_RATE:.1f}s,")
            case EmbeddingsPart():
                words.append(f"embeddings {size(embeddings[part.embeddings])},")
    return " ".join([*words, "you said", text])


def size(pixels: Pixels | Samples) -> str:
    return f"{pixels.shape[1]}x{pixels.shape[0]}"


def words_of(text: str) -> list[str]:
    """Joined they are the text again."""
    first, *rest = text.split(" ")
    return [first, *(f" {word}" for word in rest)]


@dataclass
class FakeAnswer:
    start: StartAnswer
    usage: AnswerUsage
    steps: Iterator[Event]
    is_held: bool = False


@dataclass
class FakeChat:
    """emit: hands an event to its session. hold: answers stop after their first word until
    `release`."""

    emit: Callable[[str, Event], None]
    hold: bool = False
    pictures: dict[tuple[str, str], Pixels] = field(default_factory=dict)
    recordings: dict[tuple[str, str], Samples] = field(default_factory=dict)
    embeddings: dict[tuple[str, str], Samples] = field(default_factory=dict)
    answers: dict[tuple[str, str], FakeAnswer] = field(default_factory=dict)
    held: list[HoldPicture] = field(default_factory=list)
    started: list[StartAnswer] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    read_ahead: list[ReadAhead] = field(default_factory=list)
    _seen: set[tuple[str, str]] = field(default_factory=set)
    _failures: list[tuple[str, str, int | None, int | None]] = field(default_factory=list)

    # --- what tests do to it ---------------------------------------------------------------------

    def fail_next(
        self,
        code: str,
        message: str = "asked to fail",
        message_index: int | None = None,
        part_index: int | None = None,
    ) -> None:
        """The next answer fails after its first word; at once if a place is to blame."""
        self._failures.append((code, message, message_index, part_index))

    def release(self) -> None:
        """Go on with what was held; later answers are not held."""
        self.hold = False
        for key, answer in self.answers.items():
            if answer.is_held:
                answer.is_held = False
                self._soon(key)

    def be_well(self) -> None:
        self.release()
        self.held.clear()
        self.started.clear()
        self.cancelled.clear()
        self.read_ahead.clear()
        self._failures.clear()

    # --- what the engine does --------------------------------------------------------------------

    def receive(self, message: ChatRequest) -> None:
        match message:
            case HoldPicture(session, _, name, pixels):
                assert pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] == 3
                self.pictures[session, name] = pixels
                self.held.append(message)
            case DropPicture(session, _, name):
                del self.pictures[session, name]
                self._seen.discard((session, name))
            case HoldRecording(session, _, name, samples):
                assert samples.dtype == np.float32 and samples.ndim == 1
                self.recordings[session, name] = samples
            case DropRecording(session, _, name):
                del self.recordings[session, name]
            case HoldEmbeddings(session, _, name, rows):
                assert rows.dtype == np.float32 and rows.ndim == 2
                self.embeddings[session, name] = rows
            case ReadAhead():
                self.read_ahead.append(message)
            case StartAnswer(session, name):
                assert (session, name) not in self.answers
                self.started.append(message)
                self._start(message)
            case CancelAnswer(session, name):
                if self.answers.pop((session, name), None) is not None:
                    self.cancelled.append(name)

    def forget(self, session: str) -> None:
        self.pictures = {key: p for key, p in self.pictures.items() if key[0] != session}
        self.recordings = {key: r for key, r in self.recordings.items() if key[0] != session}
        self.embeddings = {key: e for key, e in self.embeddings.items() if key[0] != session}
        self._seen = {key for key in self._seen if key[0] != session}
        self.answers = {key: a for key, a in self.answers.items() if key[0] != session}

    def lose(self, models: set[str]) -> set[str]:
        """The engines of these models died. -> sessions that had an answer there."""
        lost = {key for key, a in self.answers.items() if a.start.settings.model in models}
        self.answers = {key: a for key, a in self.answers.items() if key not in lost}
        sessions = {session for session, _ in lost}
        self.pictures = {key: p for key, p in self.pictures.items() if key[0] not in sessions}
        self.recordings = {k: r for k, r in self.recordings.items() if k[0] not in sessions}
        self.embeddings = {k: e for k, e in self.embeddings.items() if k[0] not in sessions}
        return sessions

    def _start(self, start: StartAnswer) -> None:
        key = start.session, start.answer
        usage = self._read(start)
        if isinstance(usage, AnswerUsage):
            steps = self._speak(start, usage)
            self.answers[key] = FakeAnswer(start, usage, steps)
        else:
            self.answers[key] = FakeAnswer(start, AnswerUsage(), iter([usage]))
        self._soon(key)

    def _read(self, start: StartAnswer) -> AnswerUsage | AnswerFailed:
        """The prompt's usage, or why it cannot be read."""
        prompt = cached = image = video = audio = 0
        for m, message in enumerate(start.messages):
            prompt += len(message.tokens)
            for p, part in enumerate(message.parts):
                if isinstance(part, TextPart):
                    prompt += len(part.text.split())
                    continue
                if isinstance(part, AudioPart):
                    heard = len(self.recordings[start.session, part.recording])
                    audio += heard * HEARD // SAMPLE_RATE
                    prompt += heard * HEARD // SAMPLE_RATE
                    continue
                if isinstance(part, EmbeddingsPart):
                    prompt += len(self.embeddings[start.session, part.embeddings])
                    continue
                names = [part.picture] if isinstance(part, ImagePart) else part.pictures
                assert names
                for name in names:
                    key = start.session, name
                    if key not in self.pictures:
                        return self._failed(
                            start, "invalid_value", f"expected a held picture, got {name}", m, p
                        )
                    tokens = picture_tokens(self.pictures[key])
                    prompt += tokens
                    cached += tokens if key in self._seen else 0
                    image += tokens if isinstance(part, ImagePart) else 0
                    video += tokens if isinstance(part, VideoPart) else 0
                    self._seen.add(key)
                    if prompt > VISION.context_tokens:
                        return self._failed(
                            start,
                            "context_length_exceeded",
                            f"expected at most {VISION.context_tokens} tokens, got {prompt}",
                            m,
                            p,
                        )
        return AnswerUsage(prompt=prompt, cached=cached, image=image, video=video, audio=audio)

    def _speak(self, start: StartAnswer, usage: AnswerUsage) -> Iterator[Event]:
        failure = self._failures.pop(0) if self._failures else None
        if failure is not None and failure[2] is not None:
            yield self._failed(start, *failure)
            return
        settings = start.settings
        yield AnswerStarted(start.session, start.answer, usage, _prompt(start))
        session = start.session
        held = {name: p for (owner, name), p in self.pictures.items() if owner == session}
        thought = words_of(THOUGHT) if settings.template.get("enable_thinking") else []
        recordings = {name: r for (of, name), r in self.recordings.items() if of == session}
        given = {name: e for (of, name), e in self.embeddings.items() if of == session}
        text, calls = reply(start.messages, held, recordings, given), list[str]()
        if settings.tools:
            text, found, rest = text.partition("call ")
            calls = rest.split(" & ") if found else []
            text = text.removeprefix("you said ").strip() if found else text
        ends = [(text.find(stop), stop) for stop in settings.stop if stop in text]
        end, stop_text = min(ends, default=(len(text), None))
        spoken = words_of(text[:end]) if text else []
        count = 0
        for number, word in enumerate([*thought, *spoken]):
            if count == settings.max_tokens:
                break
            count += 1
            tokens = None if settings.logprobs is None else [chosen(word, settings.logprobs)]
            yield AnswerText(session, start.answer, word, number < len(thought), tokens)
            if failure is not None:
                yield self._failed(start, *failure)
                return
        for index, call in enumerate(calls):
            name, _, arguments = call.partition(" ")
            yield AnswerCall(session, start.answer, index, name, "")
            for piece in (arguments[:3], arguments[3:]):
                yield AnswerCall(session, start.answer, index, None, piece)
        whole = "tool_calls" if calls else "stop"
        yield AnswerCompleted(
            start.session,
            start.answer,
            whole if count == len(thought) + len(spoken) else "length",
            AnswerUsage(
                usage.prompt,
                usage.cached,
                usage.image,
                usage.video,
                count,
                min(count, len(thought)),
                usage.audio,
            ),
            stop_text,
        )

    def _failed(
        self, start: StartAnswer, code: str, message: str, m: int | None, p: int | None
    ) -> AnswerFailed:
        return AnswerFailed(start.session, start.answer, code, message, m, p)

    def _soon(self, key: tuple[str, str]) -> None:
        asyncio.get_running_loop().call_soon(self._step, key)

    def _step(self, key: tuple[str, str]) -> None:
        answer = self.answers.get(key)
        if answer is None:
            return
        event = next(answer.steps)
        if isinstance(event, AnswerCompleted | AnswerFailed):
            del self.answers[key]
        elif isinstance(event, AnswerText | AnswerCall) and self.hold:
            answer.is_held = True
        else:
            self._soon(key)
        self.emit(key[0], event)


def _spelt(tokens: list[int]) -> str:
    return " ".join(f"<{token}>" for token in tokens)


def _prompt(start: StartAnswer) -> PromptTokens | None:
    """Words are its tokens."""
    most, [message] = start.settings.prompt_logprobs, start.messages[-1:]
    if most is None:
        return None
    texts = [part.text for part in message.parts if isinstance(part, TextPart)]
    words = words_of("".join(texts) or _spelt(message.tokens))
    told = [chosen(word, most).top for word in words[1:]]
    pieces = list(dict.fromkeys([*words, *(other.token for top in told for other in top)]))
    return PromptTokens(
        pieces=[piece.encode() for piece in pieces],
        tokens=[pieces.index(word) for word in words],
        logprobs=[0.0, *[-0.25] * len(told)],
        top=[[], *([pieces.index(other.token) for other in top] for top in told)],
        top_logprobs=[[], *([other.logprob for other in top] for top in told)],
    )


def chosen(word: str, alternatives: int) -> ChosenToken:
    top = [
        TokenLogprob(text, -0.25 - rank, list(text.encode()))
        for rank, text in enumerate([word, " or", " else"][:alternatives])
    ]
    return ChosenToken(word, -0.25, list(word.encode()), top)
