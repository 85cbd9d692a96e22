"""The tokenizer of demo-qwen3-vl: Qwen's files, over our own small byte-level vocabulary.

Ids are bytes, then merges learned from questions and answers (nearly every word becomes one token,
a number one a digit), then the special tokens of Qwen3-VL by their own names, but not at their ids.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from engine.demo.scene_questions import (
    FORMS,
    GREETING,
    GREETINGS,
    NO_PICTURE,
    STILL,
    SYSTEMS,
    TIMES,
    WAYS,
    Asker,
    spoken_question,
    style,
)
from engine.demo.scenes import COLOURS, PLACES, SHAPES, WORDS, draw_scene

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
IMAGE_PAD, VIDEO_PAD = "<|image_pad|>", "<|video_pad|>"
SPECIAL = (END_OF_TEXT, TURN_START, TURN_END, VISION_START, VISION_END, IMAGE_PAD, VIDEO_PAD)
SPELT_OUT = ("<think>", "</think>")
CHAT_TEMPLATE = """\
{%- for message in messages -%}
  {{- '<|im_start|>' + message.role + '\\n' -}}
  {%- if message.content is string -%}
    {{- message.content -}}
  {%- else -%}
    {%- for part in message.content -%}
      {%- if part.type in ('image', 'image_url') or 'image' in part or 'image_url' in part -%}
        {{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
      {%- elif part.type == 'video' or 'video' in part -%}
        {{- '<|vision_start|><|video_pad|><|vision_end|>' -}}
      {%- elif 'text' in part -%}
        {{- part.text -}}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
  {{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""


def corpus_text(seed: int, count: int) -> list[str]:
    """Questions and answers as they come, and every word of the closed world often enough."""
    rng = random.Random(seed)
    lines: list[str] = []
    names = [*COLOURS, *SHAPES, *WORDS, *(f"{shape}s" for shape in SHAPES), "crosses", "shapes"]
    fixed = [GREETING, NO_PICTURE, STILL, *GREETINGS, *SYSTEMS, *WAYS.values(), *TIMES]
    fixed += [f"{place[0].upper()}{place[1:]}." for place in PLACES]
    for _ in range(40):
        lines += ["user\n", "assistant\n", "system\n", "<0.5 seconds>", *fixed]
        lines += [f" {name}" for name in names] + [f"{name.capitalize()}." for name in COLOURS]
        lines += ["It does not blink.", "It does not jump.", "There is no number."]
    for _ in range(count):
        asker = Asker(draw_scene(rng), rng)
        lines.append(style(spoken_question(rng), rng))
        for task, forms in FORMS.items():
            question = asker.ask(task)
            if question is not None:
                lines += [style(question.text, rng), question.answer_text]
            form = rng.choice(forms)
            lines.append(style(form.format_map(_Blank()), rng))
    return lines


class _Blank(dict[str, str]):
    """Slots of a form, all filled by the same word."""

    def __missing__(self, key: str) -> str:
        return "circle"


def write_tokenizer(folder: Path, seed: int, text_ids: int = 768, scenes: int = 1500) -> None:
    """Learns the vocabulary and writes the tokenizer as transformers reads it.

    text_ids: bytes included, at most.
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
        min_frequency=10,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    learner.train_from_iterator(corpus_text(seed, scenes), trainer)
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
        "image_token": IMAGE_PAD,
        "video_token": VIDEO_PAD,
        "vision_bos_token": VISION_START,
        "vision_eos_token": VISION_END,
    }
    config |= {
        "eos_token": TURN_END,
        "pad_token": END_OF_TEXT,
        "processor_class": "Qwen3VLProcessor",
    }
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
