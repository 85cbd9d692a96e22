"""From what is to be embedded or compared to the tokens of a request. Pure, apart from resizing.

    text                    the text as it is, an instruction or the checkpoint's own words in front
    text and pictures       a conversation: the instruction as its system, the parts as its user
    query and document      the question whether one meets the other, which "yes" or "no" answers

Sources: the model cards of Qwen3-Embedding and Qwen3-Reranker; the scripts of Qwen3-VL-Embedding
and Qwen3-VL-Reranker.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence

from lookhear.engine.chat.prompt import ChatPrompt, ChatPrompter
from lookhear.engine.chat.template import Piece, TemplateText, UserEmbeddings, UserText
from lookhear.engine.core.request import RequestError
from lookhear.engine.messages import (
    ChatMessage,
    EmbeddingsPart,
    Part,
    PoolingInput,
    PoolingSettings,
    TextPart,
)

REPRESENT = "Represent the user's input."
JUDGE = (
    "Judge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".'
)
RETRIEVE = "Given a web search query, retrieve relevant passages that answer the query"
RETRIEVE_SEEN = "Given a search query, retrieve relevant candidates that answer the query."
NOTHING = TextPart("NULL")  # stands for what has no parts
_BEFORE = f"<|im_start|>system\n{JUDGE}<|im_end|>\n<|im_start|>user\n"
_BEHIND = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


class PoolingPrompter:
    """prompts: see `SentenceModules`. vocab: ids that the decoder knows."""

    def __init__(self, prompter: ChatPrompter, prompts: Mapping[str, str], vocab: int) -> None:
        self.prompter = prompter
        self._prompts = prompts
        self._vocab = vocab
        self._ending = list(prompter.tokenizer.ending)

    @property
    def _sees(self) -> bool:
        return self.prompter.pictures is not None

    def embedded(
        self, session: str, given: PoolingInput, settings: PoolingSettings, role: str
    ) -> ChatPrompt:
        """Of which a vector is made. role: see `PoolingSettings`; of a document an instruction says
        nothing where queries have one. Raises `RequestError`; what is wrong with the input itself
        begins with no setting."""
        if given.tokens:
            return self._of_tokens(given.tokens)
        self._check(given)
        instruction = None if role == "document" else settings.instruction
        if given.is_conversation or self._sees:
            messages = given.messages
            if not given.is_conversation:
                messages = self._framed(given, instruction or self._prompts.get(role))
            prompt = self.prompter.unanswered(session, messages)
        else:
            if instruction is not None:
                before = f"Instruct: {instruction}\nQuery:" if instruction else ""
            else:
                before = self._prompts.get(role, "")
            frame = [UserText(before), *_pieces(given)]
            prompt = self.prompter.unanswered(session, given.messages, frame)
        prompt.tokens += self._ending
        if not prompt.tokens:
            raise RequestError("invalid_value", "expected a text, got an empty one")
        self._check_length(len(prompt.tokens))
        return prompt

    def judged(
        self, session: str, query: PoolingInput, document: PoolingInput, settings: PoolingSettings
    ) -> ChatPrompt:
        """Whose next token says whether they belong together. Raises as `embedded`."""
        for given in (query, document):
            self._check(given)
            if given.tokens or given.is_conversation:
                raise RequestError("invalid_value", "expected a text, or parts of one message")
            if not self._sees and any(isinstance(p, EmbeddingsPart) for p in _parts(given)):
                raise RequestError("invalid_value", "expected a text, got embeddings")
        if self._sees:
            instruction = settings.instruction or RETRIEVE_SEEN
            parts: list[Part] = [TextPart(f"<Instruct>: {instruction}"), TextPart("<Query>:")]
            parts += [*_parts(query), TextPart("\n<Document>:"), *_parts(document)]
            messages = [ChatMessage("system", [TextPart(JUDGE)]), ChatMessage("user", parts)]
            return self.prompter.unanswered(session, messages)
        instruction = settings.instruction or RETRIEVE
        asked = f"<Instruct>: {instruction}\n<Query>: {_text(query)}\n<Document>: {_text(document)}"
        frame = (TemplateText(_BEFORE), UserText(asked), TemplateText(_BEHIND))
        return self.prompter.unanswered(session, [], frame)

    def _framed(self, given: PoolingInput, instruction: str | None) -> list[ChatMessage]:
        told = (instruction or "").strip() or REPRESENT
        if not unicodedata.category(told[-1]).startswith("P"):
            told += "."
        system = ChatMessage("system", [TextPart(told)])
        return [system, ChatMessage("user", _parts(given) or [NOTHING])]

    def _of_tokens(self, tokens: Sequence[int]) -> ChatPrompt:
        if any(not 0 <= token < self._vocab for token in tokens):
            worst = next(token for token in tokens if not 0 <= token < self._vocab)
            raise RequestError(
                "invalid_value", f"expected token ids below {self._vocab}, got {worst}"
            )
        self._check_length(len(tokens))
        return ChatPrompt(tokens=list(tokens))

    def _check_length(self, count: int) -> None:
        most = self.prompter.max_tokens
        if count > most:
            expected = f"expected at most {most} tokens, got {count}"
            raise RequestError("context_length_exceeded", expected)

    def _check(self, given: PoolingInput) -> None:
        for part in _parts(given):
            if (why := self.prompter.refusal(part, "the model")) is not None:
                raise RequestError("invalid_model", why)


def _parts(given: PoolingInput) -> list[Part]:
    return [part for message in given.messages for part in message.parts]


def _pieces(given: PoolingInput) -> list[Piece]:
    """What stands for texts, a line each."""
    pieces: list[Piece] = []
    for part in _parts(given):
        if pieces:
            pieces.append(UserText("\n"))
        if isinstance(part, EmbeddingsPart):
            pieces.append(UserEmbeddings(part.embeddings))
        elif isinstance(part, TextPart):
            pieces.append(UserText(part.text))
    return pieces


def _text(given: PoolingInput) -> str:
    return "\n".join(part.text for part in _parts(given) if isinstance(part, TextPart))
