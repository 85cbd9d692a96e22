"""Answers that keep to a JSON Schema: which tokens may come next, whatever the model would say.

    GrammarCompiler.compile   schema -> `JsonGrammar`, once for every text that is asked for again
    JsonGrammar.start      -> `GrammarMatcher`, one for each running request
    before a choice    `fill` sets a bit for each token that may come; behind it `accept` takes it

Thinking in front of the answer is part of the grammar: it is free, and cannot hold its own end tag
by another spelling than the one token that ends it. Once the answer is complete nothing is left
but the checkpoint's end tokens. Tokens outside the byte-level vocabulary, and those that are mere
padding of the logits, never come in an answer.

Answers are on one line (`{"a": 1, "b": [2, 3]}`, or without the blanks): where white space is free,
models that do not know how to go on write it until their tokens are used up.

Source: llguidance (https://github.com/guidance-ai/llguidance), imported when the first schema
comes: nothing else needs it.
"""

from __future__ import annotations

import copy
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lookhear.engine.core.request import RequestError
from lookhear.engine.markup.thinking import COMMON, ThinkingTags
from lookhear.engine.sampling.brevity import EndingTokens, TokenBudget
from lookhear.engine.sampling.call_rules import CallRules
from lookhear.engine.sampling.large_stack import on_large_stack
from lookhear.engine.sampling.schema_limits import check_limits, put_bounds
from lookhear.engine.sampling.tool_schemas import KEPT_CHECKS, ToolSchemas
from lookhear.engine.sampling.vocabulary import Vocabulary
from lookhear.engine.tokenizers.qwen import QwenTokenizer

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

RULED_OUT = "satisfy the grammar"  # in what llguidance says of a token that may not come
KEPT = 32  # compiled grammars
# A kilobyte or two each, for every schema: a pattern can ask for any number of them.
MAX_LEXER_STATES = 50_000
# Expressions that all patterns together may become before an answer begins, all at once: 0.3 s. The
# library's own million is seconds, in which nobody else's answer goes on.
MAX_EXPRESSIONS = 200_000
_STYLE = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?"}
_THOUGHT = r"""
thinking_first: {thinking}
thinking: {begin} THOUGHT <[{end}]> GAP
THOUGHT: /(?s:.*)/ & ~/(?s:.*){spelt}(?s:.*)/
GAP: /\n{{0,2}}/
"""
# How a pattern is written in a grammar: what would end it there, and as in schemas figures and
# letters of ASCII, which the library has in brackets only. Those are no end of a range.
_IN_PATTERNS = re.compile(r"(?s:\\.)|--|-(?=\\[dDwW])|[/\n]")
_WRITTEN = {
    **{"/": r"\/", "\n": r"\n", "\\\n": r"\n", "-": r"\-"},
    **{r"\d": "[0-9]", r"\D": "[^0-9]", r"\w": "[0-9A-Za-z_]", r"\W": "[^0-9A-Za-z_]"},
}


class Thinking(Enum):
    """What comes in front of an answer. OPEN: the prompt has begun it. FREE: if the model likes."""

    NONE = "none"
    OPEN = "open"
    FREE = "free"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression that a whole answer matches, without looking around or back."""

    text: str


@dataclass(frozen=True, slots=True)
class Choices:
    """Texts, one of which an answer is."""

    texts: tuple[str, ...]


Form = str | Pattern | Choices
"""What an answer keeps to: a JSON Schema as JSON text, or one of the others."""


class GrammarMatcher:
    """Where one answer is in its grammar."""

    def __init__(self, matcher: LLMatcher, of: JsonGrammar, budget: TokenBudget | None) -> None:
        self._matcher = matcher
        self._budget, self._endings = budget, of.endings
        self._tags, self._is_thinking = of.tags, of.thinks_first

    def fill(self, bits: NDArray[np.int32]) -> None:
        """bits: [ceil(vocab / 32)] int32, written whole; that of token t is bit t % 32 of word
        t // 32. `RequestError` if the schema has turned out to be too much work; RuntimeError if a
        token came that `fill` had ruled out."""
        self._matcher.unsafe_compute_mask_ptr(bits.ctypes.data, bits.nbytes)
        if self._matcher.is_error():  # the bits would be those of the end tokens
            error = _shortened(self._matcher.get_error())
            if RULED_OUT in error:  # which is nobody's schema's fault
                raise RuntimeError(f"the answer's schema: {error}")
            raise _refused(f"one that is less work; {error}")
        if self._budget is None or self._endings is None or self._is_thinking:
            return
        if self._budget.is_nearly_spent:
            self._endings.keep(bits)

    def forced(self) -> list[int]:
        """Tokens of the only text that may come now, as it is usually spelt; mostly none."""
        return list(self._matcher.compute_ff_tokens())

    def allowed(self, tokens: Sequence[int]) -> int:
        """How many of the first of them may come, one after the other."""
        return int(self._matcher.validate_tokens(list(tokens)))

    def behind(self, token: int) -> GrammarMatcher:
        """Another one, where this one would be behind a token that may come."""
        ahead = copy.copy(self)
        ahead._matcher, ahead._budget = self._matcher.deep_copy(), copy.copy(self._budget)
        ahead.accept(token)
        return ahead

    def accept(self, token: int) -> None:
        """A token that `fill` has let through was chosen. Errors are those of the next `fill`."""
        self._matcher.consume_token(token)
        if self._budget is None:
            return
        self._budget.used += 1
        if token in self._tags:
            self._is_thinking = token == self._tags[0]
            self._budget.thought = self._budget.used


@dataclass(frozen=True, slots=True)
class JsonGrammar:
    """A compiled schema. Immutable: every request has a matcher of its own.

    endings: where the answer is JSON, which can be ended early. tags: the tokens that begin and end
    its thinking, if it may think. thinks_first: it has begun to."""

    matcher: LLMatcher
    endings: EndingTokens | None = None
    tags: tuple[int, ...] = ()
    thinks_first: bool = False
    takes_draft: ClassVar[bool] = False  # a token that may not come is an error

    def start(self, budget: int | None = None) -> GrammarMatcher:
        """A matcher at the beginning of an answer. budget: tokens that it may have, where it is to
        be ended before they are used up."""
        own = None if budget is None else TokenBudget(budget)
        return GrammarMatcher(self.matcher.deep_copy(), self, own)


class GrammarCompiler:
    """Of one checkpoint. vocab: logits per token. end_tokens: those that end its answers."""

    def __init__(
        self,
        tokenizer: QwenTokenizer,
        vocab: int,
        end_tokens: tuple[int, ...],
        tags: ThinkingTags = COMMON,
    ) -> None:
        self._tags = tags
        self._tokenizer = tokenizer
        self._vocab = vocab
        self._end_tokens = [token for token in end_tokens if token < vocab]
        self._kept: OrderedDict[object, JsonGrammar] = OrderedDict()
        self._tools = ToolSchemas(self._check, MAX_EXPRESSIONS)
        self._refusals: OrderedDict[object, str] = OrderedDict()
        self._words: LLTokenizer | None = None
        self._endings: EndingTokens | None = None

    @property
    def thinks(self) -> bool:
        """Whether the checkpoint has the tags of thinking, as tokens that are spelt out."""
        tags = (self._tags.open, self._tags.close)
        added, spell = self._tokenizer.added, self._tokenizer.decode_bytes
        return all(tag in added and spell([added[tag]]) for tag in tags)

    def compile(self, schema: Form, thinking: Thinking = Thinking.NONE) -> JsonGrammar:
        """schema: or another form of answers. `RequestError`, in words that begin with `schema`, if
        it cannot be kept to. The first call takes a second where the vocabulary is large."""
        if thinking is not Thinking.NONE:
            self.compile(schema)  # what is wrong with it shows only behind the thinking

        def parts() -> dict[str, dict[str, Any]]:
            answer = {"answer": _parsed(schema)}
            thought = self._thought(thinking)
            if thought is None:
                return answer
            return {"start": {"lark_grammar": f"start: thinking_first @answer\n{thought}"}} | answer

        return self._once((schema, thinking), parts, thinking, is_json=isinstance(schema, str))

    def compile_calls(
        self, rules: CallRules, schema: Form | None = None, thinking: Thinking = Thinking.NONE
    ) -> JsonGrammar:
        """Calls of tools, and what is said where none is forced: free, or keeping to the schema.
        `RequestError` as above; it begins with `tools[i]` where a strict tool's schema is wrong.
        Arguments of others are some object where their schema cannot be kept to, or is too much
        beside the others'."""
        if schema is not None:
            self.compile(schema)
        answer = schema if isinstance(schema, str) and not rules.is_forced else None
        arguments = self._tools.kept(rules.tools, answer)

        def parts() -> dict[str, dict[str, Any]]:
            lark = rules.lark(self._tokenizer.added, has_schema=schema is not None)
            thought = self._thought(thinking)
            start = "start: body\n" if thought is None else f"start: thinking_first body\n{thought}"
            found: dict[str, dict[str, Any]] = {"start": {"lark_grammar": start + lark}}
            if schema is not None and not rules.is_forced:
                found["answer"] = _parsed(schema)
            return found | {f"arguments_{i}": _parsed(text) for i, text in enumerate(arguments)}

        is_json = isinstance(schema, str) or (schema is None and rules.is_forced)
        return self._once((rules, schema, thinking), parts, thinking, is_json=is_json)

    def _once(
        self,
        key: object,
        parts: Callable[[], dict[str, dict[str, Any]]],
        thinking: Thinking,
        *,
        is_json: bool,
    ) -> JsonGrammar:
        grammar = self._kept.get(key)
        if key in self._refusals:
            raise RequestError("invalid_value", self._refusals[key])
        if grammar is None:
            try:
                matcher = self._compiled(parts())
            except RequestError as error:  # which may have taken as long as a grammar
                self._refusals[key] = str(error)
                if len(self._refusals) > KEPT_CHECKS:
                    self._refusals.popitem(last=False)
                raise
            may_think = thinking is not Thinking.NONE
            tags = (self._tags.open, self._tags.close) if may_think else ()
            grammar = self._kept[key] = JsonGrammar(
                matcher,
                self._endings if is_json else None,
                tuple(self._tokenizer.added[tag] for tag in tags),
                thinking is Thinking.OPEN,
            )
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return grammar

    def _check(self, schema: str, most: int) -> None:
        self._compiled({"answer": _parsed(schema)}, most)

    def _compiled(self, parts: dict[str, dict[str, Any]], most: int = MAX_EXPRESSIONS) -> LLMatcher:
        """parts: grammars by name, the first of which is the start. most: expressions."""
        from llguidance import LLMatcher, LLParserLimits

        text = json.dumps({"grammars": [{**part, "name": name} for name, part in parts.items()]})
        limits = LLParserLimits(
            max_lexer_states=MAX_LEXER_STATES,
            initial_lexer_fuel=most,
            verbose_errors=False,
        )
        words = self._vocabulary()
        matcher = on_large_stack(lambda: LLMatcher(words, text, log_level=0, limits=limits))
        if not matcher.is_error():
            matcher.compute_bitmask()  # some find out only now that nothing is left to write
        if matcher.is_error():
            raise _refused(f"a schema that answers can keep to; {_shortened(matcher.get_error())}")
        return matcher

    def _thought(self, thinking: Thinking) -> str | None:
        """Rules of the thinking in front, None without any."""
        if thinking is Thinking.NONE:
            return None
        if not self.thinks:
            raise _refused("none, this model's thinking cannot be told from its answer")
        added, is_free = self._tokenizer.added, thinking is Thinking.FREE
        return _THOUGHT.format(
            thinking="thinking?" if is_free else "thinking",
            begin=f"<[{added[self._tags.open]}]>" if is_free else "",
            end=added[self._tags.close],
            spelt=re.escape(self._tags.close).replace("/", r"\/"),
        )

    def _vocabulary(self) -> LLTokenizer:
        from llguidance import LLTokenizer, TokenizerWrapper

        if self._words is None:
            words = Vocabulary(self._tokenizer, self._vocab, self._end_tokens[0])
            if words.missing:
                raise _refused(
                    "none, this model's vocabulary cannot write every text: it has no token "
                    f"for the byte {min(words.missing):#04x}"
                )
            special = words.special_token_ids
            self._endings = EndingTokens(words.tokens, special, self._end_tokens)
            self._words = LLTokenizer(
                TokenizerWrapper(words),
                n_vocab=self._vocab,
                eos_token=self._end_tokens,
                slices=LLTokenizer.json_slices(),  # half the time where any object may come
            )
        return self._words


def _parsed(form: Form) -> dict[str, Any]:
    """The library's grammar of it, apart from its name."""
    if isinstance(form, Choices):
        written = (json.dumps(text, ensure_ascii=False) for text in form.texts)
        texts = (text.replace("\x7f", "\\u007f") for text in written)  # which may not stand there
        return {"lark_grammar": f"start: {' | '.join(texts)}\n"}
    if isinstance(form, Pattern):
        source = _IN_PATTERNS.sub(lambda found: _WRITTEN.get(found[0], found[0]), form.text)
        return {"lark_grammar": f"start: TEXT\nTEXT: /{source}/\n"}
    schema = form
    try:
        from llguidance import LLMatcher
    except ImportError as error:
        why = f"none, the package that reads them is missing here ({error})"
        raise _refused(why) from None
    try:
        parsed = json.loads(schema)
    except (ValueError, RecursionError) as error:
        raise _refused(f"JSON, {error}") from None
    if not isinstance(parsed, dict):
        raise _refused("a JSON Schema, an object")
    parsed.pop("x-guidance", None)  # how the library writes is not the client's
    try:
        check_limits(parsed)
    except ValueError as error:
        raise _refused(str(error)) from None
    put_bounds(parsed)
    try:
        text = LLMatcher.grammar_from_json_schema(json.dumps(parsed), overrides=_STYLE)  # type: ignore[arg-type]
    except ValueError as error:
        raise _refused(f"a schema that answers can keep to; {_shortened(str(error))}") from None
    (grammar,) = json.loads(text)["grammars"]
    return dict(grammar)


def _refused(expected: str) -> RequestError:
    return RequestError("invalid_value", f"schema: expected {expected}")


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 300 else f"{text[:300]}…"
