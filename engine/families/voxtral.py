"""Voxtral: chats about what it hears, or writes it down."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from lookhear.engine.chat.recordings import RecordingStore
from lookhear.engine.chat.template import ChatTemplate
from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.checkpoints.traits import Traits
from lookhear.engine.config import EngineConfig
from lookhear.engine.core.desks import Desks
from lookhear.engine.families.family import Family, Parts, linear_dtype
from lookhear.engine.families.parts.adapting import adapters_of
from lookhear.engine.families.parts.chat import chat_parts, media_loading
from lookhear.engine.families.parts.speech import Caution, live_config
from lookhear.engine.speech.desk import SPEECH_MESSAGES, SpeechDesk
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from lookhear.engine.tokenizers.tekken import FILE, read_tekken
from lookhear.engine.voxtral_chat.graphs import window_graphs
from lookhear.engine.voxtral_chat.model import VoxtralChatModel, module_name
from lookhear.engine.voxtral_chat.sound import PaddedEars
from lookhear.engine.voxtral_chat.template import BEGIN, PAD, TEMPLATE
from lookhear.engine.voxtral_chat.transcriber import (
    TRANSCRIBE,
    Dictation,
    dictation_transcriber,
)

log = logging.getLogger(__name__)

SEGMENT_SECONDS = 14.0  # an open segment is cut there
ROLL_SECONDS = 6.0  # beyond it any pause of 0.7 s begins another
# Nobody could try it on people here: as for models whose words have no times and no earlier speech
# to lean on.
CAUTION = Caution(evidence=0.75, doubt=0.25, shares=((0.5, 0.0), (0.0, 1.0)))


def build(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    """See `Family.build`."""
    linears = linear_dtype(config.dtype, device)
    model = VoxtralChatModel.from_folder(
        folder, linears=linears, **media_loading(config, folder, device, progress, linears)
    )
    words = read_words(folder, model)
    ears = PaddedEars(model.dims)
    adapters = adapters_of(config, model.decoder, model.ears, model.tower, module_name)
    parts = chat_parts(
        config,
        folder,
        device,
        model,
        tokenizer=words,
        template=ChatTemplate.from_folder(folder, TEMPLATE),
        linears=linears,
        recordings=RecordingStore(ears, PAD),
        media_parts=1,
        graphs=lambda acceleration: window_graphs(model, acceleration),
        adapters=adapters,
    )
    if TRANSCRIBE not in words.added:
        return replace(parts, lacks=(*parts.lacks, "transcribe"))
    dictation = Dictation.of(words, ears, adapters)
    cap = config.max_segment_seconds or SEGMENT_SECONDS
    live = live_config(config, Traits.from_folder(folder), CAUTION, cap=cap, roll=ROLL_SECONDS)
    # An open segment may grow by the search for a quiet place before it is cut.
    wanted = dictation.most_tokens(live.cap + 2 * live.search + live.lead_in)
    if wanted > parts.context_tokens:
        log.warning(
            "max_context_tokens: %s does not transcribe: it wants %d for a segment, got %d",
            config.name, wanted, parts.context_tokens,
        )  # fmt: skip
        return replace(parts, lacks=(*parts.lacks, "transcribe"))
    transcriber = dictation_transcriber(dictation, live)
    # Nobody is refused for the lag of others: answers are written beside, for as long as they are.
    speech = SpeechDesk(config.name, transcriber, config.max_live_turns)
    desk = Desks(parts.desk, dict.fromkeys(SPEECH_MESSAGES, speech))
    return replace(parts, desk=desk, languages=transcriber.languages)


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
    abilities=("transcribe", "chat", "audio", "adapters", "prompt_embeds"),
)
