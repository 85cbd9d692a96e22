"""Qwen3-ForcedAligner: beside a Qwen3-ASR, in the same engine, it says when words were said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lookhear.engine.checkpoints.loader import CheckpointError, read_json
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.family import Family, Parts, chosen_dtype
from lookhear.engine.models.qwen3_aligner import Qwen3AlignerModel
from lookhear.engine.paged.runner import PagedRunner
from lookhear.engine.qwen3_asr.alignment import MARKER
from lookhear.engine.qwen3_asr.timed import Aligner
from lookhear.engine.qwen3_asr.timed_runner import TimedRunner
from lookhear.engine.tokenizers.qwen import QwenTokenizer

ARCHITECTURE = "Qwen3ASRForTokenClassification"


def is_aligner(folder: Path) -> bool:
    """Whether a checkpoint times words. The original form names the architecture of Qwen3-ASR, and
    has the size of the other head."""
    config = read_json(folder / "config.json")
    named, thinker = config.get("architectures"), config.get("thinker_config")
    if isinstance(named, list) and ARCHITECTURE in named:
        return True
    if not isinstance(thinker, dict) or thinker.get("classify_num") is None:
        return False
    return "aligner" in str(thinker.get("model_type", "aligner"))


def with_word_times(
    paged: PagedRunner,
    spoken: QwenTokenizer,
    config: EngineConfig,
    device: str,
    progress: Callable[[float], None],
) -> TimedRunner:
    """paged: runs the texts, which are of the tokenizer spoken. config.aligner: a folder. Raises
    `CheckpointError`."""
    folder = Path(config.aligner)
    if not is_aligner(folder):
        raise CheckpointError(
            f"aligner: expected a Qwen3-ForcedAligner, {folder / 'config.json'} is of none"
        )
    dtype = chosen_dtype(config.dtype, device, folder)
    model = Qwen3AlignerModel.from_folder(folder, dtype=dtype, device=device, progress=progress)
    tokenizer = QwenTokenizer.from_folder(folder)
    if (marker := tokenizer.token(MARKER)) != model.marker:
        expected = f"{marker}, as {MARKER} has it in the vocabulary"
        raise CheckpointError.of(
            folder / "config.json", "timestamp_token_id", expected, model.marker
        )
    aligner = Aligner(spoken, tokenizer, model.encoder.dims, model.step_ms)
    return TimedRunner(paged, model, aligner)


def alone(folder: Path) -> CheckpointError:
    """Why a folder with an aligner serves nobody by itself."""
    return CheckpointError(
        f"{folder}: expected a model that writes text, got an aligner, which times the words of "
        "another: --model of a Qwen3-ASR, and this one as --aligner"
    )


def build(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    """See `Family.build`; there is nothing to build."""
    raise alone(folder)


FAMILY = Family(
    name="Qwen3-ForcedAligner",
    architectures=(ARCHITECTURE,),
    build=build,
    abilities=(),
)
