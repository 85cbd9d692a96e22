"""A checkpoint in float32 on the CPU, here and in transformers: the same logits, the same tokens.

One of the two is in memory at a time. Whisper and Moonshine hear the sample; models of the other
families here read a line of text, so their encoders are not compared.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointReader, has_safetensors, read_json
from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.models.qwen3_aligner import Qwen3AlignerModel
from lookhear.engine.models.qwen3_asr import Qwen3AsrModel
from lookhear.engine.models.qwen3_vl import Qwen3VLModel
from lookhear.engine.moonshine.decoder import MoonshineDecoder
from lookhear.engine.moonshine.model import MoonshineModel
from lookhear.engine.moonshine.streaming import FRAME, StreamingMoonshineModel
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.cache import PagedBatch
from lookhear.engine.qwen3_asr.alignment import aligned_words, alignment_prompt
from lookhear.engine.smolvlm.model import SmolVlmModel
from lookhear.engine.tokenizers.qwen import QwenTokenizer
from lookhear.engine.tokenizers.whisper import WhisperTokenizer
from lookhear.engine.whisper.model import WhisperModel
from lookhear.kernels import log_mel, mel_filters

SECONDS = 30  # of a recording that an aligner hears
TOKENS = 24  # generated at most
# Real weights have logits of some 30: float32 sums of other orders differ in the sixth digit.
TOLERANCE = 1e-3
_TEXT = "The first ten prime numbers are 2, 3, 5, 7, 11, 13, 17,"
_READERS = ("Qwen3Model", "Qwen3ForSequenceClassification")
_DECODERS: dict[str, Callable[[Path], Qwen3Model]] = {
    "Qwen3ForCausalLM": lambda folder: Qwen3Model.from_folder(folder),
    "Qwen3ASRForConditionalGeneration": lambda folder: Qwen3AsrModel.from_folder(folder).decoder,
    "Qwen3VLForConditionalGeneration": lambda folder: Qwen3VLModel.from_folder(folder).decoder,
    "Qwen3MoeForCausalLM": lambda folder: Qwen3Model.from_folder(folder),
    "Qwen3VLMoeForConditionalGeneration": lambda folder: Qwen3VLModel.from_folder(folder).decoder,
    "SmolVLMForConditionalGeneration": lambda folder: SmolVlmModel.from_folder(folder).decoder,
    "Idefics3ForConditionalGeneration": lambda folder: SmolVlmModel.from_folder(folder).decoder,
}
_MOONSHINES: dict[str, Callable[[Path], MoonshineDecoder]] = {
    "MoonshineForConditionalGeneration": lambda folder: MoonshineModel.from_folder(folder),
    "MoonshineStreamingForConditionalGeneration": (
        lambda folder: StreamingMoonshineModel.from_folder(folder)
    ),
}


@dataclass(frozen=True, slots=True)
class Parity:
    """tokens: that transformers generated; same: those of them that we would, too. gap: between two
    logits at most, over the prompt and those tokens. what: the tokens are, in words."""

    tokens: int
    same: int
    gap: float
    what: str = "greedy tokens"

    @property
    def agrees(self) -> bool:
        """Every token, and every logit within `TOLERANCE`."""
        return self.same == self.tokens and self.gap <= TOLERANCE


class NotCompared(Exception):
    """Why it cannot be."""


def transformers_class(name: str) -> Any:
    """What loads the model of that name in transformers, without a bar. Raises NotCompared."""
    if importlib.util.find_spec("transformers") is None:
        raise NotCompared("transformers is not installed")
    import transformers

    transformers.utils.logging.disable_progress_bar()
    found = getattr(transformers, name, None)
    if found is None:
        raise NotCompared(f"transformers {transformers.__version__} has no {name}")
    return found


def compare(folder: Path, architecture: str, samples: NDArray[np.float32]) -> Parity:
    """architecture: as config.json names it. samples: [n] of speech, 16 kHz; the first 30 s are
    heard. Raises NotCompared, CheckpointError."""
    known = transformers_class(architecture)
    if architecture in _READERS:
        raise NotCompared("it has no head that writes")
    with torch.inference_mode():
        if architecture in _MOONSHINES:
            return _moonshine(folder, known, _MOONSHINES[architecture], samples)
        if architecture not in _DECODERS:
            return _whisper(folder, known, samples)
        return _decoder(folder, known, _DECODERS[architecture])


def compare_aligner(folder: Path, samples: NDArray[np.float32]) -> Parity:
    """Of times that a Qwen3-ForcedAligner gives to some words; as `compare`."""
    kind = transformers_class("AutoModelForTokenClassification")
    if "thinker_config" in read_json(folder / "config.json"):
        raise NotCompared("it is in its original form, which transformers does not read")
    model = Qwen3AlignerModel.from_folder(folder)
    dims = model.encoder.dims
    # A whole second at least: the feature extractor fills up what is shorter.
    heard = np.zeros(max(SAMPLE_RATE, min(len(samples), SECONDS * SAMPLE_RATE)), np.float32)
    heard[: len(samples)] = samples[: len(heard)]
    mel = log_mel(torch.from_numpy(heard)[None], mel_filters(dims.num_mels))
    words = aligned_words(_TEXT)
    tokenizer = QwenTokenizer.from_folder(folder)
    tokens = alignment_prompt(tokenizer, words, dims.num_tokens(mel.shape[2]))
    with torch.inference_mode():
        says = _their_aligner_says(folder, kind, tokens, mel, dims.chunk_frames)
        theirs = says[np.array(tokens) == model.marker]
        ours = model.classify([tokens], [mel[0]])[0]
    same = int((theirs.argmax(-1) == ours.argmax(-1)).sum())
    return Parity(len(ours), same, float((theirs - ours).abs().max()), "times")


def _their_aligner_says(
    folder: Path, kind: Any, tokens: list[int], mel: Tensor, chunk: int
) -> Tensor:
    """[tokens, labels] logits. mel: [1, mels, frames]. chunk: frames, of which theirs takes whole
    ones alone."""
    model = kind.from_pretrained(folder, dtype=torch.float32).eval()
    ones = torch.ones(1, len(tokens), dtype=torch.int64)
    inputs = {"input_ids": torch.tensor([tokens]), "attention_mask": ones}
    missing = -mel.shape[2] % chunk
    mask = torch.ones(1, mel.shape[2], dtype=torch.int64)
    mel, mask = (torch.nn.functional.pad(part, (0, missing)) for part in (mel, mask))
    logits: Tensor = model(**inputs, input_features=mel, input_features_mask=mask).logits[0]
    return logits


def parity_of(theirs: Tensor, ours: Tensor, generated: Sequence[int]) -> Parity:
    """theirs, ours: [tokens, vocab] logits behind each token but the last of a text that ends with
    the generated ones."""
    seen = torch.isfinite(ours)
    last = ours[-len(generated) :].argmax(-1).tolist()
    same = sum(a == b for a, b in zip(last, generated, strict=True))
    return Parity(len(generated), same, float((theirs - ours)[seen].abs().max()))


def generate(
    step: Callable[[list[int]], Tensor], prompt: Sequence[int], end: Sequence[int]
) -> tuple[list[int], Tensor]:
    """Greedily. step: all tokens so far -> logits [tokens, vocab]. Returns the generated tokens,
    and the logits behind every token but the last."""
    tokens = list(prompt)
    while True:
        logits = step(tokens)
        tokens.append(int(logits[-1].argmax()))
        if len(tokens) >= len(prompt) + TOKENS or tokens[-1] in end:
            return tokens[len(prompt) :], logits


def _whisper(folder: Path, kind: Any, samples: NDArray[np.float32]) -> Parity:
    tokenizer = WhisperTokenizer.from_folder(folder)
    prompt = [tokenizer.sot]
    if tokenizer.is_multilingual:
        prompt += [tokenizer.languages.get("en", tokenizer.sot + 1), tokenizer.transcribe]
    prompt.append(tokenizer.no_timestamps)
    mel, generated, theirs = _their_whisper_writes(folder, kind, samples, prompt, tokenizer.eot)
    ours = _our_logits(WhisperModel.from_folder(folder, trim_head=False), mel, prompt, generated)
    return parity_of(theirs, ours, generated)


def _their_whisper_writes(
    folder: Path, kind: Any, samples: NDArray[np.float32], prompt: list[int], end: int
) -> tuple[Tensor, list[int], Tensor]:
    """What it heard (log-mel), wrote, and thought of every token. It is gone from memory then."""
    model = _their_whisper(folder, kind)
    window = np.zeros((1, 2 * model.config.max_source_positions * SAMPLE_RATE // 100), np.float32)
    heard = min(len(samples), window.shape[1])
    window[0, :heard] = samples[:heard]
    mel = log_mel(torch.from_numpy(window), mel_filters(model.config.num_mel_bins))
    encoded = model.model.encoder(mel)

    def step(tokens: list[int]) -> Tensor:
        logits: Tensor = model(
            encoder_outputs=encoded, decoder_input_ids=torch.tensor([tokens])
        ).logits[0]
        return logits

    return mel, *generate(step, prompt, [end])


def _their_whisper(folder: Path, kind: Any) -> Any:
    """As transformers reads it; weights that it cannot read are handed to it."""
    if has_safetensors(folder):
        return _theirs(folder, kind)
    model = kind(kind.config_class.from_pretrained(folder))
    reader = CheckpointReader(folder)
    wanted = {n: tuple(t.shape) for n, t in model.state_dict().items() if n in reader}
    model.load_state_dict({n: reader.take(n, *shape) for n, shape in wanted.items()}, strict=False)
    reader.finish(ignore=("proj_out.weight",))
    return model.eval()


def _theirs(folder: Path, kind: Any) -> Any:
    """As transformers reads it; weights in fewer bits, for which it wants packages of those who
    make them, are multiplied out for it."""
    if not read_json(folder / "config.json").get("quantization_config"):
        return kind.from_pretrained(folder, dtype=torch.float32).eval()
    config = kind.config_class.from_pretrained(folder)
    del config.quantization_config
    state = CheckpointReader(folder).all_whole()
    return kind.from_pretrained(None, config=config, state_dict=state, dtype=torch.float32).eval()


def _our_logits(
    model: WhisperModel, mel: Tensor, prompt: Sequence[int], generated: Sequence[int]
) -> Tensor:
    own, cross = model.new_self_cache(1), model.new_cross_cache(1)
    row, slot = own.allocate(), cross.allocate()
    assert row is not None and slot is not None
    encoded = model.encode(mel)
    cross.write([slot], model.project_cross(encoded), [encoded.shape[1]])
    tokens = [*prompt, *generated[:-1]]
    hidden = model.decode(
        torch.tensor([tokens]),
        torch.arange(len(tokens))[None],
        torch.tensor([row]),
        torch.tensor([0]),
        torch.tensor([len(tokens)]),
        torch.tensor([slot]),
        own,
        cross,
    )
    return model.logits(hidden[0])


def _moonshine(
    folder: Path, kind: Any, load: Callable[[Path], MoonshineDecoder], samples: NDArray[np.float32]
) -> Parity:
    # Whole frames: transformers hears a streaming one's last part as silence.
    count = min(len(samples), SECONDS * SAMPLE_RATE) // FRAME * FRAME
    heard = torch.from_numpy(samples[:count])
    generated, theirs = _their_moonshine_writes(folder, kind, heard)
    return parity_of(theirs, _our_moonshine_logits(load(folder), heard, generated), generated)


def _their_moonshine_writes(folder: Path, kind: Any, heard: Tensor) -> tuple[list[int], Tensor]:
    """What it wrote, and thought of every token. It is gone from memory then."""
    model = kind.from_pretrained(folder, dtype=torch.float32).eval()
    ones = torch.ones(1, len(heard), dtype=torch.int64)  # without it, a streaming one sees all
    outputs = model.model.encoder(heard[None], attention_mask=ones)
    encoded = outputs.last_hidden_state.clone()

    def step(tokens: list[int]) -> Tensor:
        outputs.last_hidden_state = encoded.clone()  # a streaming one's decoder writes on it
        logits: Tensor = model(
            encoder_outputs=outputs, decoder_input_ids=torch.tensor([tokens]), use_cache=False
        ).logits[0]
        return logits

    config = model.config
    start = config.decoder_start_token_id
    start = config.bos_token_id if start is None else start
    end = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    return generate(step, [start], end)


def _our_moonshine_logits(
    model: MoonshineDecoder, heard: Tensor, generated: Sequence[int]
) -> Tensor:
    encoded = model.encode(heard)
    own, cross = model.new_self_cache(1), model.new_cross_cache(1, len(encoded))
    row, slot = own.allocate(), cross.allocate()
    assert row is not None and slot is not None
    cross.write([slot], model.project_cross(encoded), [len(encoded)])
    tokens = [model.dims.start, *generated[:-1]]
    at = torch.tensor([[row], [0], [len(tokens)], [slot]])
    hidden = model.decode(torch.tensor([tokens]), at[0], at[1], at[2], at[3], own, cross)
    return model.logits(hidden[0])


def _decoder(folder: Path, kind: Any, load: Callable[[Path], Qwen3Model]) -> Parity:
    prompt = QwenTokenizer.from_folder(folder).encode(_TEXT)
    generated, theirs = _their_decoder_writes(folder, kind, prompt)
    decoder = load(folder)
    logits = decoder_logits(decoder, torch.tensor([*prompt, *generated[:-1]]))
    return parity_of(theirs, logits, generated)


def decoder_logits(
    decoder: Qwen3Model,
    inputs: Tensor,
    positions: Tensor | None = None,
    added: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Behind each token, with a cache of their own. positions: where they are not the places. The
    rest: see `Qwen3Model.forward`."""
    count = len(inputs)
    blocks = -(-count // BLOCK_TOKENS)
    places = torch.arange(count)
    if positions is None:
        positions = places.expand(3, -1) if decoder.dims.rope_sections else places
    batch = PagedBatch(
        positions=positions,
        slots=BLOCK_TOKENS + places,  # block 0 is nobody's
        block_tables=torch.arange(1, blocks + 1)[None],
        past_lengths=torch.tensor([0]),
        query_lengths=torch.tensor([count]),
    )
    return decoder.logits(decoder.forward(inputs, batch, decoder.new_cache(1 + blocks), added))


def _their_decoder_writes(folder: Path, kind: Any, prompt: list[int]) -> tuple[list[int], Tensor]:
    """What it wrote, and thought of every token. It is gone from memory then."""
    model = _theirs(folder, kind)

    def step(tokens: list[int]) -> Tensor:
        logits: Tensor = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
        return logits

    return generate(step, prompt, [])
