"""The tokenizer of demo-qwen3-asr: Qwen's files, over our own small byte-level vocabulary.

Ids are bytes, then merges learned from the grammar (nearly every word becomes one token), then the
special tokens of Qwen3-ASR by their own names, but not at their ids of 151,643 and up.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from engine.demo.grammar import LANGUAGES, sentence

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
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
    """Learns the vocabulary and writes the tokenizer as transformers reads it.

    sentences: drawn in each language. text_ids: bytes included.
    """
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers
    from transformers import Qwen2Tokenizer

    reader: Any = Qwen2Tokenizer
    empty = reader()
    learner = Tokenizer(models.BPE())
    learner.normalizer = empty.backend_tokenizer.normalizer
    learner.pre_tokenizer = empty.backend_tokenizer.pre_tokenizer
    trainer = trainers.BpeTrainer(
        vocab_size=text_ids,
        min_frequency=3,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    learner.train_from_iterator(corpus_text(seed, sentences), trainer)
    model = json.loads(learner.to_str())["model"]
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in model["merges"]]
    # Before the named tokens, or transformers would give <|endoftext|> the next free id itself.
    vocab = {**model["vocab"], END_OF_TEXT: len(model["vocab"])}
    tokenizer = reader(vocab=vocab, merges=merges)
    tokenizer.add_tokens([AddedToken(name, special=True) for name in SPECIAL[1:]])
    tokenizer.add_tokens([AddedToken(name, special=False) for name in SPELT_OUT])
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["extra_special_tokens"] = {
        "audio_bos_token": AUDIO_START,
        "audio_eos_token": AUDIO_END,
        "audio_token": AUDIO_PAD,
    }
    config |= {
        "eos_token": TURN_END,
        "pad_token": END_OF_TEXT,
        "processor_class": "Qwen3ASRProcessor",
    }
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
