"""Write a training state as a standard Whisper folder: `python -m tools.recipes.whisper.export`.

The folder loads in transformers, CTranslate2 and everything else that reads openai/whisper-*:
51,865 ids, fp16 safetensors, tokenizer, configs. Ids that training never saw share one row whose
logit the loss has pushed down.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tools.recipes.checkpoints.folders import drafted, write_json
from tools.recipes.whisper import tokenizer as tk
from tools.recipes.whisper.network import CompactIds, Network, Size, sinusoids

ALIGNMENT_HEADS = [[1, 0], [1, 1]]
"""(layer, head) of the cross-attention that training guides to the spoken word."""


def load_state(run: Path) -> tuple[Network, tk.TextCoder]:
    """The network of a training folder and its text coder."""
    merges = json.loads((run / "merges.json").read_text())
    coder = tk.TextCoder(merges["vocab"], [(a, b) for a, b in merges["merges"]])
    state = torch.load(run / "state.pt", weights_only=True)["net"]
    layers = 1 + max(int(k.split(".")[2]) for k in state if k.startswith("encoder.layers."))
    ids = CompactIds(len(coder.vocabulary))
    net = Network(Size(encoder_layers=layers), ids.rows, state["phonemes.bias"].numel())
    net.load_state_dict(state)
    return net.eval(), coder


def standard_weights(net: Network, ids: CompactIds) -> dict[str, Tensor]:
    """fp16 tensors under the names of transformers' Whisper."""
    table = net.embeddings().detach()
    full = table[net.text_ids - 1].repeat(tk.VOCABULARY, 1)
    for row, i in enumerate(ids.full):
        if i >= 0:
            full[i] = table[row]
    out = {"model.decoder.embed_tokens.weight": full}
    out["model.decoder.embed_positions.weight"] = net.positions.detach()
    out["model.encoder.embed_positions.weight"] = sinusoids(
        net.size.audio_positions, net.size.width
    )
    for name, value in net.state_dict().items():
        for old, new in (
            ("encoder.", "model.encoder."),
            ("decoder_layers.", "model.decoder.layers."),
            ("decoder_norm.", "model.decoder.layer_norm."),
        ):
            if name.startswith(old) and name != "encoder.positions":
                out[new + name.removeprefix(old)] = value
    return {name: value.to(torch.float16).contiguous() for name, value in out.items()}


def special_tokens() -> list[tuple[int, str]]:
    """Whisper's 1,608 special tokens with their ids, multilingual order."""
    from transformers.models.whisper.tokenization_whisper import LANGUAGES

    names = ["<|endoftext|>", "<|startoftranscript|>"]
    names += [f"<|{code}|>" for code in list(LANGUAGES)[:99]]
    names += ["<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>"]
    names += ["<|nospeech|>", "<|notimestamps|>"]
    names += [f"<|{i * 0.02:.2f}|>" for i in range(tk.TIMESTAMPS)]
    assert len(names) == tk.VOCABULARY - tk.TEXT_IDS, len(names)
    return list(enumerate(names, tk.TEXT_IDS))


def write_tokenizer(folder: Path, coder: tk.TextCoder) -> None:
    """tokenizer.json and the files that older loaders read instead."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

    vocab = dict(coder.vocabulary)
    vocab |= {f"<|u{i}|>": i for i in range(len(vocab), tk.TEXT_IDS)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=coder.merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = special_tokens()
    controls = [name for i, name in special if i < tk.FIRST_TIMESTAMP]
    tokenizer.add_special_tokens([AddedToken(n, special=True) for n in controls])
    times = [AddedToken(n, special=False) for i, n in special if i >= tk.FIRST_TIMESTAMP]
    tokenizer.add_tokens(times)
    for i, name in special:
        assert tokenizer.token_to_id(name) == i, (name, i)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|startoftranscript|> <|notimestamps|> $A:0 <|endoftext|>",
        pair="<|startoftranscript|> <|notimestamps|> $A:0 $B:1 <|endoftext|>",
        special_tokens=[
            ("<|startoftranscript|>", tk.SOT),
            ("<|notimestamps|>", tk.NO_TIMESTAMPS),
            ("<|endoftext|>", tk.EOT),
        ],
    )
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    write_json(folder / "vocab.json", vocab, indent=None)
    lines = ["#version: 0.2", *(f"{a} {b}" for a, b in coder.merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_json(folder / "added_tokens.json", {name: i for i, name in special}, indent=None)
    end = "<|endoftext|>"
    ends = {"bos_token": end, "eos_token": end, "pad_token": end, "unk_token": end}
    write_json(
        folder / "special_tokens_map.json", {**ends, "additional_special_tokens": controls[1:]}
    )
    config: dict[str, Any] = {
        **ends,
        "add_prefix_space": False,
        "additional_special_tokens": controls[1:],
        "clean_up_tokenization_spaces": False,
        "errors": "replace",
        "model_max_length": 1024,
        "processor_class": "WhisperProcessor",
        "return_attention_mask": False,
        "tokenizer_class": "WhisperTokenizer",
    }
    write_json(folder / "tokenizer_config.json", config)


def write_configs(folder: Path, size: Size) -> None:
    """config.json, generation_config.json and preprocessor_config.json."""
    from transformers import WhisperFeatureExtractor

    suppress = [tk.SOT, tk.TRANSLATE, tk.TRANSCRIBE, tk.START_OF_LM, tk.START_OF_PREV]
    suppress.append(tk.NO_SPEECH)
    ends = {
        "bos_token_id": tk.EOT,
        "eos_token_id": tk.EOT,
        "pad_token_id": tk.EOT,
        "decoder_start_token_id": tk.SOT,
        # The end may come first: silence has no text.
        "begin_suppress_tokens": [220],
        "suppress_tokens": suppress,
        "max_length": size.text_positions,
    }
    config = {
        "activation_dropout": 0.0,
        "activation_function": "gelu",
        "architectures": ["WhisperForConditionalGeneration"],
        "attention_dropout": 0.0,
        "d_model": size.width,
        "decoder_attention_heads": size.heads,
        "decoder_ffn_dim": 4 * size.width,
        "decoder_layers": size.decoder_layers,
        "dropout": 0.0,
        "encoder_attention_heads": size.heads,
        "encoder_ffn_dim": 4 * size.width,
        "encoder_layers": size.encoder_layers,
        "init_std": 0.02,
        "is_encoder_decoder": True,
        "max_source_positions": size.audio_positions,
        "max_target_positions": size.text_positions,
        "model_type": "whisper",
        "num_hidden_layers": size.encoder_layers,
        "num_mel_bins": size.mels,
        "scale_embedding": False,
        "tie_word_embeddings": True,
        "torch_dtype": "float16",
        "use_cache": True,
        "vocab_size": tk.VOCABULARY,
    }
    write_json(folder / "config.json", config | ends)
    generation = {
        "alignment_heads": ALIGNMENT_HEADS,
        "is_multilingual": True,
        "lang_to_id": {f"<|{name}|>": i for name, i in tk.LANGUAGE_IDS.items()},
        "max_initial_timestamp_index": tk.TIMESTAMPS - 1,
        "no_timestamps_token_id": tk.NO_TIMESTAMPS,
        "prev_sot_token_id": tk.START_OF_PREV,
        "return_timestamps": False,
        "task_to_id": {"transcribe": tk.TRANSCRIBE, "translate": tk.TRANSLATE},
    }
    write_json(folder / "generation_config.json", generation | ends)
    extractor: Any = WhisperFeatureExtractor(feature_size=size.mels)
    extractor.save_pretrained(folder)


def export(run: Path, folder: Path) -> None:
    """Write the whole folder; what is there besides stays."""
    from safetensors.torch import save_file

    net, coder = load_state(run)
    ids = CompactIds(len(coder.vocabulary))
    # Read by our engine alone: how long a window it was trained to hear, that earlier text in the
    # prompt misleads it, that it is not often wrong twice, and ids it never says.
    ours = {
        "toy": True,
        "evidence_seconds": 0.25,
        "short_windows": True,
        "longest_window_seconds": 12,
        "carries_text": False,
        "unused_tokens": [[len(coder.vocabulary), tk.EOT]],
    }
    with drafted(folder) as draft:
        weights = standard_weights(net, ids)
        save_file(weights, str(draft / "model.safetensors"), metadata={"format": "pt"})
        write_tokenizer(draft, coder)
        write_configs(draft, net.size)
        write_json(draft / "lookhear.json", ours)


def main() -> None:
    """Writes the folder of a finished run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="folder of whisper.train --out")
    parser.add_argument("--out", type=Path, default=Path("tools/demo/lookhear_demo/whisper"))
    options = parser.parse_args()
    export(options.run, options.out)


if __name__ == "__main__":
    main()
