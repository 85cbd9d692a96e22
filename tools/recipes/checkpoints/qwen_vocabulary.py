"""Qwen's tokenizer files over a small byte-level vocabulary of our own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"


def write_qwen_tokenizer(
    folder: Path,
    texts: Sequence[str],
    *,
    text_ids: int,
    min_frequency: int,
    special: Sequence[str],
    spelt_out: Sequence[str],
    extra: dict[str, str],
    processor: str,
) -> None:
    """Learns the vocabulary from texts and writes the tokenizer as transformers reads it.

    text_ids: bytes included, at most. min_frequency: of a pair of symbols that are merged. special,
    spelt_out: added tokens, by whether decoding leaves them out; special begins with END_OF_TEXT.
    extra, processor: extra_special_tokens and processor_class of tokenizer_config.json.
    """
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers
    from transformers import Qwen2Tokenizer

    assert special[0] == END_OF_TEXT, special
    reader: Any = Qwen2Tokenizer
    empty = reader()
    learner = Tokenizer(models.BPE())
    learner.normalizer = empty.backend_tokenizer.normalizer
    learner.pre_tokenizer = empty.backend_tokenizer.pre_tokenizer
    trainer = trainers.BpeTrainer(
        vocab_size=text_ids,
        min_frequency=min_frequency,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    model = json.loads(learner.to_str())["model"]
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in model["merges"]]
    # Before the named tokens, or transformers would give <|endoftext|> the next free id itself.
    vocab = {**model["vocab"], END_OF_TEXT: len(model["vocab"])}
    tokenizer = reader(vocab=vocab, merges=merges)
    tokenizer.add_tokens([AddedToken(name, special=True) for name in special[1:]])
    tokenizer.add_tokens([AddedToken(name, special=False) for name in spelt_out])
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["extra_special_tokens"] = extra
    config |= {"eos_token": TURN_END, "pad_token": END_OF_TEXT, "processor_class": processor}
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
