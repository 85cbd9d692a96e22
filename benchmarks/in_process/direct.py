"""A Qwen3-ASR checkpoint asked without sessions: requests in, tokens out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from lookhear.engine.checkpoints.hub import resolve_checkpoint
from lookhear.engine.core.request import Cost, Phase, Priority, Result
from lookhear.engine.core.scheduler import Scheduler
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.request import Medium, PagedRequest, PagedSequence
from lookhear.engine.paged.runner import PagedRunner
from lookhear.engine.qwen3_asr.features import GrowingLogMel
from lookhear.engine.qwen3_asr.prompt import build_prompt
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from lookhear.kernels import default_cpu_dtype


class Direct:
    """One checkpoint with a paged runner of its own.

    dtype: as in `EngineConfig`. max_context: tokens of one request. rows: requests at once.
    token_budget: tokens read in one pass. encoder_bytes: of the encoder cache, 0 for none.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        dtype: str = "float32",
        max_context: int = 4096,
        rows: int = 1,
        token_budget: int = 512,
        encoder_bytes: int = 0,
    ) -> None:
        folder = resolve_checkpoint(model)
        precision = default_cpu_dtype() if dtype == "auto" else getattr(torch, dtype)
        self.model = Qwen3AsrModel.from_folder(folder, dtype=precision)
        self.tokenizer = QwenTokenizer.from_folder(folder)
        self._max_context = max_context
        self._rows = rows
        self._token_budget = token_budget
        self.runner = PagedRunner(
            self.model,
            max_rows=rows,
            num_blocks=1 + rows * -(-max_context // BLOCK_TOKENS),
            max_context=max_context,
            encoder_bytes=encoder_bytes,
        )

    def request(
        self,
        key: str,
        samples: NDArray[np.float32],
        *,
        prefix: Sequence[int] = (),
        context: str = "",
        salt: bytes = b"",
        max_new_tokens: int = 64,
        guard_loops: bool = True,
    ) -> PagedRequest:
        """One question about a whole clip: its log-mel and all its windows, computed here and now.

        samples: at least half a second. prefix: forced tokens of the answer, header included.
        """
        dims = self.model.encoder.dims
        mel = GrowingLogMel(dims.num_mels)
        mel.update(samples)
        loudest, media = mel.loudest(), []
        for first in range(0, mel.num_frames, dims.window_frames):
            last = min(first + dims.window_frames, mel.num_frames)
            media.append(Medium.of(mel.read(first, last, loudest), dims.num_tokens(last - first)))
        count = sum(medium.num_tokens for medium in media)
        prompt = build_prompt(self.tokenizer, count, context=context, prefix=prefix)
        places, at = [], prompt.audio_start
        for medium in media:
            places.append((at, medium))
            at += medium.num_tokens
        return PagedRequest(
            key=key,
            priority=Priority.LIVE,
            tokens=tuple(prompt.tokens),
            media=tuple(places),
            max_new_tokens=max_new_tokens,
            salt=salt,
            loop_room=0 if guard_loops else None,
        )

    def run(self, requests: Sequence[PagedRequest]) -> list[Result]:
        """Results in the order of the requests; RuntimeError if one of them fails."""
        return run_requests(self.runner, requests, self._rows, self._token_budget)[0]


def run_requests(
    runner: PagedRunner, requests: Sequence[PagedRequest], rows: int, token_budget: int
) -> tuple[list[Result], float]:
    """All at once: results in the order of the requests, and when (time.perf_counter) the first
    token of any was there. RuntimeError if one of them fails."""
    scheduler = Scheduler(rows, 1, max(token_budget, rows + 1))
    wanted = {request.key: request for request in requests}
    running: dict[str, PagedSequence] = {}
    results: dict[str, Result] = {}
    first = 0.0
    for request in requests:
        scheduler.want(request.key, request.priority, Cost(0, request.reserved_tokens))
    while len(results) < len(wanted):
        for key in scheduler.admit(runner.free_tokens):
            running[key] = runner.place(wanted[key])
        shares = scheduler.share({key: s.demand() for key, s in running.items()})
        failures = runner.launch([(running[k], n) for k, n in shares.items()])()
        if failures:
            raise RuntimeError(failures[0].message)
        if not first and any(s.generated.tokens for s in running.values()):
            first = time.perf_counter()
        for key in [key for key, s in running.items() if s.phase is Phase.DONE]:
            sequence = running.pop(key)
            results[key] = sequence.result()
            runner.release(sequence)
            scheduler.finish(key)
    return [results[request.key] for request in requests], first
