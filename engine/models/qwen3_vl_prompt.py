"""What Qwen3-VL is asked: a conversation with pictures in it. Pure functions.

    <|im_start|>system\\n{text}<|im_end|>\\n                     if there is such a message
    <|im_start|>user\\n{text and pictures in any order}<|im_end|>\\n
    <|im_start|>assistant\\n{answer}<|im_end|>\\n                and so on, then
    <|im_start|>assistant\\n

    image     <|vision_start|><|image_pad|>...<|vision_end|>
    video     <|vision_start|>{frames}<|vision_end|>
    frames    <0.5 seconds><|vision_start|><|video_pad|>...<|vision_end|>    each

Source: the chat template of Qwen3-VL-Instruct and its processor in transformers 5. The processor of
transformers 4.57, and vLLM, leave out what surrounds all frames of a video; so does a live video
here, whose end is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.paged_request import Medium
from engine.qwen_tokenizer import QwenTokenizer

VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
IMAGE_PAD, VIDEO_PAD = "<|image_pad|>", "<|video_pad|>"
ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Image:
    medium: Medium


@dataclass(frozen=True, slots=True)
class Video:
    """slices: (seconds, medium) of each pair of frames. live: of a video that goes on."""

    slices: tuple[tuple[float, Medium], ...]
    live: bool = False


Part = str | Image | Video


@dataclass(frozen=True, slots=True)
class Message:
    """role: one of ROLES. parts: text is taken as it is; it cannot hold special tokens."""

    role: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Prompt:
    """tokens: all of them. media: (first placeholder's place in tokens, medium), in order."""

    tokens: list[int]
    media: list[tuple[int, Medium]]


def build_prompt(
    tokenizer: QwenTokenizer,
    messages: Sequence[Message],
    *,
    ask: bool = True,
    prefix: Sequence[int] = (),
) -> Prompt:
    """The prompt of a conversation. ask: for an answer; without it, what is there is a beginning
    that later prompts share. prefix: tokens of the answer that are settled already."""
    writer = _Writer(tokenizer)
    for message in messages:
        assert message.role in ROLES, message.role
        writer.special("<|im_start|>")
        writer.text(f"{message.role}\n")
        for part in message.parts:
            _write(writer, part)
        writer.special("<|im_end|>")
        writer.text("\n")
    if ask:
        writer.special("<|im_start|>")
        writer.text("assistant\n")
    writer.flush()
    return Prompt([*writer.tokens, *prefix], writer.media)


def _write(writer: _Writer, part: Part) -> None:
    match part:
        case str():
            writer.text(part)
        case Image(medium):
            writer.picture(IMAGE_PAD, medium)
        case Video(slices, live):
            if not live:
                writer.special(VISION_START)
            for seconds, medium in slices:
                writer.text(f"<{seconds:.1f} seconds>")
                writer.picture(VIDEO_PAD, medium)
            if not live:
                writer.special(VISION_END)


class _Writer:
    """Tokens so far. Text between special tokens is encoded as one piece, as it was learnt."""

    def __init__(self, tokenizer: QwenTokenizer) -> None:
        self._tokenizer = tokenizer
        self._pending = ""
        self.tokens: list[int] = []
        self.media: list[tuple[int, Medium]] = []

    def text(self, text: str) -> None:
        self._pending += text

    def special(self, spelling: str) -> None:
        self.flush()
        self.tokens.append(self._tokenizer.token(spelling))

    def picture(self, pad: str, medium: Medium) -> None:
        self.special(VISION_START)
        self.media.append((len(self.tokens), medium))
        self.tokens += [self._tokenizer.token(pad)] * medium.num_tokens
        self.special(VISION_END)

    def flush(self) -> None:
        self.tokens += self._tokenizer.encode(self._pending)
        self._pending = ""
