"""Batched greedy decoding with the network in training, and its word error rate."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lookhear.engine.qwen3_asr.prompt import build_prompt, parse_transcript
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tools.recipes.qwen3_asr.examples import HOP, LogMel
from tools.recipes.qwen3_asr.network import Network, token_counts
from tools.recipes.speech.corpus import Clip, Corpus
from tools.recipes.speech.scoring import edit_distance, words_of
from tools.recipes.speech.synthesis import SAMPLE_RATE

LEAD = 3200


@torch.no_grad()
def decode(
    net: Network, tokenizer: QwenTokenizer, mel: Tensor, frames: Tensor, limit: int
) -> list[str]:
    """Greedy answers, header included, to audio whose language is not told. No cache."""
    counts = token_counts(frames)
    prompts = [build_prompt(tokenizer, int(count)) for count in counts]
    rows = [list(prompt.tokens) for prompt in prompts]
    starts = torch.tensor([prompt.audio_start for prompt in prompts])
    end = tokenizer.token("<|im_end|>")
    open_rows = list(range(len(rows)))
    for _ in range(limit):
        width = max(len(rows[i]) for i in open_rows)
        tokens = torch.tensor([rows[i] + [end] * (width - len(rows[i])) for i in open_rows])
        with torch.autocast("cpu", torch.bfloat16):
            hidden = net(mel[open_rows], counts[open_rows], tokens, starts[open_rows])[0]
            last = torch.tensor([len(rows[i]) - 1 for i in open_rows])
            best = net.logits(hidden[torch.arange(len(open_rows)), last]).argmax(-1)
        for i, token in zip(open_rows, best.tolist(), strict=True):
            rows[i].append(token)
        open_rows = [i for i in open_rows if rows[i][-1] != end]
        if not open_rows:
            break
    return [
        tokenizer.decode(row[len(prompt.tokens) :])
        for row, prompt in zip(rows, prompts, strict=True)
    ]


def word_errors(
    net: Network,
    tokenizer: QwenTokenizer,
    corpus: Corpus,
    clips: list[Clip],
    logmel: LogMel,
) -> float:
    """Corpus word error rate, clean audio, each clip alone."""
    errors = total = 0
    for at in range(0, len(clips), 10):
        part = clips[at : at + 10]
        lengths = [2 * LEAD + len(corpus.samples(clip)) for clip in part]
        seconds = -(-max(lengths) // SAMPLE_RATE)
        wave = np.zeros((len(part), seconds * SAMPLE_RATE), dtype=np.float32)
        for row, clip in zip(wave, part, strict=True):
            samples = corpus.samples(clip)
            row[LEAD : LEAD + len(samples)] = samples.astype(np.float32) / 32768
        frames = torch.tensor(lengths) // HOP
        mel = logmel(torch.from_numpy(wave), frames)
        for clip, raw in zip(part, decode(net, tokenizer, mel, frames, 40), strict=True):
            answer = parse_transcript(raw, final=True)
            assert answer is not None
            reference = words_of(clip.sentence.text(clip.language))
            errors += edit_distance(reference, words_of(answer.text))
            total += len(reference)
    return round(errors / total, 4)
