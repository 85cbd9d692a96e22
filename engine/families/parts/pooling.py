"""What families have in common whose checkpoints make vectors, or say what belongs together."""

from __future__ import annotations

from pathlib import Path

from lookhear.engine.adapters.adapters import Adapters
from lookhear.engine.chat.prompt import ChatPrompter
from lookhear.engine.chat.remote_tower import RemoteTower
from lookhear.engine.checkpoints.sentence_modules import SentenceModules
from lookhear.engine.config import EngineConfig
from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.pooling.desk import PoolingDesk
from lookhear.engine.pooling.job import Reading, Scoring
from lookhear.engine.pooling.prompt import PoolingPrompter
from lookhear.engine.tokenizers.qwen import QwenTokenizer

STEPS_AHEAD = 4  # of one request for vectors: so many full steps are under way


def judging_words(folder: Path) -> tuple[int, ...]:
    """Ids of "yes" and "no", whose rows of the head say how a model judges; (): they are none."""
    tokenizer = QwenTokenizer.from_folder(folder)
    words = [tokenizer.word(spelling) for spelling in ("yes", "no")]
    return tuple(word for word in words if word is not None) if None not in words else ()


def pooling_desk(
    config: EngineConfig,
    prompter: ChatPrompter,
    decoder: Qwen3Model,
    modules: SentenceModules | None,
    adapters: Adapters | None = None,
    tower: RemoteTower | None = None,
) -> tuple[PoolingDesk, tuple[str, ...]]:
    """The desk, and what the checkpoint lacks of what such families can do. modules: of one that
    was made for vectors; its matrices are the decoder's from now on."""
    width, judge, lacks = decoder.dims.width, None, []
    rows = decoder.weights.kept.numpy()
    if modules is not None:
        decoder.projections = [
            (weight.to(decoder.device), None if bias is None else bias.to(decoder.device))
            for weight, bias in modules.projections
        ]
        if modules.projections:
            width = len(modules.projections[-1][0])
        scoring = Scoring.MAX_SIMILARITY if modules.is_late else Scoring.COSINE
    elif len(rows):
        scoring, judge = Scoring.JUDGE, rows[0] - rows[1] if len(rows) == 2 else rows[0]
        if len(rows) == 1:  # a head of its own, which has learnt nothing else
            lacks.append("embed")
    else:
        scoring = Scoring.COSINE
    if not decoder.writes or modules is not None:
        lacks.append("chat")
    reading = Reading(scoring, width, normalises=modules is None or modules.normalises, judge=judge)
    prompts = {} if modules is None else modules.prompts
    pooling = PoolingPrompter(prompter, prompts, decoder.dims.vocab)
    desk = PoolingDesk(
        config.name,
        pooling,
        reading,
        at_once=config.max_rows,
        tokens_at_once=STEPS_AHEAD * config.token_budget,
        adapters=adapters,
        tower=tower,
    )
    return desk, tuple(lacks)
