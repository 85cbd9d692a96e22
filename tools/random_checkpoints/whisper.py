"""Checkpoint folders with random weights, in the form that real ones have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

TEXT_IDS = 50_257
LANGUAGES = (
    "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta "
    "no th ur hr bg lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk "
    "sq sw gl mr pa si km sn yo so af oc ka be tg sd gu am yi lo uz fo ht ps tk nn mt sa lb "
    "my bo tl mg as tt haw ln ha ba jw su"
).split()
EOT, SOT, FIRST_LANGUAGE = TEXT_IDS, TEXT_IDS + 1, TEXT_IDS + 2
TRANSLATE, TRANSCRIBE, PREV = 50_358, 50_359, 50_361
NO_SPEECH, NO_TIMESTAMPS, FIRST_TIMESTAMP = 50_362, 50_363, 50_364
VOCABULARY = 51_865

# A few merges, so that tokens of several bytes exist, among them halves of characters.
MERGES = (
    "Ġ t",
    "h e",
    "Ġt he",
    "Ġ a",
    "Ã ¼",
    "Ġ w",
    "o r",
    "Ġw or",
    "Ġwor d",
    "l l",
    "Ã ¤",
    "é ¬",
    "æ ķ",
)


def build_random_whisper(
    folder: Path,
    *,
    layers: int | tuple[int, int] = 2,
    width: int = 32,
    heads: int | tuple[int, int] = 2,
    mels: int = 80,
    seed: int = 0,
    vocab: int = VOCABULARY,
    audio_positions: int = 1500,
    context: int = 448,
    ffn: int | None = None,
    tied_head: bool = True,
    tokenizer: bool = True,
    dtype: torch.dtype = torch.float32,
    config: dict[str, Any] | None = None,
) -> Path:
    """Writes a multilingual Whisper with random weights; returns the folder.

    layers, heads: of both sides, or (encoder, decoder). vocab: with tokenizer=True it has to be the
    standard one. The weights are large enough for attention to choose, and for logits to differ.
    """
    folder.mkdir(parents=True, exist_ok=True)
    encoder_layers, decoder_layers = layers if isinstance(layers, tuple) else (layers, layers)
    encoder_heads, decoder_heads = heads if isinstance(heads, tuple) else (heads, heads)
    ffn = 4 * width if ffn is None else ffn
    settings: dict[str, Any] = {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "vocab_size": vocab,
        "num_mel_bins": mels,
        "d_model": width,
        "encoder_layers": encoder_layers,
        "encoder_attention_heads": encoder_heads,
        "encoder_ffn_dim": ffn,
        "decoder_layers": decoder_layers,
        "decoder_attention_heads": decoder_heads,
        "decoder_ffn_dim": ffn,
        "max_source_positions": audio_positions,
        "max_target_positions": context,
        "activation_function": "gelu",
        "tie_word_embeddings": tied_head,
        "scale_embedding": False,
        "bos_token_id": min(EOT, vocab - 1),
        "eos_token_id": min(EOT, vocab - 1),
        "pad_token_id": min(EOT, vocab - 1),
        "decoder_start_token_id": min(SOT, vocab - 1),
    }
    _write(folder / "config.json", {**settings, **(config or {})})
    generator = torch.Generator().manual_seed(seed)
    weights = _Random(generator, dtype)
    weights.conv("model.encoder.conv1", width, mels)
    weights.conv("model.encoder.conv2", width, width)
    weights.table("model.encoder.embed_positions", audio_positions, width)
    weights.table("model.decoder.embed_positions", context, width)
    weights.table("model.decoder.embed_tokens", vocab, width)
    if not tied_head:
        weights.table("proj_out", vocab, width)
    for side, count in (("encoder", encoder_layers), ("decoder", decoder_layers)):
        for index in range(count):
            weights.layer(f"model.{side}.layers.{index}", width, ffn, cross=side == "decoder")
        weights.norm(f"model.{side}.layer_norm", width)
    save_file(weights.tensors, folder / "model.safetensors", metadata={"format": "pt"})
    if tokenizer:
        assert vocab == VOCABULARY, vocab
        write_tokenizer(folder, decoder_layers, decoder_heads)
    extractor = {"feature_size": mels, "sampling_rate": 16_000, "hop_length": 160, "n_fft": 400}
    named = {"feature_extractor_type": "WhisperFeatureExtractor", "chunk_length": 30, **extractor}
    _write(folder / "preprocessor_config.json", named)
    return folder


def write_tokenizer(folder: Path, decoder_layers: int = 2, decoder_heads: int = 2) -> None:
    """tokenizer.json in the standard id order (bytes, a few merges, unused ids, special tokens)
    and generation_config.json."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    vocab = {symbol: i for i, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    pairs = [(a, b) for a, b in (merge.split(" ") for merge in MERGES)]
    for a, b in pairs:
        vocab[a + b] = len(vocab)
    for token in range(len(vocab), TEXT_IDS):
        vocab[f"[unused{token}]"] = token
    backend = Tokenizer(models.BPE(vocab=vocab, merges=pairs))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = [
        "<|endoftext|>",
        "<|startoftranscript|>",
        *(f"<|{code}|>" for code in LANGUAGES),
        "<|translate|>",
        "<|transcribe|>",
        "<|startoflm|>",
        "<|startofprev|>",
        "<|nospeech|>",
        "<|notimestamps|>",
    ]
    backend.add_special_tokens(special)
    backend.add_tokens([f"<|{0.02 * i:.2f}|>" for i in range(1501)])
    assert backend.get_vocab_size() == VOCABULARY, backend.get_vocab_size()
    backend.save(str(folder / "tokenizer.json"))
    heads = [[decoder_layers - 1, head] for head in range(decoder_heads)]
    generation = {
        "is_multilingual": True,
        "lang_to_id": {f"<|{code}|>": FIRST_LANGUAGE + i for i, code in enumerate(LANGUAGES)},
        "task_to_id": {"transcribe": TRANSCRIBE, "translate": TRANSLATE},
        "no_timestamps_token_id": NO_TIMESTAMPS,
        "suppress_tokens": [SOT, TRANSLATE, TRANSCRIBE, PREV, NO_SPEECH],
        "begin_suppress_tokens": [vocab["Ġ"], EOT],
        "alignment_heads": heads,
        "decoder_start_token_id": SOT,
        "eos_token_id": EOT,
        "pad_token_id": EOT,
        "max_length": 448,
    }
    _write(folder / "generation_config.json", generation)


class _Random:
    """Draws the tensors of a checkpoint, under their Hugging Face names."""

    def __init__(self, generator: torch.Generator, dtype: torch.dtype) -> None:
        self._generator, self._dtype = generator, dtype
        self.tensors: dict[str, Tensor] = {}

    def draw(self, name: str, *shape: int, scale: float, around: float = 0.0) -> None:
        values = torch.randn(shape, generator=self._generator) * scale + around
        self.tensors[name] = values.to(self._dtype)

    def table(self, name: str, rows: int, width: int) -> None:
        self.draw(f"{name}.weight", rows, width, scale=0.3)

    def conv(self, name: str, width: int, channels: int) -> None:
        self.draw(f"{name}.weight", width, channels, 3, scale=(3 * channels) ** -0.5)
        self.draw(f"{name}.bias", width, scale=0.1)

    def norm(self, name: str, width: int) -> None:
        self.draw(f"{name}.weight", width, scale=0.1, around=1.0)
        self.draw(f"{name}.bias", width, scale=0.1)

    def linear(self, name: str, out: int, inside: int, *, bias: bool = True) -> None:
        self.draw(f"{name}.weight", out, inside, scale=1.5 * inside**-0.5)
        if bias:
            self.draw(f"{name}.bias", out, scale=0.1)

    def layer(self, name: str, width: int, ffn: int, *, cross: bool) -> None:
        for part in ("self_attn", "encoder_attn") if cross else ("self_attn",):
            self.norm(f"{name}.{part}_layer_norm", width)
            for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
                whole = f"{name}.{part}.{projection}"
                self.linear(whole, width, width, bias=projection != "k_proj")
        self.norm(f"{name}.final_layer_norm", width)
        self.linear(f"{name}.fc1", ffn, width)
        self.linear(f"{name}.fc2", width, ffn)


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
