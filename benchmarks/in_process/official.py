"""Qwen3-ASR's published streaming recipe on our runner, for comparison.

Every 2 s of audio, all the audio so far is read anew, and the answer is forced to begin with the
text so far less its last 5 tokens; the first 2 chunks have no such prefix. The rollback grows while
the prefix ends in half a character. At most 32 new tokens a chunk. Nothing is kept between chunks:
no encoder output, no keys and values. Source: `streaming_transcribe` of QwenLM/Qwen3-ASR (qwen_asr/
inference/qwen3_asr.py) and its streaming example; its clean-up of texts that repeat something more
than twenty times is left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.in_process.direct import Direct
from benchmarks.in_process.sessions import PIECE, Minutes, Samples, Speech
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.qwen3_asr.prompt import ASR_TEXT, parse_transcript
from lookhear.engine.tokenizers.qwen import QwenTokenizer

CHUNK = 2 * SAMPLE_RATE
FREE_CHUNKS = 2  # without a forced prefix
ROLLBACK = 5
NEW_TOKENS = 32
SHORTEST = SAMPLE_RATE // 2  # what the published feature extractor pads shorter clips to


def rolled_back(tokens: Sequence[int], decode: Callable[[Sequence[int]], str]) -> str:
    """The text of the tokens less the last ones, and less what would leave half a character."""
    for end in range(len(tokens) - ROLLBACK, 0, -1):
        prefix = decode(tokens[:end])
        if "\ufffd" not in prefix:
            return prefix
    return ""


def encode_answer(tokenizer: QwenTokenizer, raw: str) -> list[int]:
    """Ids of an answer with its header; <asr_text> is the one token that may be spelt out."""
    parts = [tokenizer.encode(part) for part in raw.split(ASR_TEXT)]
    between = tokenizer.token(ASR_TEXT)
    return [
        *parts[0],
        *itertools.chain.from_iterable((between, *part) for part in parts[1:]),
    ]


class Stream:
    """The recipe itself. audio: all so far. raw: the answer so far, header included."""

    def __init__(self, direct: Direct) -> None:
        self._direct = direct
        self.audio: Samples = np.zeros(0, np.float32)
        self.raw = ""
        self.num_chunks = self.num_passes = 0

    def hear(self, chunk: Samples) -> None:
        """The next two seconds, or what is left at the end."""
        tokenizer = self._direct.tokenizer
        self.audio = np.concatenate([self.audio, chunk])
        prefix = ""
        if self.num_chunks >= FREE_CHUNKS:
            prefix = rolled_back(encode_answer(tokenizer, self.raw), tokenizer.decode)
        missing = max(0, SHORTEST - len(self.audio))
        request = self._direct.request(
            f"chunk {self.num_chunks}",
            np.concatenate([self.audio, np.zeros(missing, np.float32)]),
            prefix=encode_answer(tokenizer, prefix),
            salt=np.random.bytes(16),  # nothing read before can be found
            max_new_tokens=NEW_TOKENS,
            guard_loops=False,
        )
        (result,) = self._direct.run([request])
        self.raw = prefix + tokenizer.decode(result.tokens)
        self.num_chunks += 1
        self.num_passes += result.num_passes

    @property
    def text(self) -> str:
        """What was heard so far."""
        answer = parse_transcript(self.raw, final=True)
        return "" if answer is None else answer.text


@dataclass(slots=True)
class Restart:
    """When a stream is given up for a fresh one; all in samples. Within what a checkpoint was
    trained for, the recipe has to be helped like this.

    longest: audio of a stream at most. earliest: a pause ends a stream that has this much. pause:
    silence that counts as one.
    """

    longest: int = 24 * SAMPLE_RATE
    earliest: int = 12 * SAMPLE_RATE
    pause: int = SAMPLE_RATE * 7 // 10


@dataclass(slots=True)
class OfficialListener:
    """The recipe listening to a speech. Like `Listener`, except that it never stops asking."""

    direct: Direct
    speech: Speech
    restart: Restart | None = None
    minutes: Minutes = field(default_factory=Minutes)
    ticks: list[float] = field(default_factory=list)
    position: int = 0
    num_passes: int = 0
    _texts: list[str] = field(default_factory=list)
    _stream: Stream | None = None
    _buffer: list[Samples] = field(default_factory=list)

    def hear(self, num_pieces: int) -> None:
        """Hears the speech up to so many pieces."""
        while self.position < min(num_pieces, self.speech.num_pieces):
            samples, voiced = self.speech.piece(self.position)
            self.position += 1
            self._buffer.append(samples)
            if len(self._buffer) * PIECE >= CHUNK:
                self._ask()
            if self._is_over(self.position * PIECE - voiced):
                self._close()

    def finish(self) -> None:
        """No more audio comes."""
        self._close()

    @property
    def text(self) -> str:
        """Of all its streams, one after another."""
        return " ".join(text for text in self._texts if text)

    def _ask(self) -> None:
        seconds = (self.position - 1) * PIECE / SAMPLE_RATE
        chunk = np.concatenate(self._buffer)
        self._buffer.clear()
        with self.minutes.at(seconds).running():
            self._stream = self._stream or Stream(self.direct)
            before = self._stream.num_passes
            self._stream.hear(chunk)
        self.num_passes += self._stream.num_passes - before
        self.ticks.append(seconds)

    def _is_over(self, silence: int) -> bool:
        if self.restart is None or self._stream is None:
            return False
        length = len(self._stream.audio) + len(self._buffer) * PIECE
        at_pause = length >= self.restart.earliest and silence >= self.restart.pause
        return at_pause or length + PIECE > self.restart.longest

    def _close(self) -> None:
        if self._buffer:
            self._ask()
        if self._stream is not None:
            self._texts.append(self._stream.text.strip())
        self._stream = None
