"""Voxtral: chats about what it hears."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lookhear.engine.chat.recordings import RecordingStore
from lookhear.engine.chat.template import ChatTemplate
from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.family import Family, Parts, linear_dtype
from lookhear.engine.families.parts.adapting import adapters_of
from lookhear.engine.families.parts.chat import chat_parts, media_loading
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from lookhear.engine.tokenizers.tekken import FILE, read_tekken
from lookhear.engine.voxtral_chat.graphs import window_graphs
from lookhear.engine.voxtral_chat.model import VoxtralChatModel, module_name
from lookhear.engine.voxtral_chat.sound import PaddedEars
from lookhear.engine.voxtral_chat.template import BEGIN, PAD, TEMPLATE


def build(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    """See `Family.build`."""
    linears = linear_dtype(config.dtype, device)
    model = VoxtralChatModel.from_folder(
        folder, linears=linears, **media_loading(config, folder, device, progress, linears)
    )
    return chat_parts(
        config,
        folder,
        device,
        model,
        tokenizer=read_words(folder, model),
        template=ChatTemplate.from_folder(folder, TEMPLATE),
        linears=linears,
        recordings=RecordingStore(PaddedEars(model.dims), PAD),
        media_parts=1,
        graphs=lambda acceleration: window_graphs(model, acceleration),
        adapters=adapters_of(config, model.decoder, model.ears, model.tower, module_name),
    )


def read_words(folder: Path, model: VoxtralChatModel) -> QwenTokenizer:
    """Of tekken.json, or of tokenizer.json where a folder was saved anew. Raises
    `CheckpointError`."""
    if (folder / FILE).is_file() or not (folder / "tokenizer.json").is_file():
        tokenizer = read_tekken(folder, model.decoder.dims.vocab)
    else:
        tokenizer = QwenTokenizer.from_folder(folder)
    tokenizer.token(BEGIN)
    if (got := tokenizer.token(PAD)) != model.audio_token:
        raise CheckpointError.of(folder, "audio_token_id", f"{got}, {PAD}", model.audio_token)
    return tokenizer


FAMILY = Family(
    name="Voxtral",
    architectures=("VoxtralForConditionalGeneration",),
    build=build,
    rounds_cache=True,
    abilities=("chat", "audio", "adapters"),
)
