"""What a diariser remembers of who has spoken: places of the recording that stand before a chunk.

    | cache: the best places of each speaker | latest: the last ones, as they came | chunk | ahead |

What is read of a chunk goes to the latest; when those are too many, the oldest of them go to the
cache, and when that is full it keeps the places that tell most about each speaker (arrival-order
speaker cache of the streaming Sortformer). Its size is fixed, so a recording may be as long as it
likes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointError, section, whole_number

INFINITY = float("inf")


@dataclass(frozen=True, slots=True)
class Chunking:
    """In places. ahead, behind: of the recording, that a chunk sees beside itself. latest: kept as
    they came. moved: of them, at least, when they are too many."""

    chunk: int
    ahead: int
    behind: int
    latest: int
    moved: int


@dataclass(frozen=True, slots=True)
class CacheRules:
    """places: of the cache. silent: of them, for each speaker, where nobody speaks. floor: of a
    probability. newer: what a new place counts more. The last three are shares of a speaker's
    part of the cache: places that count much more and more, and that are enough without those in
    which others speak too."""

    speakers: int
    places: int
    silent: int
    floor: float
    newer: float
    strong: float
    weak: float
    enough: float

    @property
    def budget(self) -> int:
        """Places of each speaker."""
        return self.places // self.speakers - self.silent


def read_rules(config: Mapping[str, Any], source: Path) -> tuple[CacheRules, Chunking]:
    """And how a whole file is cut, of a parsed config.json. Raises `CheckpointError`."""
    rules = section(config, "streaming_config", source)

    def share(key: str, usual: float) -> float:
        value = rules.get(key, usual)
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise CheckpointError.of(source, key, "a number >= 0", value)
        return float(value)

    def count(key: str, usual: int, of: Mapping[str, Any] = config) -> int:
        value = of.get(key, usual)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise CheckpointError.of(source, key, "a whole number >= 0", value)
        return value

    cache = CacheRules(
        speakers=whole_number(rules, source, "num_speakers"),
        places=whole_number(rules, source, "speaker_cache_length"),
        silent=count("speaker_cache_silence_frames_per_speaker", 1, rules),
        floor=share("prediction_score_threshold", 0.25),
        newer=share("latest_frames_score_boost", 0.05),
        strong=share("strong_boost_rate", 0.75),
        weak=share("weak_boost_rate", 1.5),
        enough=share("min_positive_scores_rate", 0.5),
    )
    if cache.budget < 1:
        least = (1 + cache.silent) * cache.speakers
        got = cache.places
        raise CheckpointError.of(source, "speaker_cache_length", f"at least {least}", got)
    chunking = Chunking(
        chunk=whole_number(config, source, "chunk_length"),
        ahead=count("chunk_right_context", 40),
        behind=count("chunk_left_context", 0),
        latest=whole_number(config, source, "fifo_length"),
        moved=whole_number(config, source, "speaker_cache_update_period"),
    )
    return cache, chunking


def read_live_chunking(config: Mapping[str, Any], source: Path, sizes: tuple[int, int]) -> Chunking:
    """How a live recording is cut. sizes: places of a chunk, and ahead of it."""
    rules = section(config, "streaming_config", source)
    latest = whole_number(rules, source, "fifo_length")
    moved = whole_number(rules, source, "speaker_cache_update_period")
    return Chunking(*sizes, 0, latest, moved)


class SpeakerCache:
    """Of one recording. silence: [width], a place where nobody speaks. stack: frames of a place.
    Nothing here waits for the device."""

    def __init__(self, rules: CacheRules, chunking: Chunking, silence: Tensor, stack: int) -> None:
        self._rules, self._chunking, self._stack = rules, chunking, stack
        self._silence = silence
        self._places = silence.new_zeros(0, len(silence))
        self._probabilities = silence.new_zeros(0, rules.speakers, dtype=torch.float32)
        self._latest = self._places
        self._is_compressed = False

    @property
    def places(self) -> Tensor:
        """[n, width] that stand before the next chunk."""
        return torch.cat([self._places, self._latest])

    def update(self, read: Tensor, logits: Tensor, behind: int, chunk: int) -> None:
        """read: [n, width], `places`, then so many behind and of the chunk, then those ahead.
        logits: [n * stack, speakers] of all of them."""
        kept, latest = len(self._places), len(self._latest)
        begin = kept + latest + behind
        told = logits.sigmoid().view(-1, self._stack, self._rules.speakers).mean(1)
        queue = torch.cat([self._latest, read[begin : begin + chunk]])
        moved = 0
        if len(queue) > self._chunking.latest:
            over = len(queue) - self._chunking.latest
            moved = min(max(self._chunking.moved, over), len(queue))
            recent = torch.cat([told[kept : kept + latest], told[begin : begin + chunk]])
            # While the cache is in order, what is known of its places is known better now.
            known = self._probabilities if self._is_compressed else told[:kept]
            self._places = torch.cat([self._places, queue[:moved]])
            self._probabilities = torch.cat([known, recent[:moved]])
            if len(self._places) > self._rules.places:
                self._compress()
                self._is_compressed = True
        self._latest = queue[moved:].clone()

    def _compress(self) -> None:
        """Keeps the places that tell most, by speaker, of each in their order."""
        rules, count = self._rules, len(self._places)
        scores = self._scores(self._probabilities)
        scores[rules.places :] += rules.newer
        scores = _raised(scores, math.floor(rules.budget * rules.strong), 2 * math.log(2))
        scores = _raised(scores, math.floor(rules.budget * rules.weak), math.log(2))
        scores = F.pad(scores, (0, 0, 0, rules.silent), value=INFINITY)
        scored = len(scores)
        best = torch.topk(scores.T.flatten(), rules.places, sorted=False)
        nobody = scored * rules.speakers
        chosen = best.indices.masked_fill(best.values == -INFINITY, nobody).sort().values
        # The place behind the last one is that of silence.
        at = torch.where(chosen == nobody, count, (chosen % scored).clamp(max=count))
        self._places = torch.cat([self._places, self._silence[None]])[at]
        self._probabilities = F.pad(self._probabilities, (0, 0, 0, 1))[at]

    def _scores(self, p: Tensor) -> Tensor:
        """How much a place tells of a speaker: [n, speakers]; -inf where they do not speak."""
        speaks = p.clamp(min=self._rules.floor).log()
        silent = (1.0 - p).clamp(min=self._rules.floor).log()
        scores = speaks - silent + silent.sum(-1, keepdim=True) + math.log(2)
        is_speech = p > 0.5
        scores = scores.masked_fill(~is_speech, -INFINITY)
        is_alone = scores > 0
        enough = math.floor(self._rules.budget * self._rules.enough)
        has_enough = is_alone.sum(0, keepdim=True) >= enough
        return scores.masked_fill(~is_alone & is_speech & has_enough, -INFINITY)


def _raised(scores: Tensor, count: int, by: float) -> Tensor:
    """The best of each speaker count more."""
    best = torch.topk(scores, count, dim=0, sorted=False).indices
    return scores.scatter_add(0, best, scores.new_full(best.shape, by))
