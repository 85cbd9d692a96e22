"""A runner of a small random Qwen3 with a head on it, whose drafts are written down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lookhear.engine.core.request import Priority
from lookhear.engine.device.acceleration import CPU, Acceleration
from lookhear.engine.eagle3.config import LargeModel
from lookhear.engine.eagle3.head import Eagle3Head
from lookhear.engine.eagle3.passes import HeadPasses
from lookhear.engine.models.qwen3 import Qwen3ChatModel, Qwen3Model
from lookhear.engine.paged.draft_model import ModelDrafter
from lookhear.engine.paged.request import PagedRequest, PagedSequence
from lookhear.engine.paged.runner import PagedRunner
from tests.engine.eagle3.reference import ReferenceHead, model_states
from tests.engine.runners import quiet
from tools.random_checkpoints.eagle3 import build_random_eagle3, silence
from tools.random_checkpoints.qwen3 import END_TOKENS, TEXT, build_random_qwen3

VOCAB = TEXT["vocab_size"]
LAYERS = 8  # of the large model: the head reads what goes into 2, 4 and 5


class Watched(ModelDrafter):
    """seen: of each request, contexts and what was drafted behind them."""

    def __init__(self, network: HeadPasses, num_blocks: int) -> None:
        super().__init__(network, num_blocks)
        self.seen: dict[str, list[tuple[list[int], list[int]]]] = {}

    def draft(self, sequences: Sequence[PagedSequence]) -> None:
        ModelDrafter.draft(self, sequences)
        for sequence in sequences:
            reader = self._readers.get(sequence.key)
            if reader is not None and reader.draft and reader.length == len(sequence.context):
                pair = list(sequence.context), list(reader.draft)
                self.seen.setdefault(sequence.key, []).append(pair)


@dataclass
class Headed:
    """theirs: transformers' large model. drafts: of the last runner that was made."""

    large: Path
    folder: Path
    theirs: Any
    reference: ReferenceHead
    drafts: dict[str, list[tuple[list[int], list[int]]]] = field(default_factory=dict)

    def head(self, decoder: Qwen3Model) -> Eagle3Head:
        large = LargeModel(self.large, ("Qwen3ForCausalLM",), decoder.dims, decoder.vocab)
        return Eagle3Head.from_folder(self.folder, large, decoder)

    def runner(
        self, acceleration: Acceleration = CPU, *, is_drafted: bool = True, num_blocks: int = 120
    ) -> PagedRunner:
        """All that nobody has written is poison."""
        decoder = Qwen3Model.from_folder(self.large)
        head = self.head(decoder)
        decoder.tap = head.tap
        model = Qwen3ChatModel(decoder, END_TOKENS)
        runner = PagedRunner(
            model,
            max_rows=6,
            num_blocks=num_blocks,
            max_context=320,
            encoder_bytes=0,
            media_parts=0,
            acceleration=acceleration,
        )
        assert runner.cache.features is not None
        runner.cache.layers[0].fill_(torch.nan)
        runner.cache.features.fill_(torch.nan)
        runner.capture(quiet)
        if is_drafted:
            network = HeadPasses(head, runner.cache, runner.rows)
            network._cache.layers[0].fill_(torch.nan)
            runner.drafter = watched = Watched(network, num_blocks)
            self.drafts = watched.seen
        return runner

    def check_drafts(self, key: str) -> int:
        """All that was drafted for a request is what the reference guesses. Returns how many."""
        contexts, drafts = map(list, zip(*self.drafts[key], strict=True))
        longest = max(contexts, key=len)  # the others are its beginning
        assert all(context == longest[: len(context)] for context in contexts)
        states = model_states(self.theirs, longest[:-1], (2, 4, 5))
        with torch.no_grad():
            features = self.reference.features(states)
        known = [features[: len(context) - 1] for context in contexts]
        assert self.reference.agrees(contexts, known, drafts)
        return sum(map(len, drafts))


def build_headed(folder: Path, *, silent_from: int | None = None, **head: Any) -> Headed:
    """silent_from: layers of the large model from that one on add nothing, nor does any layer's
    attention."""
    large, own = folder / "large", folder / "head"
    theirs = build_random_qwen3(large, num_hidden_layers=LAYERS, seed=3)
    if silent_from is not None:
        silence(theirs.model, silent_from)
        for layer in theirs.model.layers:
            layer.self_attn.o_proj.weight.data.zero_()
        theirs.save_pretrained(large)
    tensors = build_random_eagle3(own, large, **{"says": 100, "seed": 4, **head})
    embeddings = theirs.model.embed_tokens.weight.detach()
    reference = ReferenceHead(own, tensors, embeddings, embeddings)
    return Headed(large, own, theirs, reference)


def request(key: str, count: int = 30, seed: int = 0, **changes: Any) -> PagedRequest:
    tokens = changes.pop("tokens", None)
    if tokens is None:
        tokens = tuple(np.random.default_rng(seed).integers(0, 140, count).tolist())
    values = {"max_new_tokens": 24, "loop_room": None, "model_ends": False, **changes}
    return PagedRequest(key, Priority.LIVE, tokens, **values)
