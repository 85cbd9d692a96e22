"""Adapters against transformers with the changes merged into its weights, random ones, float32:
alone, several in one batch, cached, in the tower of media, and replaced in mid-traffic."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import (
    AdapterFailed,
    AdapterLoaded,
    AnswerCompleted,
    Event,
    LoadAdapter,
    ReadAhead,
    StartAnswer,
    UnloadAdapter,
)
from tests.engine.chat.asking import ask, make_core, outcome, rest, text, user
from tests.engine.pooling.reading import pool, vectors
from tests.engine.pooling.test_pictures_parity import INPUTS, Reading, last_hidden
from tools.random_checkpoints.adapters import ATTENTION, build_random_adapter, merged
from tools.random_checkpoints.pooling import build_reranker
from tools.random_checkpoints.qwen3_vl import build_served_qwen3_vl

TOLERANCE = 1e-4
KINDS: dict[str, dict[str, Any]] = {
    "all": {"seed": 1},
    "attention": {"seed": 2, "targets": ("q_proj", "v_proj"), "rank": 8},
    "rslora": {"seed": 3, "use_rslora": True, "rank": 2},
    "patterns": {
        "seed": 4,
        "rank_pattern": {"layers.1.mlp.down_proj": 6, "q_proj": 3},
        "alpha_pattern": {"k_proj": 2.0},
    },
}
PROMPT = "Tell me about the red circle, please. " * 2


class Chatting:
    """A folder, transformers' model of it, adapters of it, and the models they make."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "model"
        self.model = build_reranker(self.folder, seed=3)
        self.adapters: dict[str, Path] = {}
        self.merged: dict[str, Any] = {}
        for name, options in KINDS.items():
            path = build_random_adapter(folder / name, self.model, **options)
            self.adapters[name] = path
            self.merged[name] = merged(self.model, path)

    def hidden(self, name: str | None, tokens: list[int]) -> np.ndarray:
        model = self.model if name is None else self.merged[name]
        with torch.inference_mode():
            found: np.ndarray = model.model(torch.tensor([tokens])).last_hidden_state[0, -1].numpy()
        return found


@pytest.fixture(scope="module")
def chatting(tmp_path_factory: pytest.TempPathFactory) -> Chatting:
    return Chatting(tmp_path_factory.mktemp("adapters"))


def load(core: EngineCore, name: str, folder: Path) -> AdapterLoaded:
    core.submit(LoadAdapter("r", "m", name, str(folder)))
    (event,) = core.step()
    assert isinstance(event, AdapterLoaded), event
    return event


def loaded(chatting: Chatting, **changes: object) -> EngineCore:
    core = make_core(chatting.folder, **changes)
    for name, folder in chatting.adapters.items():
        load(core, name, folder)
    return core


def named(name: str | None) -> str:
    return "m" if name is None else f"m:{name}"


def asked(name: str | None, answer: str = "a", **changes: Any) -> StartAnswer:
    options = {"max_tokens": 12, "ignore_end": True, **changes}
    return ask(user(PROMPT), answer=answer, model=named(name), **options)


def said(events: list[Event], answer: str = "a") -> str:
    assert isinstance(done := outcome(events, answer), AnswerCompleted), done
    return text(events, answer)


@pytest.mark.parametrize("name", [None, *KINDS])
def test_hidden_states_are_those_of_merged_weights(chatting: Chatting, name: str | None) -> None:
    core = loaded(chatting)
    tokens = [5, 9, 40, 7, 33, 2] * 7
    for _ in range(2):  # the second time from the cache
        (ours,) = vectors(core, tokens, model=named(name), normalise=False)
        assert np.abs(ours - chatting.hidden(name, tokens)).max() <= TOLERANCE
    others = [chatting.hidden(other, tokens) for other in (None, *KINDS) if other != name]
    assert min(np.abs(ours - other).max() for other in others) > 0.05


@pytest.mark.parametrize("changes", [{}, {"token_budget": 23}, {"overlap": 1}, {"draft": "ngram"}])
def test_several_in_one_batch_are_each_as_alone(
    chatting: Chatting, changes: dict[str, object]
) -> None:
    names = [None, *KINDS]
    alone = {}
    for name in names:
        core = loaded(chatting)
        core.submit(asked(name))
        alone[name] = said(rest(core))
    assert len(set(alone.values())) == len(names)
    core = loaded(chatting, **changes)
    for _ in range(2):
        for name in names:
            core.submit(asked(name, str(name)))
        events = rest(core)
        assert {name: said(events, str(name)) for name in names} == alone


def test_answers_are_those_of_merged_checkpoints(chatting: Chatting, tmp_path: Path) -> None:
    for name in KINDS:
        folder = tmp_path / name
        build_reranker(folder, seed=3)
        chatting.merged[name].save_pretrained(folder)
        plain = make_core(folder)
        plain.submit(asked(None))
        core = loaded(chatting)
        core.submit(asked(name))
        assert said(rest(core)) == said(rest(plain))


def test_what_is_cached_is_of_one_version(chatting: Chatting, tmp_path: Path) -> None:
    core = loaded(chatting)
    tokens = [5, 9, 40, 7, 33, 2] * 7
    assert pool(core, tokens, model="m:all")[0].cached == 0
    assert pool(core, tokens, model="m:attention")[0].cached == 0
    assert pool(core, tokens)[0].cached == 0
    assert pool(core, tokens, model="m:all")[0].cached == 32
    # The same content under another name is the same; other content under the same name is not.
    load(core, "copy", chatting.adapters["all"])
    assert pool(core, tokens, model="m:copy")[0].cached == 32
    other = build_random_adapter(tmp_path / "x", chatting.model, seed=9)
    load(core, "all", other)
    assert pool(core, tokens, model="m:all")[0].cached == 0


@pytest.mark.parametrize("overlap", [0, 1])
def test_one_that_is_replaced_in_mid_traffic_disturbs_nobody(
    chatting: Chatting, tmp_path: Path, overlap: int
) -> None:
    other = build_random_adapter(tmp_path / "other", chatting.model, seed=9, rank=6)
    names = [None, "all", "attention"]
    expected = {}
    for name in names:
        core = loaded(chatting)
        core.submit(asked(name, max_tokens=40))
        expected[name] = said(rest(core))
    core = loaded(chatting)
    load(core, "all", other)
    core.submit(asked("all", max_tokens=40))
    new = said(rest(core))
    assert new not in expected.values()
    core = loaded(chatting, overlap=overlap, max_adapters=5)
    for name in names:
        core.submit(asked(name, str(name), max_tokens=40))
    events: list[Event] = []
    for _ in range(6):
        events += core.step()
    assert not any(isinstance(event, AnswerCompleted) for event in events)
    core.submit(LoadAdapter("r", "m", "all", str(other)))
    core.submit(UnloadAdapter("r", "m", "attention"))
    core.submit(asked("all", "new", max_tokens=40))
    events += rest(core)
    told = [event for event in events if isinstance(event, AdapterLoaded)]
    assert len(told) == 2
    assert {name: said(events, str(name)) for name in names} == expected
    assert said(events, "new") == new
    # And nothing is left of those that are gone: their places can be had again.
    gc.collect()
    for name in ("one", "two"):
        load(core, name, chatting.adapters["all"])


def test_a_session_that_had_its_prompt_read_ahead_holds_none(chatting: Chatting) -> None:
    core = make_core(chatting.folder, max_adapters=1)
    load(core, "one", chatting.adapters["all"])
    core.submit(ReadAhead("s", "m:one", [user("What is in this?")]))
    rest(core)
    core.submit(UnloadAdapter("r", "m", "one"))
    assert isinstance(core.step()[0], AdapterLoaded)
    gc.collect()
    load(core, "two", chatting.adapters["attention"])


def test_a_tower_changes_too(tmp_path: Path) -> None:
    folder = tmp_path / "vl"
    model = build_served_qwen3_vl(folder, seed=3)
    both = (*ATTENTION, "qkv", "proj", "linear_fc1", "linear_fc2")
    paths = {
        "tower": build_random_adapter(tmp_path / "t", model, seed=1, targets=both[4:]),
        "both": build_random_adapter(tmp_path / "b", model, seed=2, targets=both),
        "text": build_random_adapter(tmp_path / "x", model, seed=3),
    }
    reading = Reading(folder)
    for name, path in paths.items():
        load(reading.core, name, path)
    theirs = {name: merged(model, path) for name, path in paths.items()}
    for _ in range(2):  # the second time from the caches
        for asked_for in (None, *paths):
            reading.hold()
            given = INPUTS["several"]
            (ours,) = vectors(reading.core, given, model=named(asked_for), normalise=False)
            request = reading.requests["p/document0"]
            other = model if asked_for is None else theirs[asked_for]
            assert np.abs(ours - last_hidden(other, request).numpy()).max() <= TOLERANCE


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "kind": ({"peft_type": "IA3"}, "peft_type: expected LORA, got 'IA3'"),
    "dora": ({"use_dora": True}, "use_dora: expected False, got True"),
    "bias": ({"bias": "all"}, "bias: expected 'none', got 'all'"),
    "modules": ({"modules_to_save": ["lm_head"]}, "modules_to_save: expected None"),
    "pissa": (
        {"init_lora_weights": "pissa_niter_4"},
        "init_lora_weights: expected a beginning that leaves the model's weights as they are",
    ),
    "lora_ga": (
        {"init_lora_weights": "lora_ga"},
        "init_lora_weights: expected a beginning that leaves the model's weights as they are",
    ),
    "kasa": ({"kasa_config": {"beta": 0.1}}, "kasa_config: expected None"),
    "rank": ({"r": 3}, "expected shape [3, 48], got [4, 48]"),
    "large": ({"r": 65}, "r: expected at most 64 (--max-adapter-rank), got 65"),
    "alpha": ({"lora_alpha": "much"}, "lora_alpha: expected a number, got 'much'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_loaded_is_named(chatting: Chatting, tmp_path: Path, name: str) -> None:
    changes, message = WRONG[name]
    folder = build_random_adapter(tmp_path, chatting.model)
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    failed = refusal(make_core(chatting.folder), folder)
    assert failed.code == "invalid_adapter" and message in failed.message


def refusal(core: EngineCore, folder: Path) -> AdapterFailed:
    core.submit(LoadAdapter("r", "m", "x", str(folder)))
    (event,) = core.step()
    assert isinstance(event, AdapterFailed)
    return event


def test_pickles_and_unknown_modules_are_refused(chatting: Chatting, tmp_path: Path) -> None:
    core = make_core(chatting.folder)
    folder = build_random_adapter(tmp_path / "head", chatting.model, targets=("lm_head",))
    assert "got one of lm_head" in refusal(core, folder).message
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    failed = refusal(core, folder)
    assert "got adapter_model.bin, which could execute anything" in failed.message
    assert "expected a file adapter_config.json" in refusal(core, tmp_path / "none").message
    # What nobody has loaded cannot be asked for, nor unloaded; life goes on.
    core.submit(asked("x"))
    failed_answer = outcome(rest(core))
    assert "expected an adapter (none is loaded), got 'x'" in failed_answer.message  # type: ignore[union-attr]
    core.submit(UnloadAdapter("r", "m", "x"))
    (event,) = core.step()
    assert isinstance(event, AdapterFailed)
    core.submit(asked(None))
    assert said(rest(core))


def test_there_are_only_so_many(chatting: Chatting) -> None:
    core = make_core(chatting.folder, max_adapters=1)
    load(core, "one", chatting.adapters["all"])
    core.submit(LoadAdapter("r", "m", "two", str(chatting.adapters["all"])))
    (event,) = core.step()
    assert isinstance(event, AdapterFailed) and "at most 1 adapters" in event.message
    core = make_core(chatting.folder, max_adapters=0)
    core.submit(LoadAdapter("r", "m", "one", str(chatting.adapters["all"])))
    (event,) = core.step()
    assert isinstance(event, AdapterFailed) and event.code == "invalid_model"
