"""Our Qwen3 and transformers' on the same random checkpoints, float32: the same numbers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.models.qwen3 import Qwen3Model
from lookhear.engine.paged.digests import block_digests
from lookhear.kernels import rope_angles, rope_frequencies
from tests.engine.batches import paged_batch
from tests.engine.models.driving import Decoder
from tools.random_checkpoints.qwen3 import EXPERTS, TEXT, build_random_qwen3

TOLERANCE = 1e-4
VOCAB = TEXT["vocab_size"]

SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "untied_head": {"tie_word_embeddings": False, "seed": 1},
    "no_groups": {"num_key_value_heads": 4, "num_hidden_layers": 1, "seed": 2},
    "one_key_head": {"num_key_value_heads": 1, "head_dim": 6, "seed": 3},
    "wide_heads": {"head_dim": 32, "num_hidden_layers": 3, "seed": 4},
    "attention_bias": {"attention_bias": True, "seed": 5},
    "packed": {"hidden_size": 640, "intermediate_size": 700, "num_hidden_layers": 1, "seed": 6},
    "experts": {**EXPERTS, "seed": 8},
    "experts_in_every_second_layer": {
        **EXPERTS, "decoder_sparse_step": 2, "num_hidden_layers": 4, "norm_topk_prob": False,
        "seed": 9,
    },
    "experts_but_for_a_layer": {
        **EXPERTS, "mlp_only_layers": [1], "num_hidden_layers": 3, "num_experts_per_tok": 1,
        "tie_word_embeddings": False, "seed": 10,
    },
    "all_experts": {**EXPERTS, "num_experts": 3, "num_hidden_layers": 1, "seed": 11},
    "other_base_and_eps": {
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
        "rms_norm_eps": 1e-3,
        "seed": 7,
    },
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Pair:
    ours: Qwen3Model
    theirs: Any

    def their_logits(self, tokens: Tensor) -> Tensor:
        """tokens: [n]. Returns [n, vocab], no cache."""
        with torch.inference_mode():
            logits: Tensor = self.theirs(input_ids=tokens[None], use_cache=False).logits[0]
        return logits


@pytest.fixture(scope="module", params=SHAPES)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp(request.param) / "model"
    theirs = build_random_qwen3(folder, **SHAPES[request.param])
    return Pair(Qwen3Model.from_folder(folder), theirs)


def draw_tokens(count: int, seed: int) -> Tensor:
    return torch.randint(VOCAB, (count,), generator=torch.Generator().manual_seed(seed))


def close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max().item() <= TOLERANCE
    assert torch.equal(ours.argmax(-1), theirs.argmax(-1))


@pytest.mark.parametrize("count", [1, 15, 16, 17, 50])
def test_whole_prompt_at_once(pair: Pair, count: int) -> None:
    tokens = draw_tokens(count, 0)
    close(Decoder(pair.ours).step({"a": tokens})["a"], pair.their_logits(tokens))


def test_prefill_cut_at_every_place(pair: Pair) -> None:
    tokens = draw_tokens(35, 1)
    theirs = pair.their_logits(tokens)
    for cut in range(1, 35):
        decoder = Decoder(pair.ours, shuffle=cut)
        parts = [decoder.step({"a": part})["a"] for part in (tokens[:cut], tokens[cut:])]
        close(torch.cat(parts), theirs)


def test_token_by_token(pair: Pair) -> None:
    tokens = draw_tokens(35, 2)
    decoder = Decoder(pair.ours)
    parts = [decoder.step({"a": tokens[i : i + 1]})["a"] for i in range(35)]
    close(torch.cat(parts), pair.their_logits(tokens))


@pytest.mark.parametrize("shuffle", [0, 1, 2])
def test_batch_of_different_lengths(pair: Pair, shuffle: int) -> None:
    texts = {n: draw_tokens(c, 10 + c) for n, c in (("a", 40), ("b", 3), ("c", 17), ("d", 16))}
    decoder = Decoder(pair.ours, shuffle=shuffle)
    got: dict[str, list[Tensor]] = {name: [] for name in texts}
    # Texts join and leave the batch; each step feeds them unequal numbers of tokens.
    for counts in (
        {"a": 4, "c": 1},
        {"d": 16, "b": 1, "c": 16, "a": 1},
        {"b": 2, "a": 35},
    ):
        feed = {n: texts[n][(at := decoder.lengths.get(n, 0)) : at + c] for n, c in counts.items()}
        for name, logits in decoder.step(feed, padding=shuffle * 9).items():
            got[name].append(logits)
    for name, tokens in texts.items():
        close(torch.cat(got[name]), pair.their_logits(tokens))


def test_greedy_tokens_batched_and_alone(pair: Pair) -> None:
    prompts = {n: draw_tokens(c, 30 + c) for n, c in (("a", 2), ("b", 15), ("c", 8))}
    decoder = Decoder(pair.ours, shuffle=3)
    mine = {name: prompt.tolist() for name, prompt in prompts.items()}
    feed = prompts
    for _ in range(12):
        for name, logits in decoder.step(feed).items():
            mine[name].append(int(logits[-1].argmax()))
        feed = {name: torch.tensor(text[-1:]) for name, text in mine.items()}
    for name, prompt in prompts.items():
        alone = Decoder(pair.ours)
        text, part = prompt.tolist(), prompt
        for _ in range(12):
            text.append(int(alone.step({"a": part})["a"][-1].argmax()))
            part = torch.tensor(text[-1:])
        assert mine[name] == text
        theirs = pair.their_logits(torch.tensor(text[:-1]))[len(prompt) - 1 :]
        assert theirs.argmax(-1).tolist() == text[len(prompt) :]


def test_blocks_found_again_give_the_same_logits(pair: Pair) -> None:
    shared, tails = draw_tokens(48, 4), [draw_tokens(n, 60 + n) for n in (5, 20)]
    decoder = Decoder(pair.ours, shuffle=5)
    first = torch.cat([shared, tails[0]])
    digests = block_digests(first.tolist())
    decoder.start("first")
    decoder.step({"first": first})
    decoder.commit("first", digests)

    second = torch.cat([shared, tails[1]])
    cached = decoder.start("second", block_digests(second.tolist()), len(second))
    assert cached == 48 and decoder.tables["second"] == decoder.tables["first"][:3]
    close(decoder.step({"second": second[cached:]})["second"], pair.their_logits(second)[cached:])
    # The whole prompt is known: one block is computed again, so that there are logits.
    again = decoder.start("again", block_digests(shared.tolist()), 48)
    assert again == 32
    # Both tables that share blocks go on together, in one batch.
    more = draw_tokens(6, 70)
    got = decoder.step({"again": shared[32:], "first": more})
    close(got["again"], pair.their_logits(shared)[32:])
    close(got["first"], pair.their_logits(torch.cat([first, more]))[-6:])
    decoder.finish()


def test_a_rejected_draft_leaves_nothing_behind(pair: Pair) -> None:
    """Keys of rejected tokens stay in their slots until the right ones are written over them."""
    tokens, draft = draw_tokens(20, 6), draw_tokens(30, 7)
    decoder = Decoder(pair.ours)
    decoder.step({"a": tokens[:14], "b": tokens})
    decoder.step({"a": torch.cat([tokens[14:16], draft]), "b": draft[:1]})
    decoder.lengths.update(a=16, b=20)
    more = draw_tokens(5, 8)
    got = decoder.step({"a": tokens[16:17], "b": more})
    close(got["a"], pair.their_logits(tokens[:17])[-1:])
    close(got["b"], pair.their_logits(torch.cat([tokens, more]))[-5:])


def test_logits_of_chosen_rows_alone(pair: Pair) -> None:
    texts = {"a": draw_tokens(6, 9), "b": draw_tokens(9, 10)}
    cache = pair.ours.new_cache(3)
    batch = paged_batch([[2], [1]], [0, 0], [6, 9])
    hidden = pair.ours.forward(torch.cat(list(texts.values())), batch, cache)
    last = pair.ours.logits(hidden[[5, 14]])
    close(last, torch.stack([pair.their_logits(tokens)[-1] for tokens in texts.values()]))


def test_three_equal_axes_are_one(pair: Pair) -> None:
    if pair.ours.dims.head_dim < 12:
        sections = (1, 1, 1)
    else:
        third = pair.ours.dims.head_dim // 6
        sections = (pair.ours.dims.head_dim // 2 - 2 * third, third, third)
    dims = dataclasses.replace(pair.ours.dims, rope_sections=sections)
    model = Qwen3Model(dims, pair.ours.weights)
    tokens = draw_tokens(20, 5)
    cache = model.new_cache(3)
    positions = torch.arange(20).expand(3, 20)
    batch = paged_batch([[2, 1]], [0], [20], positions=positions)
    close(model.logits(model.forward(tokens, batch, cache)), pair.their_logits(tokens))


def change(folder: Path, **fields: object) -> None:
    """Of its config."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_rope_scaling_counts_more_than_rope_parameters(tmp_path: Path) -> None:
    from transformers import Qwen3ForCausalLM

    build_random_qwen3(tmp_path)
    parameters, scaling = ({"rope_type": "default", "rope_theta": base} for base in (5e3, 77.0))
    change(tmp_path, rope_parameters=parameters, rope_scaling=scaling)
    theirs: Any = Qwen3ForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    tokens = draw_tokens(50, 0)
    ours = Qwen3Model.from_folder(tmp_path)
    close(Decoder(ours).step({"a": tokens})["a"], Pair(ours, theirs).their_logits(tokens))


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_a_stretched_context_is_refused_wherever_it_stands(tmp_path: Path, key: str) -> None:
    build_random_qwen3(tmp_path)
    plain: dict[str, Any] = {"rope_type": "default", "rope_theta": 5e3}
    ropes = {"rope_scaling": plain, "rope_parameters": plain}
    change(tmp_path, **{**ropes, key: {"rope_type": "yarn", "factor": 4.0}})
    with pytest.raises(CheckpointError, match="rope_type: expected 'default', got 'yarn'"):
        Qwen3Model.from_folder(tmp_path)


def test_three_axes_are_those_of_qwen3_vl() -> None:
    from transformers import Qwen3VLTextConfig
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRotaryEmbedding

    rope = {"rope_type": "default", "rope_theta": 1e5, "mrope_section": [6, 5, 5]}
    config = Qwen3VLTextConfig(head_dim=32, rope_parameters=rope)
    positions = torch.randint(200, (3, 11), generator=torch.Generator().manual_seed(0))
    theirs: Any = Qwen3VLTextRotaryEmbedding(config)
    cos, sin = theirs(torch.zeros(1), positions[:, None])
    frequencies = rope_frequencies(32, 1e5)
    ours = rope_angles(positions, frequencies, torch.float32, sections=(6, 5, 5))
    for mine, reference in zip(ours, (cos, sin), strict=True):
        torch.testing.assert_close(mine[:, 0, 16:], reference[0, :, 16:])


def test_shards_and_a_second_copy_of_the_tied_head(tmp_path: Path) -> None:
    theirs = build_random_qwen3(tmp_path / "whole")
    shards = tmp_path / "shards"
    shards.mkdir()
    (shards / "config.json").write_bytes((tmp_path / "whole" / "config.json").read_bytes())
    tensors = load_file(tmp_path / "whole" / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    weight_map = {}
    for index, name in enumerate(tensors):
        weight_map[name] = f"part-{index % 3}.safetensors"
    for file in set(weight_map.values()):
        save_file({n: t for n, t in tensors.items() if weight_map[n] == file}, shards / file)
    index_file = shards / "model.safetensors.index.json"
    index_file.write_text(json.dumps({"weight_map": weight_map}))
    heard: list[float] = []
    model = Qwen3Model.from_folder(shards, progress=heard.append)
    assert heard == sorted(heard) and 0.9 < heard[-1] <= 1.0
    assert model.num_parameters == sum(p.numel() for p in theirs.parameters())
    tokens = draw_tokens(9, 0)
    close(Decoder(model).step({"a": tokens})["a"], Pair(model, theirs).their_logits(tokens))


def test_bfloat16_stays_close(tmp_path: Path) -> None:
    build_random_qwen3(tmp_path)
    tokens = draw_tokens(40, 0)
    exact, short = (
        Decoder(Qwen3Model.from_folder(tmp_path, dtype=dtype)).step({"a": tokens})["a"]
        for dtype in (torch.float32, torch.bfloat16)
    )
    assert short.dtype == torch.float32
    assert (short - exact).norm() <= 0.1 * exact.norm()
