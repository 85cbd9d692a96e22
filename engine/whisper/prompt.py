"""The decoder prompt of Whisper, built from settings and earlier text. Pure.

Layout: see `engine.core.request`. Source: Radford et al. 2022, "Robust Speech Recognition via
Large-Scale Weak Supervision", figure 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lookhear.engine.sampling.alternatives import Doubts
from lookhear.engine.sampling.expected import ExpectedWords
from lookhear.engine.speech.text.agreement import is_punctuation
from lookhear.engine.speech.text.words import UNSPACED_LANGUAGES
from lookhear.engine.tokenizers.whisper import WhisperTokenizer

LONGEST_SIGN = 3  # tokens: one for each byte of its UTF-8
# Of languages that have another comma than most, or none.
OTHER_COMMAS = {
    **dict.fromkeys(UNSPACED_LANGUAGES | {"am", "hy", "yi"}, ""),
    "ja": "、", "zh": "，", "yue": "，",
    **dict.fromkeys(("ar", "fa", "ps", "sd", "ur"), "،"),
}  # fmt: skip


class WhisperPrompter:
    """Prompts for one checkpoint.

    max_prompt: tokens put in front at most. max_carried: how many of them may be what was just
    transcribed; the rest is for the user's own prompt. decode_bytes: UTF-8 bytes of several text
    tokens. detects_language: whether the language is a token of the prompt (a multilingual
    checkpoint). languages: ISO codes that the checkpoint has tokens for; empty for an English-only
    one.
    """

    def __init__(
        self, tokenizer: WhisperTokenizer, max_prompt: int = 64, max_carried: int = 64
    ) -> None:
        self._tokenizer = tokenizer
        self._codes = {token: code for code, token in tokenizer.languages.items()}
        self.decode_bytes, self.token_bytes = tokenizer.decode_bytes, tokenizer.token_bytes
        self.detects_language = tokenizer.is_multilingual
        self.languages = sorted(tokenizer.languages)
        self.max_prompt = max_prompt
        self.max_carried = max_carried

    def language_token(self, code: str | None) -> int | None:
        """Token id of an ISO code; None if none was given or the checkpoint has just one."""
        if code is None or not self.detects_language:
            return None
        return self._tokenizer.languages[code]

    def language_code(self, token: int | None) -> str | None:
        """ISO code of a language token; None if there is none."""
        return None if token is None else self._codes.get(token)

    def language_tokens(self, of: Mapping[str, float]) -> dict[int, float]:
        """Numbers of ISO codes, by token id."""
        return {self._tokenizer.languages[code]: value for code, value in of.items()}

    def expected(self, words: tuple[str, ...]) -> ExpectedWords | None:
        """These words, to be heard more readily; None if there are none."""
        if not words:
            return None
        return ExpectedWords(words, self._tokenizer.encode, self.token_bytes)

    def doubts(self, most: int) -> Doubts | None:
        """Of texts of this checkpoint: so many are thought over at most; None if none is."""
        return Doubts(self.token_bytes, self._tokenizer.eot, most) if most else None

    def timestamp(self, seconds: float) -> int:
        """Token id of a time of the window, to the nearest that there is."""
        return self._tokenizer.timestamp_token(seconds)

    def timestamps_from(self, seconds: float) -> range:
        """Token ids of all times from there on."""
        return range(self.timestamp(seconds), self._tokenizer.vocab_size)

    def timestamp_seconds(self, token: int) -> float | None:
        """Seconds that a timestamp token stands for; None for any other token."""
        first = self._tokenizer.timestamp_begin
        return None if token < first else self._tokenizer.timestamp_seconds(token)

    def capital(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """The text as a sentence begins. A word that has a capital elsewhere stays as it is, and
        what has none at all: many scripts."""
        spell = self.token_bytes
        own = (n for n in range(1, len(tokens)) if spell(tokens[n]).startswith(b" "))
        end = next(own, len(tokens))
        word = self.decode_bytes(tokens[:end]).decode("utf-8", errors="replace")
        at = next((n for n, c in enumerate(word) if c.isalpha()), None)
        if at is None or word != word.lower() or "\ufffd" in word:
            return tuple(tokens)
        begun = word[:at] + word[at].title() + word[at + 1 :]
        return (*(tokens[:end] if begun == word else self._tokenizer.encode(begun)), *tokens[end:])

    def comma(self, tokens: Sequence[int], language: str | None) -> tuple[int, ...]:
        """What stands behind a text that is no sentence and has no sign at its end. language: ISO
        code; nothing, where there is none."""
        end = self.decode_bytes(tokens[-LONGEST_SIGN:]).decode("utf-8", errors="replace").strip()
        if not end or is_punctuation(end[-1].encode()):
            return ()
        return tuple(self._tokenizer.encode(OTHER_COMMAS.get(language or "", ",")))

    def prompt(
        self, text: str, earlier: Sequence[int], task: str, *, timestamps: bool
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(tokens up to the start token, tokens after the language).

        text: the user's prompt, kept whole if it fits; of a longer one the end, in half of the room
        if there is something earlier. earlier: tokens said just before.
        """
        t = self._tokenizer
        given = t.encode(" " + text.strip()) if text.strip() else []
        if len(given) > self.max_prompt:
            carried = min(len(earlier), self.max_carried, self.max_prompt // 2)
            given = given[carried - self.max_prompt :]
        room = min(self.max_prompt - len(given), self.max_carried)
        before = [*given, *(earlier[-room:] if room else [])]
        head = [t.prev, *before, t.sot] if before else [t.sot]
        tail = []
        if self.detects_language:
            tail.append(t.translate if task == "translate" else t.transcribe)
        if not timestamps:
            tail.append(t.no_timestamps)
        return tuple(head), tuple(tail)
