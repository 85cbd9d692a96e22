"""Chat: questions about text, pictures and recordings, and answers that stream.

A session holds pictures and recordings by names of its own; an *answer* is one request for one
reply. What is held is sent once, however many questions are about it, and stays until it is dropped
or the session closes.

Order, gateway to engine: `HoldPicture`*, `HoldRecording`* and `HoldEmbeddings`* before the first
`StartAnswer` or `ReadAhead` that names them. Engine to gateway: `AnswerStarted`, `AnswerText`*,
`AnswerCompleted`; or `AnswerFailed` at any point, as the last one. After `CancelAnswer` nothing
more. Joined `AnswerText.text` is the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.messages.speech import TokenLogprob


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text as it was written: it cannot hold a model's special tokens."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """picture: name of a held one. detail: "low", "high" or "auto", as in the OpenAI API."""

    picture: str
    detail: str = "auto"


@dataclass(frozen=True, slots=True)
class VideoPart:
    """pictures: names of its frames, of one size, in order. seconds: when each was taken.

    live: more frames will follow, so each is seen for itself; else neighbours are seen in pairs and
    all share the pixels that a video may have.
    """

    pictures: list[str]
    seconds: list[float]
    live: bool = False


@dataclass(frozen=True, slots=True)
class AudioPart:
    """recording: name of a held one, for a model that hears."""

    recording: str


@dataclass(frozen=True, slots=True)
class EmbeddingsPart:
    """embeddings: name of held ones, which stand where a text would."""

    embeddings: str


Part = TextPart | ImagePart | VideoPart | AudioPart | EmbeddingsPart


@dataclass(frozen=True, slots=True)
class Tool:
    """What a model may call. parameters: JSON Schema of its arguments, an object, as JSON text.
    is_strict: better no answer than arguments that do not keep to it."""

    name: str
    description: str
    parameters: str
    is_strict: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model has written. arguments: a JSON object, as JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """role: "system", "user", "assistant" or "tool". Media only from users. calls: of an
    assistant, behind its text. call: the id of the one whose output a tool's message is. thinking:
    in front of an assistant's text; most templates keep that of the newest answers alone. tokens:
    ids of all of a prompt that `is_plain`, instead of parts."""

    role: str
    parts: list[Part]
    calls: list[ToolCall] = field(default_factory=list)
    call: str | None = None
    thinking: str = ""
    tokens: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AnswerSettings:
    """How an answer is decoded. None: as the checkpoint says, or else what changes nothing.

    max_tokens: of the answer at most; None: as many as fit. seed: drawn by the gateway if the
    client named none. stop: texts that end the answer and are not part of it. logit_bias: by token
    id in digits. logprobs: alternatives wanted per token; None: no log probabilities at all.
    template: variables of the chat template, such as enable_thinking. schema: JSON Schema, as JSON
    text, that the answer keeps to; its thinking is free. cache_salt: prompts with another one share
    no prefix with this one's. pattern: a regular expression that it keeps to instead of a schema;
    choices: texts of which it is one. tools: what may be called. must_call: the answer is calls and
    nothing else. may_call: names of the only ones that may be, empty: all. parallel_calls: there
    may be several calls in an answer. may_shrink: if fewer tokens than max_tokens fit, so many will
    do, where they are enough for an answer without a max_tokens. is_plain: the text of the messages
    is the prompt, special tokens in it are such, and all that is written is the answer. continues:
    the last message is one of the assistant, and the answer is what comes behind its text.
    prompt_logprobs: alternatives wanted per token of the prompt, whose log probabilities are told
    with its start; None: nothing of the kind. Then all of the prompt is read, whatever is cached.
    """

    model: str
    max_tokens: int | None = None
    min_tokens: int = 0
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: dict[str, float] = field(default_factory=dict)
    seed: int = 0
    stop: list[str] = field(default_factory=list)
    stop_tokens: list[int] = field(default_factory=list)
    ignore_end: bool = False
    logprobs: int | None = None
    template: dict[str, Any] = field(default_factory=dict)
    schema: str | None = None
    cache_salt: str = ""
    pattern: str | None = None
    choices: list[str] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)
    must_call: bool = False
    may_call: list[str] = field(default_factory=list)
    parallel_calls: bool = True
    may_shrink: bool = False
    is_plain: bool = False
    continues: bool = False
    prompt_logprobs: int | None = None


# --- gateway -> engine ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HoldPicture:
    """pixels: [height, width, 3] uint8, RGB. A name that is held already is replaced."""

    session: str
    model: str
    picture: str
    pixels: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class DropPicture:
    """The picture is not needed any more."""

    session: str
    model: str
    picture: str


@dataclass(frozen=True, slots=True)
class HoldRecording:
    """samples: [n], mono at 16 kHz. A name that is held already is replaced."""

    session: str
    model: str
    recording: str
    samples: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class DropRecording:
    """The recording is not needed any more."""

    session: str
    model: str
    recording: str


@dataclass(frozen=True, slots=True)
class HoldEmbeddings:
    """rows: [tokens, width of the decoder], finite: what it reads instead of embeddings of tokens.
    A name that is held already is replaced. They go with the session."""

    session: str
    model: str
    embeddings: str
    rows: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class ReadAhead:
    """The beginning that the session's next question will have: read while nobody waits, so that
    the answer comes sooner. A newer one replaces it. Never answered, not even by an error. tools:
    those that the question will have."""

    session: str
    model: str
    messages: list[ChatMessage]
    tools: list[Tool] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StartAnswer:
    """answer: its name, unique in the session. messages: the whole conversation, oldest first.
    is_eager: it may turn out that nobody asks this, so it leaves half of the places to others."""

    session: str
    answer: str
    settings: AnswerSettings
    messages: list[ChatMessage]
    is_eager: bool = False


@dataclass(frozen=True, slots=True)
class CancelAnswer:
    """Nobody wants the answer any more. The engine sends nothing more about it."""

    session: str
    answer: str


# --- engine -> gateway ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AnswerUsage:
    """Tokens. cached: of the prompt's, found instead of read. image, video, audio: of the prompt's,
    placeholders of media. reasoning: of the output's, spent on thinking."""

    prompt: int = 0
    cached: int = 0
    image: int = 0
    video: int = 0
    output: int = 0
    reasoning: int = 0
    audio: int = 0


@dataclass(frozen=True, slots=True)
class ChosenToken:
    """A token of an answer. top: the likeliest ones in its place, best first, as many as asked."""

    token: str
    logprob: float
    bytes: list[int]
    top: list[TokenLogprob]


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """How probable each token of a prompt is; the first, behind nothing, is as good as certain. All
    is numbers, with no object for each: of a long prompt they are hundreds of thousands.

    pieces: the bytes of all tokens that follow, which are their places in it. tokens: the prompt's.
    logprobs: of each. top, top_logprobs: the likeliest ones in its place, best first, as many as
    asked."""

    pieces: list[bytes]
    tokens: list[int]
    logprobs: list[float]
    top: list[list[int]]
    top_logprobs: list[list[float]]


@dataclass(frozen=True, slots=True)
class AnswerStarted:
    """The prompt is read and the first token chosen. usage: of the prompt. tokens: of the prompt,
    if their log probabilities are wanted."""

    session: str
    answer: str
    usage: AnswerUsage
    tokens: PromptTokens | None = None


@dataclass(frozen=True, slots=True)
class AnswerText:
    """What follows the text so far; never taken back. is_reasoning: it is the model's thinking,
    which is not part of the answer. tokens: those behind this text, if log probabilities are
    wanted; they may come a little before their text."""

    session: str
    answer: str
    text: str
    is_reasoning: bool = False
    tokens: list[ChosenToken] | None = None


@dataclass(frozen=True, slots=True)
class AnswerCall:
    """More of a call of a tool. index: which of the answer's, from 0. name: of the tool, with the
    first piece of a call. arguments: what follows the arguments so far, JSON text when joined."""

    session: str
    answer: str
    index: int
    name: str | None
    arguments: str


@dataclass(frozen=True, slots=True)
class AnswerCompleted:
    """reason: "stop" (the model's own end, or a stop text), "tool_calls" (the same, with calls), or
    "length". With a schema the text is complete, and keeps to it, if it is the model's own end; so
    are calls, whose last one may be cut off by the length. stop_text: that ended it, if one did."""

    session: str
    answer: str
    reason: str
    usage: AnswerUsage
    stop_text: str | None = None


@dataclass(frozen=True, slots=True)
class AnswerFailed:
    """code: machine word. message: begins with the setting that is to blame, if one is.
    message_index, part_index: the place in `StartAnswer.messages` that is to blame, if one is."""

    session: str
    answer: str
    code: str
    message: str
    message_index: int | None = None
    part_index: int | None = None
