"""What Qwen3-ASR is asked, and how its answer begins. Pure functions.

    <|im_start|>system\\n{context}<|im_end|>\\n
    <|im_start|>user\\n<|audio_start|><|audio_pad|>...<|audio_end|><|im_end|>\\n
    <|im_start|>assistant\\n                                    -> language X<asr_text>the words
    <|im_start|>assistant\\nlanguage X<asr_text>                -> the words

Context is free text whose words are heard more readily. Without a language, the model writes a
header that names it; forcing a language means writing that header for it.
Source: the chat template and the processor of Qwen3-ASR (QwenLM/Qwen3-ASR; transformers).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lookhear.engine.tokenizers.qwen import QwenTokenizer

ASR_TEXT = "<asr_text>"
AUDIO_PAD = "<|audio_pad|>"
MAX_CONTEXT_TOKENS = 1024

LANGUAGES = {
    "ar": "Arabic", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek",
    "en": "English", "es": "Spanish", "fa": "Persian", "fi": "Finnish", "fil": "Filipino",
    "fr": "French", "hi": "Hindi", "hu": "Hungarian", "id": "Indonesian", "it": "Italian",
    "ja": "Japanese", "ko": "Korean", "mk": "Macedonian", "ms": "Malay", "nl": "Dutch",
    "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sv": "Swedish",
    "th": "Thai", "tr": "Turkish", "vi": "Vietnamese", "yue": "Cantonese", "zh": "Chinese",
}  # fmt: skip


def language_name(language: str) -> str | None:
    """The name the model was trained on, of a code ("en", "en-US") or a name in any case; None
    for a language that it does not know."""
    wanted = language.strip().lower()
    for code, name in LANGUAGES.items():
        if wanted == name.lower() or re.split("[-_]", wanted)[0] == code:
            return name
    return None


def language_code(name: str) -> str | None:
    """The code of a language as the model names it; None for one that has no code here."""
    return next((code for code, known in LANGUAGES.items() if known == name), None)


class AsrPrompt(NamedTuple):
    """tokens: the whole prompt. audio_start, audio_tokens: where its placeholders are."""

    tokens: tuple[int, ...]
    audio_start: int
    audio_tokens: int


@dataclass(frozen=True, slots=True)
class PromptFrame:
    """What stands around the audio. before, after: tokens. pad: the placeholder."""

    before: tuple[int, ...]
    pad: int
    after: tuple[int, ...]

    @classmethod
    def of(
        cls, tokenizer: QwenTokenizer, *, context: str = "", language: str | None = None
    ) -> PromptFrame:
        """context: words to expect; spellings of added tokens are taken out of it, and what exceeds
        MAX_CONTEXT_TOKENS is cut off. language: name (see `language_name`) to force; "" and None:
        the model finds out."""
        start, end = tokenizer.token("<|im_start|>"), tokenizer.token("<|im_end|>")
        newline = tokenizer.encode("\n")
        opening = tokenizer.encode("system\n")
        # One piece with what is before it, as the model has learnt it; "system\n" ends in a line
        # break, so words of the context cannot merge into it.
        system = tokenizer.encode("system\n" + tokenizer.without_added(context).strip())
        before = [
            start, *system[: len(opening) + MAX_CONTEXT_TOKENS], end, *newline,
            start, *tokenizer.encode("user\n"), tokenizer.token("<|audio_start|>"),
        ]  # fmt: skip
        after = [
            tokenizer.token("<|audio_end|>"), end, *newline,
            start, *tokenizer.encode("assistant\n" + (f"language {language}" if language else "")),
        ]  # fmt: skip
        if language:
            after.append(tokenizer.token(ASR_TEXT))
        return cls(tuple(before), tokenizer.token(AUDIO_PAD), tuple(after))

    def around(self, audio_tokens: int, prefix: Sequence[int] = ()) -> AsrPrompt:
        """The prompt for an audio of so many encoder tokens. prefix: tokens of the answer that are
        settled already, behind the header if a language is forced, else beginning with it."""
        pads = (self.pad,) * audio_tokens
        tokens = self.before + pads + self.after + tuple(prefix)
        return AsrPrompt(tokens, len(self.before), audio_tokens)


def build_prompt(
    tokenizer: QwenTokenizer,
    audio_tokens: int,
    *,
    context: str = "",
    language: str | None = None,
    prefix: Sequence[int] = (),
) -> AsrPrompt:
    """The prompt for one audio; see `PromptFrame`."""
    frame = PromptFrame.of(tokenizer, context=context, language=language)
    return frame.around(audio_tokens, prefix)


@dataclass(frozen=True, slots=True)
class Transcript:
    """language: as the model names it, None if it named none or heard nobody. text: the words."""

    language: str | None
    text: str


def parse_transcript(raw: str, *, final: bool = False) -> Transcript | None:
    """Splits a decoded answer to a prompt without a forced language.

    raw: so far, from its first token on. None: as long as it may be the beginning of a header, of
    which nothing may be shown. final: no more will come, so an unfinished header is text. The word
    "language" in speech is text as soon as what follows cannot be a header.
    """
    header = _HEADER.match(raw)
    if header is None:
        if not final and _may_become_header(raw):
            return None
        return Transcript(None, _words(raw))
    language = header[1]
    return Transcript(None if language in (None, "None") else language, _words(raw[header.end() :]))


def _words(text: str) -> str:
    while ASR_TEXT in text:
        text = text.replace(ASR_TEXT, "")
    return text.lstrip()


_KEYWORD = "language "
_NAME = r"[A-Z][A-Za-z]*(?:[ ,-]+[A-Z][A-Za-z]*){0,2}"
_HEADER = re.compile(rf"\s*(?:{_KEYWORD}({_NAME})\s*)?{ASR_TEXT}")
_NAME_SO_FAR = re.compile(rf"(?:{_NAME})?[ ,-]*")


def _may_become_header(raw: str) -> bool:
    text = raw.lstrip()
    if _KEYWORD.startswith(text) or ASR_TEXT.startswith(text):
        return True
    if not text.startswith(_KEYWORD):
        return False
    name, sign, rest = text[len(_KEYWORD) :].partition("<")
    return _NAME_SO_FAR.fullmatch(name) is not None and ASR_TEXT.startswith(sign + rest)
