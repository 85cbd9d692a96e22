"""One answer, from its request to its last word. Pure; satisfies `Owner`, and streams.

tokens -> text, whole characters -> thinking | answer
answer -> calls of tools -> `AnswerCall` | what is said, up to a stop text -> `AnswerText`
"""

from __future__ import annotations

import dataclasses

from lookhear.engine.chat.forms import blamed
from lookhear.engine.chat.prompt import ChatPrompt
from lookhear.engine.chat.scored_prompt import ScoredPrompt
from lookhear.engine.chat.stop_texts import StopTexts
from lookhear.engine.core.adapting import Adapter
from lookhear.engine.core.owner import Streamer
from lookhear.engine.core.request import Cost, Priority, Result, StopReason
from lookhear.engine.markup.calls import CallArguments, CallBegun, CallReader, Piece
from lookhear.engine.markup.thinking import COMMON, ThinkingSplitter, ThinkingTags
from lookhear.engine.messages import (
    AnswerCall,
    AnswerCompleted,
    AnswerFailed,
    AnswerStarted,
    AnswerText,
    AnswerUsage,
    ChosenToken,
    Event,
    StartAnswer,
    TokenLogprob,
)
from lookhear.engine.paged.blocks import whole_blocks
from lookhear.engine.paged.request import PagedRequest, PagedSequence
from lookhear.engine.sampling.grammar import JsonGrammar
from lookhear.engine.sampling.params import SamplingParams
from lookhear.engine.tokenizers.detokenizer import IncrementalDetokenizer
from lookhear.engine.tokenizers.qwen import QwenTokenizer


class ChatAnswer(Streamer):
    """key: its name in the core. prompt, sampling: what is asked, and how it is decoded. grammar:
    what it keeps to, thinking included. calls: finds those of tools, if it may have any.
    tags: around the thinking; None: there is none. adapter: see `PagedRequest`."""

    is_urgent = True

    def __init__(
        self,
        key: str,
        message: StartAnswer,
        prompt: ChatPrompt,
        sampling: SamplingParams,
        tokenizer: QwenTokenizer,
        grammar: JsonGrammar | None = None,
        calls: CallReader | None = None,
        tags: ThinkingTags | None = COMMON,
        adapter: Adapter | None = None,
    ) -> None:
        self._key = key
        self._message = message
        self.prompt = prompt
        self._sampling = sampling
        self._tokenizer = tokenizer
        self._grammar = grammar
        self._calls = calls
        self._adapter = adapter
        self._has_request = False
        self.is_done = False
        self._has_started = False
        self._num_told = 0  # tokens whose text has gone through the stages
        self._num_thought = 0
        self._detokenizer = IncrementalDetokenizer(lambda token: tokenizer.decode_bytes([token]))
        self._thinking = ThinkingSplitter(tags, is_open=prompt.is_thinking)
        self._stops = StopTexts(list(sampling.stop))
        self._pending: list[ChosenToken] = []  # wait for their text
        self._scored: ScoredPrompt | None = None
        if (most := message.settings.prompt_logprobs) is not None:
            self._scored = ScoredPrompt(prompt.tokens, most, tokenizer.spelling)
        self._usage = AnswerUsage()
        self._num_calls = 0

    def wants_request(self) -> bool:
        """Once, when all its media can be read."""
        return not (self._has_request or self.is_done or self.prompt.awaited)

    def cost(self) -> Cost:
        """Of the whole answer: its media, its prompt and all that it may say."""
        return Cost(
            encoder=self.prompt.num_encoded,
            tokens=whole_blocks(len(self.prompt.tokens) + self._sampling.max_tokens),
        )

    def make_request(self) -> PagedRequest:
        """The only one."""
        self._has_request = True
        return PagedRequest(
            key=self._key,
            priority=Priority.LIVE,
            tokens=tuple(self.prompt.tokens),
            media=tuple(self.prompt.media),
            max_new_tokens=self._sampling.max_tokens,
            sampling=self._sampling,
            loop_room=None,
            model_ends=False,
            grammar=self._grammar,
            is_to_end=self._message.settings.max_tokens != self._sampling.max_tokens,
            salt=self._message.settings.cache_salt.encode(),
            adapter=self._adapter,
            scored=self._message.settings.prompt_logprobs,
        )

    def follow(self, sequence: PagedSequence) -> list[Event]:
        """The text that has become certain; ends the request at a stop text."""
        answer = sequence.generated
        if self._scored is not None:
            self._scored.take(sequence.scores)
        if not answer.tokens and not answer.stop:
            return []  # the prompt is being read
        events: list[Event] = []
        if not self._has_started:
            events.append(self._start(sequence))
        while self._num_told < len(answer.tokens) and not self._stops.has_stopped:
            at = self._num_told
            self._num_told += 1
            top = answer.tops[at] if answer.tops else []
            self._tell(answer.tokens[at], answer.logprobs[at], top, events)
        if self._stops.has_stopped and not answer.stop:
            sequence.end()
        return events

    def _start(self, sequence: PagedSequence) -> Event:
        self._has_started = True
        prompt = self.prompt
        self._usage = AnswerUsage(
            prompt=len(prompt.tokens),
            cached=sequence.num_cached,
            image=prompt.placeholders["image"],
            video=prompt.placeholders["video"],
            audio=prompt.placeholders["audio"],
        )
        tokens = None if self._scored is None else self._scored.whole()
        return AnswerStarted(self._message.session, self._message.answer, self._usage, tokens)

    def _tell(
        self, token: int, logprob: float, top: list[tuple[int, float]], events: list[Event]
    ) -> None:
        text = self._detokenizer.push([token])
        thought, said = self._thinking.push(text)
        is_thought = bool(thought) or (self._thinking.is_thinking and not said)
        self._num_thought += is_thought
        if is_thought or (text and self._thinking.is_between):
            self._pending.clear()  # tags, and the line breaks around them, are in neither part
        elif self._sampling.logprobs is not None:
            self._pending.append(self._chosen(token, logprob, top))
        self._say(thought, said, events)

    def _say(self, thought: str, said: str, events: list[Event]) -> None:
        session, name = self._message.session, self._message.answer
        if thought:
            events.append(AnswerText(session, name, thought, is_reasoning=True))
        if self._calls is None:
            self._pass(said, events)
        else:
            was_calling = self._calls.is_calling
            self._hand_on(self._calls.push(said), events)
            if was_calling or self._calls.is_calling:  # log probabilities are of what is said
                self._pending.clear()

    def _pass(self, said: str, events: list[Event]) -> None:
        may_stop = self._num_told > self._sampling.min_tokens
        if text := self._stops.push(said, may_stop=may_stop):
            session, name = self._message.session, self._message.answer
            events.append(AnswerText(session, name, text, tokens=self._take_pending()))

    def _hand_on(self, pieces: list[Piece], events: list[Event]) -> None:
        """What was found in the text; up to a stop text, which calls cannot hold."""
        session, name = self._message.session, self._message.answer
        for piece in pieces:
            if self._stops.has_stopped:
                return
            match piece:
                case str():
                    self._pass(piece, events)
                case CallBegun(tool):
                    if rest := self._stops.flush():
                        events.append(AnswerText(session, name, rest, tokens=self._take_pending()))
                    self._num_calls += 1
                    events.append(AnswerCall(session, name, self._num_calls - 1, tool, ""))
                case CallArguments(text):
                    events.append(AnswerCall(session, name, self._num_calls - 1, None, text))

    def _take_pending(self) -> list[ChosenToken] | None:
        tokens, self._pending = self._pending, []
        return tokens if self._sampling.logprobs is not None else None

    def _chosen(self, token: int, logprob: float, top: list[tuple[int, float]]) -> ChosenToken:
        mine = self._spelled(token, logprob)
        return ChosenToken(
            mine.token, mine.logprob, mine.bytes, [self._spelled(t, p) for t, p in top]
        )

    def _spelled(self, token: int, logprob: float) -> TokenLogprob:
        """Special ones have a name, and no bytes in the text."""
        name = self._tokenizer.spelling(token).decode("utf-8", "replace")
        return TokenLogprob(name, logprob, list(self._tokenizer.token_bytes(token)))

    def absorb(self, result: Result) -> list[Event]:
        """What was held back, and the end."""
        self.is_done = True
        events: list[Event] = []
        session, name = self._message.session, self._message.answer
        if not self._stops.has_stopped:
            self._say(*self._thinking.push(self._detokenizer.flush()), events)
            self._say(*self._thinking.flush(), events)
            if self._calls is not None:
                self._hand_on(self._calls.flush(), events)
                if self._calls.is_forced or self._calls.is_calling:
                    self._pending.clear()
        if not self._stops.has_stopped and (rest := self._stops.flush()):
            events.append(AnswerText(session, name, rest, tokens=self._take_pending()))
        if self._pending:
            events.append(AnswerText(session, name, "", tokens=self._take_pending()))
        usage = dataclasses.replace(self._usage, output=self._num_told, reasoning=self._num_thought)
        reason = "tool_calls" if self._num_calls else "stop"
        if result.stop is StopReason.LENGTH:
            reason = "length"
        if self._stops.has_stopped:
            reason = "tool_calls" if self._num_calls else "stop"
        events.append(AnswerCompleted(session, name, reason, usage, self._stops.stopped_by))
        return events

    def settle(self) -> list[Event]:
        """Nothing: all it says comes of its request."""
        return []

    def fail(self, code: str, message: str) -> list[Event]:
        """The answer could not be written. Some forms turn out to be too much work on the way."""
        self.is_done = True
        told = blamed(self._message.settings, message)
        return [AnswerFailed(self._message.session, self._message.answer, code, told)]


class PromptReader:
    """Reads what a session's next question will begin with, while nobody waits. Never done: its
    key keeps the blocks for the session. Satisfies `Owner`."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._next: ChatPrompt | None = None
        self._adapter: Adapter | None = None

    is_done = False
    is_urgent = False

    def read(self, prompt: ChatPrompt, adapter: Adapter | None = None) -> None:
        """A newer beginning; what waits is replaced. adapter: of who will ask."""
        self._next, self._adapter = prompt, adapter

    def wants_request(self) -> bool:
        """Whether there is a beginning that was not read, and can be."""
        return self._next is not None and not self._next.awaited

    def cost(self) -> Cost:
        """Of the newest beginning."""
        assert self._next is not None
        return Cost(self._next.num_encoded, whole_blocks(len(self._next.tokens) + 1))

    def make_request(self) -> PagedRequest:
        """Reads the newest beginning. What changes the model is not held beyond that."""
        prompt, self._next = self._next, None
        adapter, self._adapter = self._adapter, None
        assert prompt is not None
        return PagedRequest(
            key=self._key,
            priority=Priority.BATCH,
            tokens=tuple(prompt.tokens),
            media=tuple(prompt.media),
            max_new_tokens=1,  # computed with the prompt's end, and of no use
            final_tokens=len(prompt.tokens),
            adapter=adapter,
        )

    def absorb(self, result: Result) -> list[Event]:
        """Nothing: nobody is told."""
        return []

    def settle(self) -> list[Event]:
        """Nothing: nobody is told."""
        return []

    def fail(self, code: str, message: str) -> list[Event]:
        """Nothing: the question itself will say what is wrong."""
        return []
