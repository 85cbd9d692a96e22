"""Ours and transformers' on one Qwen3-VL checkpoint, asked alike: questions in, token ids out.

Both begin with normalised pixels: transformers' cut into patches already, ours to be cut, hashed
and scheduled as the engine does it. Nobody stops before an answer has its length.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.in_process.direct import run_requests
from benchmarks.in_process.vision_inputs import Question
from lookhear.engine.core.request import Priority
from lookhear.engine.models.qwen3_vl import Qwen3VLModel
from lookhear.engine.models.vision_encoder import patchify
from lookhear.engine.models.vision_weights import VisionDims
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.request import PagedRequest
from lookhear.engine.paged.runner import PagedRunner

Answers = list[list[int]]


@dataclass(frozen=True, slots=True)
class Asked:
    """first: seconds until the first token of all. read, encoded: tokens of the prompts that were
    computed, and of pictures that were encoded."""

    answers: Answers
    first: float
    read: int
    encoded: int


class Ours:
    """The engine's runner and scheduler, without sessions. rows: requests at once."""

    def __init__(
        self,
        folder: Path,
        dtype: torch.dtype = torch.float32,
        *,
        encoder_dtype: torch.dtype | None = None,
        half: bool = False,
        rows: int = 8,
        max_context: int = 2048,
        token_budget: int = 512,
    ) -> None:
        self.model = Qwen3VLModel.from_folder(
            folder, dtype=dtype, encoder_dtype=encoder_dtype, half=half
        )
        self.model.end_tokens = ()
        self._rows = rows
        self._token_budget = token_budget
        self.runner = PagedRunner(
            self.model,
            max_rows=rows,
            num_blocks=1 + rows * -(-max_context // BLOCK_TOKENS),
            max_context=max_context,
            encoder_bytes=0,
        )

    def ask(self, questions: Sequence[Question], salt: bytes) -> Asked:
        """All at once. Under a fresh salt nothing is found in a cache."""
        began = time.perf_counter()
        stats = self.runner.stats()
        wanted = [self._request(str(n), q, salt) for n, q in enumerate(questions)]
        results, first = run_requests(self.runner, wanted, self._rows, self._token_budget)
        after = self.runner.stats()
        return Asked(
            [list(result.tokens) for result in results],
            first - began,
            after["prompt_tokens_read"] - stats["prompt_tokens_read"],
            after["media_tokens_encoded"] - stats["media_tokens_encoded"],
        )

    def _request(self, key: str, question: Question, salt: bytes) -> PagedRequest:
        return PagedRequest(
            key,
            Priority.LIVE,
            question.tokens,
            ((question.start, self.model.medium(question.pixels)),),
            max_new_tokens=question.answer,
            salt=salt,
            loop_room=None,
        )


MODES = ("float32 sdpa", "float32 eager", "bfloat16 sdpa", "bfloat16 eager")


class Theirs:
    """transformers' `generate`, greedy, on a batch padded on the left. mode: one of MODES."""

    def __init__(self, folder: Path, mode: str, dims: VisionDims) -> None:
        from transformers import Qwen3VLForConditionalGeneration

        logging: Any = importlib.import_module("transformers.utils.logging")
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        precision, attention = mode.split()
        dtype: torch.dtype = getattr(torch, precision)
        network: Any = Qwen3VLForConditionalGeneration
        self._model = network.from_pretrained(folder, dtype=dtype, attn_implementation=attention)
        self._model.eval()
        self._model.generation_config.eos_token_id = None
        self._model.generation_config.pad_token_id = 0
        self._dims = dims
        self._dtype = dtype

    def inputs(self, questions: Sequence[Question]) -> dict[str, Tensor]:
        """What a processor hands over; not timed."""
        longest = max(len(q.tokens) for q in questions)
        tokens = torch.zeros(len(questions), longest, dtype=torch.int64)
        mask, kinds = torch.zeros_like(tokens), torch.zeros_like(tokens)
        for row, question in enumerate(questions):
            padding = longest - len(question.tokens)
            tokens[row, padding:] = torch.tensor(question.tokens)
            mask[row, padding:] = 1
            start = padding + question.start
            kinds[row, start : start + question.size[0] * question.size[1]] = 1
        merge = self._dims.merge
        patches = [patchify(torch.from_numpy(q.pixels), self._dims) for q in questions]
        return {
            "input_ids": tokens,
            "attention_mask": mask,
            "mm_token_type_ids": kinds,
            "pixel_values": torch.cat(patches).to(self._dtype),
            "image_grid_thw": torch.tensor(
                [[1, q.size[0] * merge, q.size[1] * merge] for q in questions]
            ),
        }

    @torch.inference_mode()
    def ask(self, inputs: dict[str, Tensor], questions: Sequence[Question]) -> Answers:
        """The batch goes on until its longest answer is there; the others are cut."""
        longest = max(q.answer for q in questions)
        out = self._model.generate(**inputs, max_new_tokens=longest, do_sample=False)
        said = out[:, inputs["input_ids"].shape[1] :].tolist()
        return [row[: q.answer] for row, q in zip(said, questions, strict=True)]
