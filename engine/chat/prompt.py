"""From a conversation to the tokens and media of a request. Pure, apart from preparing them.

    messages --template--> pieces --tokenizer--> tokens, with a gap for each picture or recording
    room that is left --> recordings, then sizes of the pictures --> placeholders in the gaps

    image     <|vision_start|><|image_pad|>...<|vision_end|>
    video     <|vision_start|>{frames}<|vision_end|>        the frames alone where more will follow
    frames    <0.5 seconds><|vision_start|><|video_pad|>...<|vision_end|>    each
              or <|video_pad|>... alone, where positions tell the time
    audio     <|audio_start|><|audio_pad|>...<|audio_end|>
    embeddings of the client's own    where a text would be, with nothing around them

Source: the processors of Qwen3-VL and Qwen3-Omni in transformers 5.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.chat.embeddings import EmbeddingsStore
from lookhear.engine.chat.pictures import HeldPictures, PartError, PartMedia, Place
from lookhear.engine.chat.recordings import AUDIO_PAD, RecordingStore
from lookhear.engine.chat.runs import SLACK, encoded, is_long, runs_of
from lookhear.engine.chat.template import (
    KINDS,
    ChatTemplate,
    GivenTokens,
    Piece,
    TemplateText,
    UserEmbeddings,
    UserText,
)
from lookhear.engine.core.request import RequestError
from lookhear.engine.messages import (
    AudioPart,
    ChatMessage,
    DropPicture,
    DropRecording,
    EmbeddingsPart,
    HoldEmbeddings,
    HoldPicture,
    HoldRecording,
    Message,
    Part,
    TextPart,
    Tool,
    VideoPart,
)
from lookhear.engine.paged.request import Medium
from lookhear.engine.tokenizers.qwen import QwenTokenizer

VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
VIDEO_PAD = "<|video_pad|>"
PADS = {"image": "<|image_pad|>", "video": VIDEO_PAD, "audio": AUDIO_PAD}
# Stands where an answer's question will be, in a prompt that is read ahead.
_LATER = TextPart("\ue002")


@dataclass(frozen=True, slots=True)
class Gap:
    """Where a medium comes. place: of its part in the messages."""

    place: Place


@dataclass(slots=True)
class ChatPrompt:
    """tokens: all of them. media: (first placeholder's place in tokens, medium), in order.
    placeholders: how many are among them, by kind. is_thinking: the template has opened the model's
    thinking. awaited: digests of media whose embeddings are made elsewhere, and are not here.
    is_cut: it does not fit by far, and only so much of its text is there as says so."""

    tokens: list[int] = field(default_factory=list)
    media: list[tuple[int, Medium]] = field(default_factory=list)
    placeholders: Counter[str] = field(default_factory=Counter)
    is_thinking: bool = False
    awaited: set[bytes] = field(default_factory=set)
    is_cut: bool = False

    @property
    def size(self) -> str:
        """How many tokens, as far as they were counted."""
        return f"{len(self.tokens)}{' or more' if self.is_cut else ''}"

    def put(self, digest: bytes, rows: NDArray[np.float32]) -> None:
        """The embeddings of a medium, wherever it stands. rows: [num_tokens, several widths]."""
        self.awaited.discard(digest)
        for i, (start, medium) in enumerate(self.media):
            if medium.digest == digest and not medium.is_given:
                self.media[i] = start, medium._replace(features=rows, is_given=True)

    @property
    def num_encoded(self) -> int:
        """Placeholders of what has to be encoded, if nobody did it yet."""
        return sum(medium.num_tokens for _, medium in self.media if not medium.is_given)


class ChatPrompter:
    """pictures: of a model that sees, recordings: of one that hears, embeddings: of one that takes
    those of clients, else None. max_tokens: of a prompt with its answer."""

    def __init__(
        self,
        tokenizer: QwenTokenizer,
        template: ChatTemplate,
        pictures: HeldPictures | None,
        max_tokens: int,
        recordings: RecordingStore | None = None,
        embeddings: EmbeddingsStore | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.pictures = pictures
        self.recordings = recordings
        self.embeddings = embeddings
        self.max_tokens = max_tokens
        self._pads = dict(PADS)
        if pictures is not None:
            self._pads["image"] = pictures.pad
        if recordings is not None:
            self._pads["audio"] = recordings.pad
        self.template = template
        # Stands for what is no token. Nobody writes one of these, so no penalty is felt.
        special = tokenizer.added
        self._filler = special.get(self._pads["image"], min(special.values(), default=0))
        longest_first = sorted(tokenizer.added, key=len, reverse=True)
        self._specials = re.compile(f"({'|'.join(map(re.escape, longest_first)) or '(?!)'})")

    @property
    def stores(self) -> list[HeldPictures | RecordingStore | EmbeddingsStore]:
        """All that sessions may hold."""
        stores = (self.pictures, self.recordings, self.embeddings)
        return [store for store in stores if store is not None]

    def hold(self, message: Message) -> bool:
        """Hold or forget a medium, as far as there are such -> whether the message is about one."""
        match message:
            case HoldPicture(session, _, name, pixels):
                if self.pictures is not None:
                    self.pictures.hold(session, name, pixels)
            case HoldRecording(session, _, name, samples):
                if self.recordings is not None:
                    self.recordings.hold(session, name, samples)
            case HoldEmbeddings(session, _, name, rows):
                if self.embeddings is not None:
                    self.embeddings.hold(session, name, rows)
            case DropPicture(session, _, name):
                if self.pictures is not None:
                    self.pictures.forget(session, name)
            case DropRecording(session, _, name):
                if self.recordings is not None:
                    self.recordings.forget(session, name)
            case _:
                return False
        return True

    @property
    def takes_media(self) -> bool:
        """Whether there may be more than text, and what stands for one."""
        return self.pictures is not None or self.recordings is not None

    def refusal(self, part: Part, name: str) -> str | None:
        """Why the model of that name cannot take a part, whatever is in it."""
        if isinstance(part, TextPart):
            return None
        if isinstance(part, EmbeddingsPart):
            return None if self.embeddings else f"expected no embeddings, {name} takes none"
        sees, hears = self.pictures is not None, self.recordings is not None
        is_heard = isinstance(part, AudioPart)
        if hears if is_heard else sees:
            return None
        what, does = ("recordings", "hear") if is_heard else ("pictures", "see")
        only = f"no {what}" if self.takes_media else "text only"
        return f"expected {only}, {name} does not {does}"

    def prompt(
        self,
        session: str,
        messages: Sequence[ChatMessage],
        *,
        variables: Mapping[str, Any] | None = None,
        tools: Sequence[Tool] = (),
        reserved: int = 0,
        is_plain: bool = False,
        continues: bool = False,
    ) -> ChatPrompt:
        """Of a question that is to be answered. reserved: tokens to leave for the answer. tools:
        what the answer may call. is_plain, continues: see `AnswerSettings`.

        Raises `RequestError`; `PartError` where a part of a message is to blame.
        """
        if is_plain:
            pieces = self._plain(messages)
        else:
            pieces = self._pieces(messages, variables, tools, continues)
        if reserved >= self.max_tokens:
            size = self._fill(pieces, session, messages, 0).size
            raise RequestError(
                "context_length_exceeded",
                f"max_tokens: expected less than the {self.max_tokens} tokens of prompt and answer "
                f"together, got {reserved} beside a prompt of {size}",
            )
        prompt = self._fill(pieces, session, messages, reserved)
        frame = "".join(p.text for p in pieces[-1:] if isinstance(p, TemplateText))
        prompt.is_thinking = not is_plain and frame.rstrip().endswith(self.template.thinking.open)
        if not prompt.tokens:
            expected = "messages: expected some that this model's chat template makes a prompt of"
            raise RequestError("invalid_value", f"{expected}, it makes nothing of these")
        if len(prompt.tokens) + max(1, reserved) > self.max_tokens:
            raise RequestError(
                "context_length_exceeded",
                f"messages: expected at most {self.max_tokens} tokens of prompt and answer, "
                f"got {prompt.size} + {max(1, reserved)}",
            )
        return prompt

    def unanswered(
        self,
        session: str,
        messages: Sequence[ChatMessage],
        frame: Sequence[Piece] | None = None,
    ) -> ChatPrompt:
        """Of what is only read. frame: its pieces, where they are not those of the template.
        Raises as `prompt`."""
        pieces = self._pieces(messages, None, ()) if frame is None else frame
        prompt = self._fill(pieces, session, messages, 0)
        if len(prompt.tokens) > self.max_tokens:
            expected = f"expected at most {self.max_tokens} tokens, got {prompt.size}"
            raise RequestError("context_length_exceeded", expected)
        return prompt

    def beginning(
        self, session: str, messages: Sequence[ChatMessage], tools: Sequence[Tool] = ()
    ) -> ChatPrompt:
        """What all prompts begin with whose last message only grows beyond these. Raises as
        `prompt`."""
        last = messages[-1]
        longer = [*messages[:-1], replace(last, parts=[*last.parts, _LATER])]
        pieces = self._pieces(longer, None, tools)
        # It may stand within a piece: of outputs of tools that are told in plain text, or as JSON.
        texts = [(i, p.text) for i, p in enumerate(pieces) if isinstance(p, UserText)]
        marks = [i for i, text in texts if _LATER.text in text]
        mark = max(marks, default=0)  # some templates leave messages out
        return self._fill(pieces[:mark], session, messages, 0)

    def _pieces(
        self,
        messages: Sequence[ChatMessage],
        variables: Mapping[str, Any] | None,
        tools: Sequence[Tool],
        continues: bool = False,
    ) -> list[Piece]:
        render = self.template.begun if continues else self.template.render
        return render(messages, lists=self.takes_media, variables=variables, tools=tools)

    def _plain(self, messages: Sequence[ChatMessage]) -> list[Piece]:
        """Of who writes all of the prompt, and may want any token but those of media."""
        if given := [token for message in messages for token in message.tokens]:
            return [GivenTokens(tuple(given))]
        parts = [part for message in messages for part in message.parts]
        text = "".join(part.text for part in parts if isinstance(part, TextPart))
        pads, cut = set(self._pads.values()), self._specials.split(text)
        return [
            TemplateText(text) if i % 2 == 1 and text not in pads else UserText(text)
            for i, text in enumerate(cut)
        ]

    def _fill(
        self,
        pieces: Sequence[Piece],
        session: str,
        messages: Sequence[ChatMessage],
        reserved: int,
    ) -> ChatPrompt:
        parts = [
            ((i, k), part)
            for i, message in enumerate(messages)
            for k, part in enumerate(message.parts)
            if not isinstance(part, TextPart)
        ]
        for _, part in parts:
            assert self.refusal(part, "the model") is None, part
        streams = {
            pad: iter([place for place, part in parts if KINDS.get(type(part)) == kind])
            for kind, pad in self._pads.items()
        }
        given = [(place, part) for place, part in parts if isinstance(part, EmbeddingsPart)]
        tokens, num_text = list[list[int] | Gap](), 0
        may_stop = is_long(pieces, self.max_tokens)
        for run in self._tokens(pieces, streams, dict(parts)):
            tokens.append(run)
            num_text += len(run) if isinstance(run, list) else 0
            if may_stop and num_text > self.max_tokens + SLACK:
                text = [run for run in tokens if isinstance(run, list)]
                return ChatPrompt(list(chain.from_iterable(text)), is_cut=True)
        left = [place for stream in streams.values() for place in stream]
        filled = [piece.place for piece in tokens if isinstance(piece, Gap)]
        left += [place for place, _ in given if place not in filled]
        if left:  # of a tool, if there is one: what is someone else's may stand in its place then
            of_tools = (place for place, _ in parts if messages[place[0]].role == "tool")
            place = next(of_tools, left[0])
            where = f"messages of the {messages[place[0]].role}"
            why = f"the model's chat template has no place for media in {where}"
            raise PartError("invalid_value", f"expected text, {why}", place)
        room = self.max_tokens - max(1, reserved) - num_text
        if parts and room < 1:  # no part is to blame
            raise RequestError(
                "context_length_exceeded",
                f"messages: expected at most {self.max_tokens} tokens of prompt and answer, got "
                f"{num_text} of text + {max(1, reserved)} for the answer, and media",
            )
        found: dict[Place, PartMedia] = {}
        if self.embeddings is not None:
            found = self.embeddings.media_of(session, given, room)
            room -= sum(media.num_tokens for media in found.values())
        if self.recordings is not None:
            heard = [(place, part) for place, part in parts if isinstance(part, AudioPart)]
            sounds = self.recordings.media_of(session, heard, room)
            room -= sum(media.num_tokens for media in sounds.values())
            found |= sounds
        if self.pictures is not None:
            seen = [(place, part) for place, part in parts if place not in found]
            found |= self.pictures.media_of(session, seen, room, self.tokenizer)
        return self._joined(tokens, found)

    def _tokens(
        self,
        pieces: Sequence[Piece],
        pads: Mapping[str, Iterator[Place]],
        parts: Mapping[Place, object],
    ) -> Iterator[list[int] | Gap]:
        """Runs of tokens, and gaps. Text between special tokens is encoded as one piece, as it was
        learnt. A video whose end is not known stands without what surrounds a whole one."""
        runs = runs_of(pieces, self._specials)
        spellings = [run.text if isinstance(run, TemplateText) else "" for run in runs]
        given = {
            part.embeddings: at for at, part in parts.items() if isinstance(part, EmbeddingsPart)
        }
        i = 0
        while i < len(runs):
            if isinstance(run := runs[i], UserEmbeddings):
                yield Gap(given[run.name])
            elif isinstance(run, GivenTokens):
                yield list(run.ids)
            elif not spellings[i]:
                yield encoded(self.tokenizer.encode, run.text, self.max_tokens)
            elif spellings[i : i + 3] == [VISION_START, VIDEO_PAD, VISION_END] and (
                place := next(pads.get(VIDEO_PAD, iter(())), None)
            ):
                around = [] if self._goes_on(parts[place]) else [VISION_START, VISION_END]
                yield [self.tokenizer.token(spelling) for spelling in around[:1]]
                yield Gap(place)
                yield [self.tokenizer.token(spelling) for spelling in around[1:]]
                i += 2
            elif place := next(pads.get(spellings[i], iter(())), None):
                yield Gap(place)
            else:
                yield [self.tokenizer.token(spellings[i])]
            i += 1

    def _goes_on(self, part: object) -> bool:
        """Whether it is a video to whose end more may be added: of frames on their own."""
        told = self.pictures is not None and self.pictures.rate is not None
        return isinstance(part, VideoPart) and part.live and not told

    def _joined(
        self, tokens: Sequence[list[int] | Gap], found: Mapping[Place, PartMedia]
    ) -> ChatPrompt:
        prompt, tokenizer = ChatPrompt(), self.tokenizer
        for piece in tokens:
            if isinstance(piece, list):
                prompt.tokens += piece
                continue
            what = found[piece.place]
            named = self._pads.get(what.kind)
            pad = self._filler if named is None else tokenizer.token(named)
            for label, medium in what.media:
                prompt.tokens += label
                if what.is_framed:
                    prompt.tokens.append(tokenizer.token(VISION_START))
                prompt.placeholders[what.kind] += medium.num_tokens
                prompt.media.append((len(prompt.tokens), medium))
                prompt.tokens += [pad] * medium.num_tokens
                if what.is_framed:
                    prompt.tokens.append(tokenizer.token(VISION_END))
            prompt.tokens += what.tail
        return prompt
