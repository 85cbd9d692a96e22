"""Batched greedy decoding with the network in training, and its word error rate."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tools.recipes.speech.corpus import Clip, Corpus
from tools.recipes.speech.scoring import edit_distance, words_of
from tools.recipes.speech.synthesis import SAMPLE_RATE
from tools.recipes.whisper import tokenizer as tk
from tools.recipes.whisper.log_mel import LogMel
from tools.recipes.whisper.network import CompactIds, Network


@torch.no_grad()
def decode(
    net: Network, ids: CompactIds, mel: Tensor, prefix: list[int], limit: int
) -> list[list[int]]:
    """Greedy full ids after `prefix` for every window of `mel`, up to the end token."""
    table = net.embeddings()
    source = net.encoder(mel)
    start = torch.tensor(ids.to_compact(prefix))
    tokens = start[None].repeat(len(mel), 1)
    done = torch.zeros(len(mel), dtype=torch.bool)
    end = ids.compact[tk.EOT]
    for _ in range(limit):
        hidden = net.decode(tokens, source, table)[0][:, -1]
        best = net.logits(hidden, table, 1).argmax(-1)
        best = torch.where(done, torch.tensor(end), best)
        tokens = torch.cat([tokens, best[:, None]], 1)
        done |= best == end
        if bool(done.all()):
            break
    out = []
    for row in tokens[:, len(prefix) :].tolist():
        row = row[: row.index(end)] if end in row else row
        out.append([ids.full[i] for i in row])
    return out


@torch.no_grad()
def word_errors(
    net: Network,
    ids: CompactIds,
    coder: tk.TextCoder,
    corpus: Corpus,
    clips: list[Clip],
    logmel: LogMel,
    seconds: int = 6,
) -> float:
    """Corpus word error rate of transcription without timestamps, clean audio."""
    net.eval()
    wave = np.zeros((len(clips), seconds * SAMPLE_RATE), dtype=np.float32)
    for i, clip in enumerate(clips):
        x = corpus.samples(clip)
        wave[i, 3200 : 3200 + len(x)] = x[: wave.shape[1] - 3200].astype(np.float32) / 32768
    mel = logmel(torch.from_numpy(wave))
    language = tk.LANGUAGE_IDS[clips[0].language]
    rows = decode(net, ids, mel, [tk.SOT, language, tk.TRANSCRIBE, tk.NO_TIMESTAMPS], 32)
    errors = total = 0
    for clip, row in zip(clips, rows, strict=True):
        heard = words_of(coder.decode([i for i in row if i < tk.TEXT_IDS and i >= 0]))
        reference = words_of(clip.sentence.text(clip.language))
        errors += edit_distance(reference, heard)
        total += len(reference)
    net.train()
    return round(errors / total, 4)
