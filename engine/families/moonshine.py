"""Moonshine: small models of one language each, whose encoder reads as much audio as there is."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.checkpoints.traits import Traits
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.family import Family, Parts, chosen_dtype, half_decoder
from lookhear.engine.families.parts.speech import Caution, live_config, speech_parts
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.moonshine.decoder import MoonshineDecoder
from lookhear.engine.moonshine.model import MoonshineModel
from lookhear.engine.moonshine.recognizer import moonshine_transcriber
from lookhear.engine.moonshine.runner import MoonshineRunner
from lookhear.engine.tokenizers.pieces import PieceTokenizer

SEGMENT_SECONDS = 14.0  # an open segment is cut there; each look encodes all of it
ROLL_SECONDS = 6.0  # beyond it any pause of 0.7 s begins another
PIECE_SECONDS = 20.0  # of a file: it was trained on up to 30 s
ROOM_SECONDS = 3.0  # that a segment may grow by until it is cut
LEAST_SECONDS = 4.0  # of a segment: less is no sentence
# Nobody could try it on people here: as for models whose words have no times and no earlier speech
# to lean on.
CAUTION = Caution(evidence=0.75, doubt=0.25, shares=((0.5, 0.0), (0.0, 1.0)))


def build(
    config: EngineConfig, folder: Path, device: str, progress: Callable[[float], None]
) -> Parts:
    """See `Family.build`."""
    dtype = chosen_dtype(config.dtype, device, folder)
    model = MoonshineModel.from_folder(
        folder,
        dtype=dtype,
        half=half_decoder(config.dtype, device, folder),
        device=device,
        progress=progress,
    )
    return moonshine_parts(config, folder, device, model)


def moonshine_parts(
    config: EngineConfig,
    folder: Path,
    device: str,
    model: MoonshineDecoder,
    *,
    reach: int | None = None,
    most: float = math.inf,
) -> Parts:
    """reach: see `MoonshineRecognizer`. most: seconds of audio that the checkpoint knows places
    for."""
    room = most - ROOM_SECONDS
    if room < LEAST_SECONDS:
        raise CheckpointError(
            f"{folder}: expected places for {LEAST_SECONDS + ROOM_SECONDS:g} s of audio at least, "
            f"got some for {most:.1f} s"
        )
    tokenizer = PieceTokenizer.from_folder(folder, model.dims.vocab)
    live = live_config(
        config,
        Traits.from_folder(folder),
        CAUTION,
        cap=min(config.max_segment_seconds or SEGMENT_SECONDS, room),
        roll=ROLL_SECONDS,
    )
    piece = max(round(min(PIECE_SECONDS, room) * SAMPLE_RATE), live.cap)
    # An open segment may grow by the search for a quiet place before it is cut.
    longest = piece + 2 * live.search + live.lead_in
    transcriber = moonshine_transcriber(model, tokenizer, live, piece, reach)
    runner = MoonshineRunner(model, config.max_rows, longest)
    num, dtype = model.num_parameters, model.dtype
    return speech_parts(config, transcriber, runner, num, dtype, longest, device)


FAMILY = Family(
    name="Moonshine",
    architectures=("MoonshineForConditionalGeneration",),
    build=build,
    abilities=("transcribe",),
    # A row of the base model has 13 MB of its own for 22 s of audio, in bfloat16.
    card_rows=64,
)
