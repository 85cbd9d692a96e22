"""Train an EAGLE3 head for demo-qwen3-vl: `python -m tools.recipes.eagle3.train --out FOLDER`.

First the model answers questions about scenes, then the head learns to guess those answers, some
tokens ahead of features that it has made itself, as it does when it drafts. The folder is one that
`lookhear serve --model demo-qwen3-vl --draft FOLDER` takes. `evaluate` says what it is worth.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from rich.progress import track
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from tools.recipes.eagle3.corpus import LAYERS, Episode, Speaker, episodes
from tools.recipes.eagle3.network import HEAD_DIM, HEADS, THETA, HeadNetwork, Pairs
from tools.recipes.qwen3_vl.evaluate import KINDS

FOLDER = Path("tools/demo/lookhear_demo/qwen3_vl")
FFN = 384
AHEAD = 5  # tokens that it is taught to guess
TOGETHER = 8
WARM_UP = 0.05  # of the time


def loss_of(head: HeadNetwork, episode: Episode) -> Tensor:
    """Of the tokens of its answer, and its end."""
    tokens, count = episode.tokens, len(episode.tokens)
    features = head.fc(episode.states)
    true = head.pairs(head.inputs(tokens[1:], features), torch.arange(count - 1))
    places = torch.arange(episode.first - 2, count - 2)
    features = features[places]
    guessed: list[Pairs] = []
    total = torch.zeros(())
    for _ in range(min(AHEAD, len(places))):
        features, mine = head.step(tokens[places + 1], features, places, true, guessed)
        guessed.append(mine)
        total = total + functional.cross_entropy(head.logits(features), tokens[places + 2])
        places, features = places[:-1] + 1, features[:-1]
    return total


def new_head(speaker: Speaker) -> HeadNetwork:
    """Before it has learnt anything."""
    weights = speaker.model.decoder.weights
    return HeadNetwork(weights.tokens, weights.norm, len(LAYERS) * speaker.width, FFN)


def train(
    head: HeadNetwork,
    corpus: Sequence[Episode],
    share: Callable[[int], float],
    rate: float,
    seed: int,
) -> float:
    """share: what is done before a step of that number, 0 to 1. Returns the mean loss of the last
    steps."""
    optimizer = torch.optim.AdamW(head.parameters(), lr=rate, weight_decay=0.01)
    chosen, step, last = random.Random(seed), 0, 0.0
    while (done := share(step)) < 1.0:
        for group in optimizer.param_groups:
            group["lr"] = rate * min(done / WARM_UP, (1 - done) / (1 - WARM_UP))
        optimizer.zero_grad()
        batch = chosen.choices(corpus, k=TOGETHER)
        loss = torch.stack([loss_of(head, episode) for episode in batch]).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(head.parameters(), 1.0)
        optimizer.step()
        step += 1
        last = 0.98 * last + 0.02 * loss.item() if last else loss.item()
    return last


def write(head: HeadNetwork, folder: Path) -> None:
    """In EAGLE's form, whose layers are counted by what comes out of them."""
    vocab, width = head.embeddings.shape
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": FFN,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": THETA,
        "max_position_embeddings": 4096,
        "vocab_size": vocab,
        "draft_vocab_size": vocab,
        "eagle_config": {"eagle_aux_hidden_state_layer_ids": [layer - 1 for layer in LAYERS]},
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    save_file(head.tensors(), folder / "model.safetensors")


def main() -> None:
    """Asks, trains and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=FOLDER)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--questions", type=int, default=80, help="of each kind")
    parser.add_argument("--minutes", type=float, default=6.0)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    speaker = Speaker(options.model)
    asked = episodes(speaker, list(KINDS), range(options.questions))
    total = options.questions * len(KINDS)
    corpus = list(track(asked, "asking", total=total))
    head = new_head(speaker)
    began = time.monotonic()
    loss = train(
        head,
        corpus,
        lambda step: (time.monotonic() - began) / (60 * options.minutes),
        options.rate,
        options.seed,
    )
    write(head, options.out)
    print(f"{len(corpus)} answers, loss {loss:.3f} for {AHEAD} tokens: {options.out}")


if __name__ == "__main__":
    main()
