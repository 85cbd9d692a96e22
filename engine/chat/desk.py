"""Takes the messages of a model that chats: media, questions, what is to be read ahead. Pure."""

from __future__ import annotations

import logging

from lookhear.engine.adapters.adapters import Adapters
from lookhear.engine.chat.answer import ChatAnswer, PromptReader
from lookhear.engine.chat.forms import blamed, form_of
from lookhear.engine.chat.generation import GenerationDefaults
from lookhear.engine.chat.pictures import PartError
from lookhear.engine.chat.prompt import ChatPrompt, ChatPrompter
from lookhear.engine.chat.remote_tower import RemoteTower
from lookhear.engine.chat.tool_rules import call_rules
from lookhear.engine.core.core import EngineCore
from lookhear.engine.core.desks import refused
from lookhear.engine.core.request import Priority, RequestError
from lookhear.engine.core.runner import Failure
from lookhear.engine.markup.calls import CallReader
from lookhear.engine.messages import (
    AnswerFailed,
    AnswerSettings,
    CancelAnswer,
    ChatMessage,
    EmbeddingsPart,
    Event,
    Message,
    ReadAhead,
    StartAnswer,
    TextPart,
)
from lookhear.engine.sampling.grammar import GrammarCompiler, JsonGrammar, Thinking

log = logging.getLogger(__name__)

ROLES = ("system", "user", "assistant", "tool")


class ChatDesk:
    """name: the model's on the wire. end_tokens, vocab: of the checkpoint. max_answer: tokens of an
    answer whose client names no limit, at most. max_answers: at once, over all sessions. adapters:
    that an answer may ask for with the model's name. tower: of a model whose media are encoded
    elsewhere."""

    def __init__(
        self,
        name: str,
        prompter: ChatPrompter,
        defaults: GenerationDefaults,
        end_tokens: tuple[int, ...],
        vocab: int,
        *,
        max_answer: int,
        max_answers: int,
        adapters: Adapters | None = None,
        tower: RemoteTower | None = None,
    ) -> None:
        self._tower = tower
        self._adapters = adapters
        self._name = name
        self._prompter = prompter
        self._defaults = defaults
        self._end_tokens = end_tokens
        self._vocab = vocab
        self._max_answer = max_answer
        self._max_answers = max_answers
        self._grammars = GrammarCompiler(
            prompter.tokenizer, vocab, end_tokens, prompter.template.thinking
        )

    def take(self, message: Message, core: EngineCore) -> list[Event]:
        """See `Desk`."""
        if self._prompter.hold(message):
            return []
        match message:
            case StartAnswer():
                return self._start(message, core)
            case CancelAnswer(session, answer):
                core.drop(f"{session}/{answer}")
            case ReadAhead():
                return self._read_ahead(message, core)
            case _:
                return refused(message, f"{self._name} chats")
        return []

    def close(self, session: str) -> None:
        """What the session held is forgotten."""
        for held in self._prompter.stores:
            held.forget(session)

    def left(self, key: str, session: str, core: EngineCore) -> list[Event]:
        """Nothing waits for an answer."""
        return []

    def stats(self, core: EngineCore) -> dict[str, int]:
        """Answers under way, and what is held for them."""
        stats = {"answers": core.count(ChatAnswer)}
        for held in self._prompter.stores:
            stats |= held.stats()
        return stats

    def _start(self, message: StartAnswer, core: EngineCore) -> list[Event]:
        key = f"{message.session}/{message.answer}"
        try:
            if core.owner(key) is not None:
                raise RequestError(
                    "duplicate_answer", f"answer: expected a new name, got {message.answer!r}"
                )
            room = self._max_answers // 2 if message.is_eager else self._max_answers
            if core.count(ChatAnswer) >= room:
                raise RequestError(
                    "too_many_answers",
                    f"this engine writes {self._max_answers} answers at once; all are taken",
                )
            owner = self._answer(key, message)
        except RequestError as error:
            place = error.place if isinstance(error, PartError) else (None, None)
            failed = AnswerFailed(message.session, message.answer, error.code, str(error), *place)
            return [failed]
        except Exception as error:  # our bug with what one client sent: it is only its failure
            log.exception("a question could not be read")
            failure = Failure.of(key, error, "the question could not be read")
            return [AnswerFailed(message.session, message.answer, failure.code, failure.message)]
        asked = [] if self._tower is None else self._tower.complete(key, owner.prompt)
        core.add(key, Priority.LIVE, owner, message.session)
        return asked

    def _answer(self, key: str, message: StartAnswer) -> ChatAnswer:
        settings, prompter = message.settings, self._prompter
        adapter = self._adapters.of(settings.model) if self._adapters else None
        self._check(message.messages)
        least = min(self._max_answer, prompter.max_tokens // 4)
        asked = settings.max_tokens or least
        prompt = prompter.prompt(
            message.session,
            message.messages,
            variables=settings.template,
            tools=settings.tools,
            reserved=min(asked, least) if settings.may_shrink else asked,
            is_plain=settings.is_plain,
            continues=settings.continues,
        )
        room = prompter.max_tokens - len(prompt.tokens)
        most = min(room, settings.max_tokens or self._max_answer)
        sampling = self._defaults.sampling(settings, most, self._end_tokens, self._vocab)
        if settings.tools:
            grammar, calls = self._with_calls(settings, prompt)
        else:
            grammar, calls = self._grammar(settings, prompt), None
        says_all = form_of(settings) is not None and grammar is not None and not grammar.tags
        # What cannot think may have texts in its form that look like thinking.
        tags = None if settings.is_plain or says_all else prompter.template.thinking
        tokenizer = prompter.tokenizer
        return ChatAnswer(key, message, prompt, sampling, tokenizer, grammar, calls, tags, adapter)

    def _with_calls(
        self, settings: AnswerSettings, prompt: ChatPrompt
    ) -> tuple[JsonGrammar | None, CallReader]:
        """What the answer keeps to, and who finds the calls in it. Where calls are free to come and
        this checkpoint cannot be kept to their form, whatever is none is text."""
        family = self._prompter.template.calls
        rules = call_rules(settings, family)
        names = [tool.name for tool in rules.tools]
        form = form_of(settings)
        must = rules.is_forced or form is not None
        try:
            self._check_end(settings, "tools")
            thinking = self._thinking(settings, prompt, always=not must)
            grammar = self._grammars.compile_calls(rules, form, thinking)
        except RequestError as error:
            if must or any(tool.is_strict for tool in rules.tools):
                raise RequestError(error.code, blamed(settings, str(error))) from None
            return None, CallReader(family, names, is_sure=False)
        reader = CallReader(family, names, is_sure=True, is_forced=rules.is_forced)
        return grammar, reader

    def _grammar(self, settings: AnswerSettings, prompt: ChatPrompt) -> JsonGrammar | None:
        form = form_of(settings)
        if form is None:
            return None
        self._check_end(settings, "a schema")
        thinking = self._thinking(settings, prompt)
        try:
            return self._grammars.compile(form, thinking)
        except RequestError as error:
            raise RequestError(error.code, blamed(settings, str(error))) from None

    def _check_end(self, settings: AnswerSettings, what: str) -> None:
        """When what was asked for is complete nothing but the end is left."""
        if settings.ignore_end:
            raise RequestError("invalid_value", f"ignore_end: expected false with {what}")
        if settings.min_tokens:
            raise RequestError(
                "invalid_value",
                f"min_tokens: expected 0 with {what}, got {settings.min_tokens}",
            )

    def _thinking(
        self, settings: AnswerSettings, prompt: ChatPrompt, *, always: bool = False
    ) -> Thinking:
        """always: what comes behind it is free, so every model that can may think."""
        if prompt.is_thinking:
            return Thinking.OPEN
        # Not for others: where nothing else may come, they would try it, and never end.
        can = (self._prompter.template.asks_for_thinking or always) and self._grammars.thinks
        is_asked = settings.template.get("enable_thinking", True)
        return Thinking.FREE if can and is_asked else Thinking.NONE

    def _check(self, messages: list[ChatMessage]) -> None:
        if not messages:
            raise RequestError("invalid_value", "messages: expected one at least, got none")
        for i, message in enumerate(messages):
            if message.role not in ROLES:
                known = ", ".join(ROLES)
                raise RequestError(
                    "invalid_value", f"messages[{i}].role: expected {known}; got {message.role!r}"
                )
            if (worst := max(message.tokens, default=0)) >= self._vocab:
                expected = f"messages: expected token ids below {self._vocab}, got {worst}"
                raise RequestError("invalid_value", expected)
            for k, part in enumerate(message.parts):
                if (why := self._prompter.refusal(part, self._name)) is not None:
                    raise PartError("invalid_model", why, (i, k))
                is_media = not isinstance(part, TextPart | EmbeddingsPart)
                if message.role not in ("user", "tool") and is_media:
                    text = f"expected media of users and tools, got one of {message.role}"
                    raise PartError("invalid_value", text, (i, k))

    def _read_ahead(self, message: ReadAhead, core: EngineCore) -> list[Event]:
        key = f"{message.session}//ahead"
        try:
            adapter = self._adapters.of(message.model) if self._adapters else None
            self._check(message.messages)
            prompt = self._prompter.beginning(message.session, message.messages, message.tools)
        except RequestError:
            return []  # the question itself will say what is wrong
        except Exception:  # and what is our bug: the question fails, and nothing else
            log.exception("what was to be read ahead could not be")
            return []
        if not prompt.tokens or len(prompt.tokens) >= self._prompter.max_tokens:
            return []
        asked = [] if self._tower is None else self._tower.complete(key, prompt)
        owner = core.owner(key)
        if not isinstance(owner, PromptReader):
            owner = PromptReader(key)
            core.add(key, Priority.BATCH, owner, message.session)
        owner.read(prompt, adapter)
        return asked
