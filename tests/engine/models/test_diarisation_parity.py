"""Our Nemotron-3-Diarization and transformers' on the same random checkpoints: the same numbers,
of whole files and of what is heard in pieces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from lookhear.engine.check.speakers import scored
from lookhear.engine.checkpoints.loader import CheckpointError, read_json
from lookhear.engine.diarisation.speaker_cache import (
    Chunking,
    SpeakerCache,
    read_live_chunking,
    read_rules,
)
from lookhear.engine.messages import DiariseFile, FileDiarised
from lookhear.engine.models.frames import (
    HOP,
    frame_filters,
    log_mel_frames,
    num_final,
    num_frames,
    stretch,
)
from lookhear.engine.models.nemotron3_diarisation import DiarisationModel
from tests.engine.playing import drain, make_core
from tools.random_checkpoints.diarisation import build_random_diariser

TOLERANCE = 1e-4
EMPHASIS = 0.97
CPU = torch.device("cpu")


def speech(seconds: float, seed: int = 0) -> NDArray[np.float32]:
    """Noise whose loudness changes twice a second."""
    draw = np.random.default_rng(seed)
    count = round(seconds * 16_000)
    loud = np.repeat(draw.uniform(0, 2, count // 8000 + 1), 8000)[:count]
    return (0.1 * loud * draw.standard_normal(count)).astype(np.float32)


def transformers_of(folder: Path) -> tuple[Any, Any]:
    from transformers import (
        Nemotron3DiarizationForAudioFrameClassification,
        Nemotron3DiarizationProcessor,
    )

    model: Any = Nemotron3DiarizationForAudioFrameClassification.from_pretrained(folder)
    return model.eval(), Nemotron3DiarizationProcessor.from_pretrained(folder)


@torch.inference_mode()
def whole(folder: Path, samples: NDArray[np.float32]) -> torch.Tensor:
    """Theirs, [frames, speakers] logits."""
    model, processor = transformers_of(folder)
    inputs = processor(samples, sampling_rate=16_000, return_tensors="pt")
    logits: torch.Tensor = model(**inputs).logits[0, : num_frames(len(samples))]
    return logits


def frames_of(samples: NDArray[np.float32], first: int, end: int, begin: int = 0) -> torch.Tensor:
    piece = stretch(samples[begin:], first, end, begin=begin, emphasis=EMPHASIS)
    return log_mel_frames(torch.from_numpy(piece), frame_filters(128, torch.float32, CPU))


class Ours:
    """One recording, a chunk at a time."""

    def __init__(self, folder: Path, chunking: Chunking) -> None:
        path = folder / "config.json"
        self.model = DiarisationModel.from_folder(folder)
        self.rules, _ = read_rules(read_json(path), path)
        silence, stack = self.model.weights.silence, self.model.dims.stack
        self.cache = SpeakerCache(self.rules, chunking, silence, stack)

    def read(self, places: torch.Tensor, behind: int, chunk: int) -> torch.Tensor:
        remembered = self.cache.places
        read = torch.cat([remembered, places])
        logits = self.model.score(read)
        self.cache.update(read, logits, behind, chunk)
        first = (len(remembered) + behind) * 8
        return logits[first : first + 8 * chunk]


def test_frames_are_theirs_whatever_stretch_of_them(tmp_path: Path) -> None:
    _, processor = transformers_of(build_random_diariser(tmp_path))
    samples = speech(3.03)
    theirs = processor(samples, sampling_rate=16_000, return_tensors="pt").input_features[0]
    count = num_frames(len(samples))
    torch.testing.assert_close(frames_of(samples, 0, count), theirs[:count], atol=1e-4, rtol=0)
    for first, end, begin in [(0, 1, 0), (7, 20, 0), (100, 130, 15_000), (290, count, 40_000)]:
        piece = frames_of(samples, first, end, begin)
        torch.testing.assert_close(piece, theirs[first:end], atol=1e-4, rtol=0)
    # Frames that are final are so whatever follows.
    heard = samples[:20_001]
    final = num_final(len(heard))
    assert final > 0
    torch.testing.assert_close(
        frames_of(heard, 0, final), frames_of(samples, 0, final), atol=1e-5, rtol=0
    )


@pytest.mark.parametrize(("seconds", "behind"), [(30.03, 0), (30.03, 3), (8.0, 0), (0.05, 0)])
def test_whole_files(tmp_path: Path, seconds: float, behind: int) -> None:
    folder = build_random_diariser(tmp_path, behind=behind)
    samples = speech(seconds)
    theirs = whole(folder, samples)
    logits = scored(folder, samples)
    assert len(logits) == len(theirs)
    if len(theirs) % 8 == 0:  # behind a whole last place they have one of padding, and look at it
        logits, theirs = logits[:-8], theirs[:-8]
    torch.testing.assert_close(logits, theirs, atol=TOLERANCE, rtol=TOLERANCE)
    if seconds > 10:
        share = (theirs > 0).float().mean(0)
        assert ((share > 0.05) & (share < 0.95)).any(), "speakers come and go"


@torch.inference_mode()
@pytest.mark.parametrize("mode", ["low_latency", "ultra_low_latency"])
def test_what_is_heard_in_pieces(tmp_path: Path, mode: str) -> None:
    folder = build_random_diariser(tmp_path, seed=2)
    samples = speech(20.0, seed=3)
    model, processor = transformers_of(folder)
    processor.set_streaming_mode(mode)
    step = processor.num_mel_frames_per_step
    cache, theirs, at, first = None, [], 0, True
    while True:
        start = 0 if first else processor.audio_chunk_start(at)
        size = (
            processor.num_samples_first_audio_chunk
            if first
            else processor.num_samples_per_audio_chunk
        )
        is_last = start + size >= len(samples)
        inputs = processor(
            samples[start : start + size],
            sampling_rate=16_000,
            is_streaming=True,
            is_first_audio_chunk=first,
            is_last_audio_chunk=is_last,
            return_tensors="pt",
        )
        # Theirs emphasises the first sample of a piece as if nothing was in front of it.
        end = at + inputs["input_features"].shape[1]
        inputs["input_features"] = frames_of(samples, at, end)[None]
        told = model(**inputs, speaker_cache=cache)
        cache, first = told.speaker_cache, False
        theirs.append(told.logits[0])
        at += step
        if is_last:
            break
    expected = torch.cat(theirs)

    path = folder / "config.json"
    sizes = processor.streaming_modes[mode]
    cut = read_live_chunking(read_json(path), path, tuple(sizes))
    ours = Ours(folder, cut)
    places = ours.model.embed(frames_of(samples, 0, num_frames(len(samples))))
    found, at = [], 0
    while at < len(places):
        is_last = at + cut.chunk + cut.ahead > len(places)
        count = len(places) - at if is_last else cut.chunk
        seen = places[at : at + count + (0 if is_last else cut.ahead)]
        found.append(ours.read(seen, 0, count))
        at += count
    logits = torch.cat(found)[: len(expected)]
    torch.testing.assert_close(logits, expected, atol=TOLERANCE, rtol=TOLERANCE)


def test_an_engine_says_what_transformers_does(tmp_path: Path) -> None:
    folder = build_random_diariser(tmp_path)
    samples = speech(30.03)
    core = make_core(folder)
    # Another recording beside it changes nothing.
    core.submit(DiariseFile("a", "m", samples))
    core.submit(DiariseFile("b", "m", speech(7.0, seed=5)))
    events = {event.request: event for event in drain(core) if isinstance(event, FileDiarised)}
    _, processor = transformers_of(folder)
    (theirs,) = processor.extract_speaker_dict(whole(folder, samples)[None])
    found = [
        {"Start": turn.start, "End": turn.end, "Speaker": turn.speaker}
        for turn in events["a"].turns
    ]
    assert found == theirs and len(theirs) > 10
    assert events["b"].turns[-1].end <= 7.0


def test_a_model_that_is_none_says_what_is_wrong(tmp_path: Path) -> None:
    folder = build_random_diariser(tmp_path)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"num_speakers": 30}, "speaker_cache_length: expected at least 60"),
        ({"num_speakers": 3}, "num_speakers: expected 4 in both"),
        ({"weak_boost_rate": "much"}, "weak_boost_rate: expected a number"),
    ]
    for change, said in wrong:
        streaming = {**config["streaming_config"], **change}
        path.write_text(json.dumps({**config, "streaming_config": streaming}))
        with pytest.raises(CheckpointError, match=said):
            make_core(folder)
    path.write_text(json.dumps(config))
    sound = folder / "processor_config.json"
    told = json.loads(sound.read_text())
    told["feature_extractor"]["hop_length"] = HOP // 2
    sound.write_text(json.dumps(told))
    with pytest.raises(CheckpointError, match="hop_length: expected 160"):
        make_core(folder)
