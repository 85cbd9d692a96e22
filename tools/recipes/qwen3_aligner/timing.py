"""How far the times of words are off: with the network in training, each clip alone."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from lookhear.engine.qwen3_asr.alignment import MARKER, aligned_words, alignment_prompt, in_order
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from tools.recipes.qwen3_aligner.network import STEP_SECONDS, AlignerNetwork
from tools.recipes.qwen3_asr.examples import HOP, LogMel
from tools.recipes.qwen3_asr.greedy import LEAD
from tools.recipes.qwen3_asr.network import token_counts
from tools.recipes.speech.corpus import Clip, Corpus
from tools.recipes.speech.synthesis import SAMPLE_RATE


@torch.no_grad()
def clip_errors(
    net: AlignerNetwork,
    tokenizer: QwenTokenizer,
    corpus: Corpus,
    clips: list[Clip],
    logmel: LogMel,
) -> NDArray[np.float64]:
    """`[words, 2]` seconds, of starts and ends; above 0: told too late. Clean audio."""
    found: list[NDArray[np.float64]] = []
    marker = tokenizer.token(MARKER)
    for clip in clips:
        samples = corpus.samples(clip).astype(np.float32) / 32768
        length = 2 * LEAD + len(samples)
        wave = np.zeros((1, -(-length // SAMPLE_RATE) * SAMPLE_RATE), dtype=np.float32)
        wave[0, LEAD : LEAD + len(samples)] = samples
        frames = torch.tensor([length // HOP])
        counts = token_counts(frames)
        words = [bare for word, _, _ in clip.words for bare in aligned_words(word)]
        tokens = torch.tensor([alignment_prompt(tokenizer, words, int(counts))])
        mel = logmel(torch.from_numpy(wave), frames)
        with torch.autocast("cpu", torch.bfloat16):
            hidden = net.read(mel, counts, tokens, torch.tensor([1]))[0]
            labels = net.score(hidden[0, tokens[0] == marker]).argmax(-1)
        told = np.array(in_order(labels.double().numpy())).reshape(-1, 2) * STEP_SECONDS
        said = np.array([(b, e) for _, b, e in clip.words]) + LEAD / SAMPLE_RATE
        found.append(told - said)
    return np.concatenate(found)
