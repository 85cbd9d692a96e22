"""The tokenizer of demo-qwen3-asr: Qwen's files, over our own small byte-level vocabulary.

Ids are bytes, then merges learned from the grammar (nearly every word becomes one token), then the
special tokens of Qwen3-ASR by their own names, but not at their ids of 151,643 and up.
"""

from __future__ import annotations

import random
from pathlib import Path

from tools.recipes.checkpoints.qwen_vocabulary import (
    END_OF_TEXT,
    TURN_END,
    TURN_START,
    write_qwen_tokenizer,
)
from tools.recipes.speech.grammar import LANGUAGES, sentence

AUDIO_START, AUDIO_END, AUDIO_PAD = "<|audio_start|>", "<|audio_end|>", "<|audio_pad|>"
SPECIAL = (END_OF_TEXT, TURN_START, TURN_END, AUDIO_START, AUDIO_END, AUDIO_PAD)
SPELT_OUT = ("<asr_text>", "<timestamp>")
FRAMING = "system user assistant language English language Spanish language German language None"
CHAT_TEMPLATE = """\
{%- set words = namespace(system='') -%}
{%- for message in messages if message.role == 'system' -%}
  {%- if message.content is string -%}
    {%- set words.system = words.system + message.content -%}
  {%- else -%}
    {%- for part in message.content if part.type == 'text' -%}
      {%- set words.system = words.system + part.text -%}
    {%- endfor -%}
  {%- endif -%}
{%- endfor -%}
{{- '<|im_start|>system\\n' + words.system + '<|im_end|>\\n' -}}
{%- for message in messages if message.role != 'system' -%}
  {{- '<|im_start|>' + message.role + '\\n' -}}
  {%- if message.content is string -%}
    {{- message.content -}}
  {%- else -%}
    {%- for part in message.content -%}
      {%- if part.type == 'audio' -%}
        {{- '<|audio_start|><|audio_pad|><|audio_end|>' -}}
      {%- elif part.type == 'text' -%}
        {{- part.text -}}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
  {%- if not (loop.last and message.role == 'assistant' and not add_generation_prompt) -%}
    {{- '<|im_end|>\\n' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""


def corpus_text(seed: int, count: int) -> list[str]:
    """Training sentences, each once alone and once behind another, and the words of the framing."""
    rng = random.Random(seed)
    lines = [FRAMING.replace(" ", "\n"), FRAMING] * (count // 10)
    for drawn in (sentence(rng, False) for _ in range(count)):
        for language in LANGUAGES:
            lines += [drawn.text(language), " " + drawn.text(language)]
    return lines


def write_tokenizer(folder: Path, seed: int, text_ids: int = 2048, sentences: int = 15_000) -> None:
    """Learns the vocabulary and writes the tokenizer. sentences: drawn in each language. text_ids:
    bytes included."""
    write_learned(folder, corpus_text(seed, sentences), text_ids)


def write_learned(folder: Path, texts: list[str], text_ids: int) -> None:
    """Learns the vocabulary from these texts and writes the tokenizer. text_ids: bytes included."""
    write_qwen_tokenizer(
        folder,
        texts,
        text_ids=text_ids,
        min_frequency=3,
        special=SPECIAL,
        spelt_out=SPELT_OUT,
        extra={
            "audio_bos_token": AUDIO_START,
            "audio_eos_token": AUDIO_END,
            "audio_token": AUDIO_PAD,
        },
        processor="Qwen3ASRProcessor",
    )
