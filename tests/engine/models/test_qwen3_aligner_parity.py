"""Our Qwen3-ForcedAligner and transformers' on the same random checkpoints: the same numbers, and
the same times of the same words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.models.qwen3_aligner import STEP_MS, Qwen3AlignerModel
from lookhear.engine.paged.encoder_cache import EncoderCache
from lookhear.engine.qwen3_asr.alignment import (
    AlignedWord,
    aligned_words,
    alignment_prompt,
    read_alignment,
)
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from lookhear.kernels import log_mel, mel_filters
from lookhear.kernels.log_mel import HOP
from tools.random_checkpoints.qwen3 import AUDIO, build_random_qwen3_aligner

TOLERANCE = 1e-4
SAID = 'Don\'t stop, 2 of 你好 (they) said: "no"!'
# As the published checkpoints' templates put it.
TEMPLATE = (
    "{%- set ns = namespace(audio='', words=[]) -%}"
    "{%- for part in messages[0].content -%}"
    "{%- if part.type == 'text' -%}{%- set ns.words = ns.words + [part.text] -%}"
    "{%- else -%}{%- set ns.audio = '<|audio_start|><|audio_pad|><|audio_end|>' -%}{%- endif -%}"
    "{%- endfor -%}"
    "{{- ns.audio + ns.words | join('<timestamp><timestamp>') + '<timestamp><timestamp>' -}}"
)


@dataclass(frozen=True)
class Pair:
    folder: Path
    ours: Qwen3AlignerModel
    theirs: Any
    tokenizer: QwenTokenizer

    def prompt(self, text: str, samples: Tensor) -> tuple[list[int], Tensor]:
        """Tokens and log-mel of ours."""
        dims = self.ours.encoder.dims
        mel = log_mel(samples[None], mel_filters(dims.num_mels))[0]
        count = dims.num_tokens(mel.shape[1])
        return alignment_prompt(self.tokenizer, aligned_words(text), count), mel

    def times(self, text: str, logits: Tensor) -> list[AlignedWord]:
        labels = logits.argmax(-1).tolist()
        return read_alignment(aligned_words(text), labels, self.ours.step_ms)

    def processor(self) -> Any:
        from transformers import (
            AutoTokenizer,
            Qwen3ASRFeatureExtractor,
            Qwen3ASRProcessor,
        )

        named = {
            "audio_token": "<|audio_pad|>",
            "audio_bos_token": "<|audio_start|>",
            "audio_eos_token": "<|audio_end|>",
        }
        auto: Any = AutoTokenizer
        tokenizer = auto.from_pretrained(self.folder, extra_special_tokens=named)
        extractor: Any = Qwen3ASRFeatureExtractor
        kind: Any = Qwen3ASRProcessor
        mels = extractor(feature_size=AUDIO["num_mel_bins"])
        return kind(feature_extractor=mels, tokenizer=tokenizer, chat_template=TEMPLATE)


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "with_bias"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("aligner") / "model"
    theirs = build_random_qwen3_aligner(folder, seed=int(request.param), bias=request.param)
    ours = Qwen3AlignerModel.from_folder(folder)
    return Pair(folder, ours, theirs, QwenTokenizer.from_folder(folder))


def noise(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed)) * 0.1


@pytest.mark.parametrize("samples", [16_000, 33_333, 56_159])
def test_from_samples_and_text_to_word_times(pair: Pair, samples: int) -> None:
    wave = noise(samples, samples)
    processor = pair.processor()
    inputs, words = processor.prepare_forced_aligner_inputs(
        audio=[wave.numpy()], transcript=SAID, language="en"
    )
    with torch.inference_mode():
        theirs = pair.theirs(**inputs).logits
    marker = pair.theirs.config.timestamp_token_id
    wanted = processor.decode_forced_alignment(theirs, inputs["input_ids"], words, marker)[0]

    tokens, mel = pair.prompt(SAID, wave)
    assert tokens == inputs["input_ids"][0].tolist()
    ours = pair.ours.classify([tokens], [mel])[0]
    asked = theirs[0][inputs["input_ids"][0] == marker]
    assert ours.shape == asked.shape == (2 * len(words[0]), pair.ours.labels)
    assert (ours - asked).abs().max().item() <= TOLERANCE
    got = [{"text": w.text, "start_time": w.start, "end_time": w.end}
           for w in pair.times(SAID, ours)]  # fmt: skip
    assert got == wanted


def test_a_batch_reads_each_as_if_alone(pair: Pair) -> None:
    texts = ["one", SAID, "two three " * 20]
    prompts = [pair.prompt(text, noise(12_000 + 9_000 * i, i)) for i, text in enumerate(texts)]
    together = pair.ours.classify([p[0] for p in prompts], [p[1] for p in prompts])
    for (tokens, mel), ours in zip(prompts, together, strict=True):
        alone = pair.ours.classify([tokens], [mel])[0]
        assert (ours - alone).abs().max().item() <= TOLERANCE
        assert torch.equal(ours.argmax(-1), alone.argmax(-1))


def test_full_windows_of_a_growing_audio_are_encoded_once(pair: Pair) -> None:
    """What is known changes nothing, also where louder sound changes all that was before it."""
    size = pair.ours.encoder.dims.window_frames * HOP
    wave, known = noise(4 * size), EncoderCache(2**24)
    encoded: list[int] = []
    encode = pair.ours.encoder.encode_windows

    def counted(windows: Sequence[Tensor]) -> list[Tensor]:
        encoded.append(len(windows))
        return encode(windows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair.ours.encoder, "encode_windows", counted)
        for count in (size // 2, 2 * size + size // 2, 3 * size, 3 * size + size // 2, 4 * size):
            if count == 4 * size:
                wave[-1000:] *= 1e5
            tokens, mel = pair.prompt(SAID, wave[:count])
            ours = pair.ours.classify([tokens], [mel], known)[0]
            alone = pair.ours.classify([tokens], [mel])[0]
            assert (ours - alone).abs().max().item() <= TOLERANCE
    known.check()
    # Each time with what is known, then all of it. The last frames of a window look beyond it.
    assert encoded[1::2] == [1, 3, 3, 4, 4]
    assert encoded[0] == 1 and encoded[4] < 3 and encoded[6] < 4 and encoded[8] == 4


def test_the_original_form_of_a_checkpoint_loads_too(pair: Pair, tmp_path: Path) -> None:
    config = json.loads((pair.folder / "config.json").read_text())
    thinker = {key: config[key] for key in ("audio_config", "text_config", "audio_token_id")}
    outer = {
        "thinker_config": {**thinker, "classify_num": pair.ours.labels},
        "timestamp_token_id": config["timestamp_token_id"],
        "timestamp_segment_time": 40,
    }
    (tmp_path / "config.json").write_text(json.dumps(outer))
    renamed = {}
    for name, tensor in load_file(pair.folder / "model.safetensors").items():
        name = name.replace("model.language_model.", "thinker.model.")
        name = name.replace("model.audio_tower.", "thinker.audio_tower.")
        name = name.replace("model.multi_modal_projector.linear_", "thinker.audio_tower.proj")
        renamed[name.replace("score.", "thinker.lm_head.")] = tensor
    save_file(renamed, tmp_path / "model.safetensors")
    old = Qwen3AlignerModel.from_folder(tmp_path)
    assert (old.step_ms, pair.ours.step_ms) == (40.0, STEP_MS)
    assert old.num_parameters == pair.ours.num_parameters
    tokens, mel = pair.prompt(SAID, noise(20_000))
    assert torch.equal(*(m.classify([tokens], [mel])[0] for m in (old, pair.ours)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"timestamp_token_id": 100_000}, "timestamp_token_id: expected less than vocab_size"),
        ({"timestamp_token_id": None}, "timestamp_token_id: expected a whole number"),
        ({"timestamp_segment_time": -1}, "timestamp_segment_time: expected milliseconds"),
        ({"id2label": {"0": "a"}}, "score.weight: expected shape"),
        ({"id2label": None}, "num_labels: expected a whole number"),
    ],
)
def test_checkpoints_that_cannot_be_used(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    build_random_qwen3_aligner(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CheckpointError, match=message):
        Qwen3AlignerModel.from_folder(tmp_path)
