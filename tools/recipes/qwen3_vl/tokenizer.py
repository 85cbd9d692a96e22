"""The tokenizer of demo-qwen3-vl: Qwen's files, over our own small byte-level vocabulary.

Ids are bytes, then merges learned from questions and answers (nearly every word becomes one token,
a number one a digit), then the special tokens of Qwen3-VL by their own names, but not at their ids.
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
from tools.recipes.scenes.questions import (
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
from tools.recipes.scenes.scenes import COLOURS, PLACES, SHAPES, WORDS, draw_scene

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
    """Learns the vocabulary and writes the tokenizer. text_ids: bytes included, at most."""
    write_qwen_tokenizer(
        folder,
        corpus_text(seed, scenes),
        text_ids=text_ids,
        min_frequency=10,
        special=SPECIAL,
        spelt_out=SPELT_OUT,
        extra={
            "image_token": IMAGE_PAD,
            "video_token": VIDEO_PAD,
            "vision_bos_token": VISION_START,
            "vision_eos_token": VISION_END,
        },
        processor="Qwen3VLProcessor",
    )
