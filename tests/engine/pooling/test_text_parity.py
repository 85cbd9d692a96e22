"""Vectors and scores of texts against transformers on random weights, float32; alone and beside
others, in pieces and from the cache."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from transformers import AutoTokenizer

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.config import EngineConfig
from lookhear.engine.families.build import build_core
from tests.engine.chat.asking import make_core
from tests.engine.pooling.reading import pool, refusal, scores, vectors
from tools.random_checkpoints.pooling import QUERY, build_embedder, build_reranker

TOLERANCE = 1e-4
TEXTS = (
    "a",
    "The capital of France is Paris.",
    "zwölf Boxkämpfer jagen Viktor, " * 6,
    "<|im_start|> is what it begins with <|endoftext|>",  # plain text, whatever it looks like
    "one more\nline",
)
Vectors = NDArray[np.float32]


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("embedder")
    return folder, build_embedder(folder, seed=1)


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("late")
    return folder, build_embedder(folder, seed=2, late=8)


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("reranker")
    return folder, build_reranker(folder, seed=3, tie_word_embeddings=False)


def plain(folder: Path, text: str) -> list[int]:
    """Tokens of a text in which nothing is special, and what the tokenizer puts behind it."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    ids: list[int] = tokenizer(text, split_special_tokens=True)["input_ids"]
    return ids


def hidden(model: Any, tokens: list[int]) -> torch.Tensor:
    """[tokens, width]"""
    with torch.inference_mode():
        found: torch.Tensor = model(torch.tensor([tokens]), use_cache=False).last_hidden_state[0]
    return found


def normal(vector: torch.Tensor) -> Vectors:
    return torch.nn.functional.normalize(vector, dim=-1).numpy()


def test_vectors_are_those_of_transformers(embedder: tuple[Path, Any]) -> None:
    folder, model = embedder
    theirs = np.stack([normal(hidden(model, plain(folder, text))[-1]) for text in TEXTS])
    core = make_core(folder)
    ours = vectors(core, *TEXTS)
    assert np.abs(ours - theirs).max() <= TOLERANCE
    assert np.allclose(np.linalg.norm(ours, axis=1), 1.0, atol=1e-5)
    # A query is read behind the checkpoint's own words, or the client's.
    asked = normal(hidden(model, plain(folder, QUERY + TEXTS[1]))[-1])
    assert np.abs(vectors(core, TEXTS[1], role="query")[0] - asked).max() <= TOLERANCE
    told = normal(hidden(model, plain(folder, f"Instruct: find\nQuery:{TEXTS[1]}"))[-1])
    assert np.abs(vectors(core, TEXTS[1], instruction="find")[0] - told).max() <= TOLERANCE


@pytest.mark.parametrize("budget", [17, 40, 512])
def test_company_pieces_and_caches_change_nothing(embedder: tuple[Path, Any], budget: int) -> None:
    """Budgets so small that prompts are cut, others beside them, and all of it again, cached."""
    alone = np.concatenate([vectors(make_core(embedder[0]), text) for text in TEXTS])
    core = make_core(embedder[0], token_budget=budget)
    for _ in range(2):
        found = pool(core, *TEXTS, *TEXTS[::-1])
        ours = np.concatenate([one.vectors for one in found])
        assert np.abs(ours - np.concatenate([alone, alone[::-1]])).max() <= 1e-5
    assert found[2].cached >= 16 and found[2].tokens > found[2].cached
    # Another tenant finds nothing of it.
    assert pool(core, TEXTS[2], cache_salt="other")[0].cached == 0


def test_dimensions_are_the_first_ones_of_length_1(embedder: tuple[Path, Any]) -> None:
    core = make_core(embedder[0])
    whole, raw = vectors(core, *TEXTS), vectors(core, *TEXTS, normalise=False)
    cut = vectors(core, *TEXTS, dimensions=5)
    first = whole[:, :5] / np.linalg.norm(whole[:, :5], axis=1, keepdims=True)
    assert cut.shape == (len(TEXTS), 5) and np.allclose(cut, first, atol=1e-6)
    assert np.allclose(raw / np.linalg.norm(raw, axis=1, keepdims=True), whole, atol=1e-6)
    assert not np.allclose(np.linalg.norm(raw, axis=1), 1.0)


def test_tokens_are_read_as_they_are(embedder: tuple[Path, Any]) -> None:
    folder, model = embedder
    tokens = [5, 9, 40, 7]
    theirs = normal(hidden(model, tokens)[-1])
    assert np.abs(vectors(make_core(folder), tokens)[0] - theirs).max() <= TOLERANCE


def test_a_vector_of_each_token_is_never_half_cached(embedder: tuple[Path, Any]) -> None:
    folder, model = embedder
    core = make_core(folder, token_budget=17)
    whole = vectors(core, TEXTS[2])
    for _ in range(2):
        (found,) = pool(core, TEXTS[2], kind="tokens")
        theirs = normal(hidden(model, plain(folder, TEXTS[2])))
        assert found.vectors.shape == theirs.shape and found.cached == 0
        assert np.abs(found.vectors - theirs).max() <= TOLERANCE
    assert np.allclose(found.vectors[-1], whole[0], atol=1e-5)


def test_an_embedder_scores_by_the_angle(embedder: tuple[Path, Any]) -> None:
    folder, model = embedder
    query = normal(hidden(model, plain(folder, QUERY + "what?"))[-1])
    theirs = [float(query @ normal(hidden(model, plain(folder, text))[-1])) for text in TEXTS]
    ours = scores(make_core(folder), *TEXTS, queries=["what?"])
    assert np.abs(np.array(ours) - theirs).max() <= TOLERANCE
    # A query each, in pairs.
    pairs = scores(make_core(folder), *TEXTS, queries=["what?"] * len(TEXTS))
    assert np.allclose(pairs, ours, atol=1e-5)


def test_late_interaction_is_the_sum_of_each_tokens_best(late: tuple[Path, Any]) -> None:
    folder, model = late
    weight = load_file(folder / "1_Dense" / "model.safetensors")["linear.weight"]

    def theirs(text: str) -> Vectors:
        return normal(hidden(model, plain(folder, text)) @ weight.T)

    query = theirs(QUERY + "what?")
    expected = [float((query @ theirs(text).T).max(axis=1).sum()) for text in TEXTS]
    core = make_core(folder, token_budget=23)
    for _ in range(2):
        ours = scores(core, *TEXTS, queries=["what?"])
        assert np.abs(np.array(ours) - expected).max() <= TOLERANCE * len(query)
    (found,) = pool(core, TEXTS[1], kind="tokens")
    assert np.abs(found.vectors - theirs(TEXTS[1])).max() <= TOLERANCE
    assert refusal(core, "text").message.startswith("kind: expected tokens")


ASKED = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    'the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n'
    "<|im_start|>user\n<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}"
    "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
)
RETRIEVE = "Given a web search query, retrieve relevant passages that answer the query"
HARMLESS = (TEXTS[0], TEXTS[1], TEXTS[2], TEXTS[4])  # theirs takes special tokens for such


def judged(folder: Path, model: Any, instruction: str = RETRIEVE) -> list[float]:
    """As the model card of Qwen3-Reranker does it."""
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    found = []
    for text in HARMLESS:
        asked = ASKED.format(instruction=instruction, query="what?", document=text)
        tokens = torch.tensor([tokenizer(asked)["input_ids"]])
        with torch.inference_mode():
            logits = model(tokens, use_cache=False).logits
        if logits.dim() == 2:
            found.append(float(torch.sigmoid(logits[0, 0])))
        else:
            pair = [tokenizer.convert_tokens_to_ids(word) for word in ("no", "yes")]
            found.append(float(torch.softmax(logits[0, -1, pair], dim=0)[1]))
    return found


def test_a_reranker_says_how_much_it_means_yes(reranker: tuple[Path, Any]) -> None:
    folder, model = reranker
    core = make_core(folder)
    for _ in range(2):  # the second time from the cache
        ours = scores(core, *HARMLESS, queries=["what?"])
        assert np.abs(np.array(ours) - judged(folder, model)).max() <= TOLERANCE
    told = scores(core, *HARMLESS, queries=["what?"], instruction="Be kind")
    assert np.abs(np.array(told) - judged(folder, model, "Be kind")).max() <= TOLERANCE
    # What all documents have in front of them is read once.
    found = pool(make_core(folder), *HARMLESS, queries=["what?"])
    assert sum(one.cached > 100 for one in found) == len(HARMLESS) - 1


def test_a_checkpoint_with_a_head_that_scores(tmp_path: Path) -> None:
    model = build_reranker(tmp_path, seed=4, labels=1)
    built = build_core(
        EngineConfig(model=str(tmp_path), threads=1, dtype="float32"), lambda stage, share: None
    )
    assert built.card.abilities == ["score", "adapters"]
    ours = scores(built.core, *HARMLESS, queries=["what?"])
    assert np.abs(np.array(ours) - judged(tmp_path, model)).max() <= TOLERANCE


def test_a_head_of_several_labels_is_no_score(tmp_path: Path) -> None:
    build_reranker(tmp_path, labels=3)
    with pytest.raises(CheckpointError, match=r"score\.weight: expected shape \[1, 32\]"):
        make_core(tmp_path)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": True}, "expected lasttoken"),
        ("modules.json", [{"type": "x.Transformer"}, {"type": "x.Router"}], "got 'Router'"),
        ("modules.json", {"type": "x"}, "expected a list of objects"),
        ("config_sentence_transformers.json", {"do_query_expansion": True}, "not expanded"),
    ],
)
def test_what_it_cannot_do_is_named(
    embedder: tuple[Path, Any], tmp_path: Path, file: str, content: object, message: str
) -> None:
    shutil.copytree(embedder[0], tmp_path / "m")
    (tmp_path / "m" / file).write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match=message):
        make_core(tmp_path / "m")
