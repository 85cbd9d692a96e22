"""Embeddings in the place of texts: those of the very tokens of a text are the text, for every
family, whatever the steps, the company and the caches; and what cannot be read is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from lookhear.engine.chat.desk import ChatDesk
from lookhear.engine.chat.prompt import ChatPrompter
from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import (
    AnswerCompleted,
    AnswerFailed,
    ChatMessage,
    CloseSession,
    EmbeddingsPart,
    HoldEmbeddings,
    ImagePart,
    Part,
    TextPart,
)
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.request import Medium, PagedSequence
from lookhear.engine.paged.runner import PagedRunner
from tests.engine.chat.asking import ask, hold, image, make_core, outcome, rest, user
from tools.random_checkpoints.pooling import build_reranker
from tools.random_checkpoints.qwen3 import EXPERTS
from tools.random_checkpoints.qwen3_omni import build_served_qwen3_omni
from tools.random_checkpoints.qwen3_vl import build_served_qwen3_vl
from tools.random_checkpoints.smolvlm import build_served_smolvlm
from tools.random_checkpoints.voxtral_chat import build_random_voxtral_chat

Rows = NDArray[np.float32]
NEW = 10
STORY = "Tell me a long story about two kings and a queen, please, as slowly as you can."
BUILDERS: dict[str, Callable[[Path], Any]] = {
    "text": lambda folder: build_reranker(folder, seed=3),
    "vision": lambda folder: build_served_qwen3_vl(folder, seed=3),
    "experts": lambda folder: build_served_qwen3_vl(folder, seed=3, text=EXPERTS),
}


@pytest.fixture(scope="module", params=BUILDERS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    BUILDERS[request.param](folder)
    return folder


class Asked:
    """A core that takes embeddings. logits: of each answer by its key, one row for each token."""

    def __init__(self, folder: Path, **changes: object) -> None:
        values = {"enable_prompt_embeds": True, "draft": "off", **changes}
        self.core: EngineCore = make_core(folder, **values)
        self.sequences: dict[str, PagedSequence] = {}
        self.logits: dict[str, list[torch.Tensor]] = {}
        runner = self.core._runner
        assert isinstance(runner, PagedRunner)
        self.runner = runner
        place, run = runner.place, runner.passes.run

        def placed(request: Any) -> Any:
            sequence = self.sequences[request.key] = place(request)
            return sequence

        def ran(work: Any, wanted: Any, *rest: Any) -> Any:
            found = run(work, wanted, *rest)
            at = 0
            for (sequence, _), count in zip(work, wanted, strict=True):
                kept = self.logits.setdefault(sequence.key, [])
                kept += found.values[at : at + count].clone()
                at += count
            return found

        runner.place = placed  # type: ignore[method-assign]
        runner.passes.run = ran  # type: ignore[method-assign,assignment]
        self.core.submit(hold("p", 1))

    @property
    def prompter(self) -> ChatPrompter:
        desk: Any = self.core._desk
        while not isinstance(desk, ChatDesk):
            desk = desk._desk
        return desk._prompter

    def rows(self, text: str) -> Rows:
        """The embeddings of the tokens of a text."""
        tokens = self.prompter.tokenizer.encode(text)
        rows = self.runner._decoder.embed(torch.tensor(tokens)).float().numpy()
        assert len(rows) > 1
        return np.array(rows)

    def given(self, text: str, name: str = "e", session: str = "s") -> EmbeddingsPart:
        self.core.submit(HoldEmbeddings(session, "m", name, self.rows(text)))
        return EmbeddingsPart(name)

    def ask(self, *messages: ChatMessage, answer: str = "a", **changes: Any) -> list[int]:
        self.core.submit(ask(*messages, answer=answer, max_tokens=NEW, **changes))
        done = outcome(rest(self.core), answer)
        assert isinstance(done, AnswerCompleted), done
        return self.tokens(answer)

    def tokens(self, answer: str) -> list[int]:
        return self.sequences[f"s/{answer}"].generated.tokens

    def rows_of(self, answer: str) -> torch.Tensor:
        return torch.stack(self.logits[f"s/{answer}"])


def said(part: Part) -> list[ChatMessage]:
    """A conversation with the part in the midst of it."""
    return [
        ChatMessage("system", [TextPart("Be brief.")]),
        user("Go"),
        ChatMessage("assistant", [TextPart("Where?")]),
        ChatMessage("user", [part]),
    ]


def test_embeddings_of_a_text_are_the_text(folder: Path) -> None:
    ours, plain = Asked(folder), Asked(folder, enable_prompt_embeds=False)
    tokens = ours.ask(*said(ours.given(STORY)))
    assert tokens == plain.ask(*said(TextPart(STORY)))
    assert (ours.rows_of("a") - plain.rows_of("a")).abs().max() <= 1e-4
    prompts = [len(each.sequences["s/a"].request.tokens) for each in (ours, plain)]
    assert prompts[0] == prompts[1]


def test_any_role_may_say_them(folder: Path) -> None:
    ours = Asked(folder)
    texts = {"system": "Be brief and kind", "user": "Go on then", "assistant": "As you wish"}
    given = [ChatMessage(role, [ours.given(t, role)]) for role, t in texts.items()]
    plain = [ChatMessage(role, [TextPart(text)]) for role, text in texts.items()]
    assert ours.ask(*given, user("Now")) == ours.ask(*plain, user("Now"), answer="b")
    assert (ours.rows_of("a") - ours.rows_of("b")).abs().max() <= 1e-4


@pytest.mark.parametrize("budget", [17, 23, 512])
def test_steps_company_and_caches_change_nothing(folder: Path, budget: int) -> None:
    """Budgets so small that prompts are cut inside the embeddings; then all again, cached."""
    texts = [STORY, STORY[:40], "And now something else, for the sake of it, as it were."]
    alone = {}
    for text in texts:
        ours = Asked(folder)
        alone[text] = ours.ask(*said(ours.given(text))), ours.rows_of("a")
    ours = Asked(folder, token_budget=budget)
    for again in ("", " again"):
        for text in texts:
            name = text + again
            messages = said(ours.given(text, text))
            ours.core.submit(ask(*messages, max_tokens=NEW, answer=name))
            ours.core.submit(ask(*said(TextPart(text)), max_tokens=NEW, answer=f"{name} told"))
        rest(ours.core)
        for text in texts:
            for name in (text + again, f"{text}{again} told"):
                assert ours.tokens(name) == alone[text][0]
                assert (ours.rows_of(name) - alone[text][1]).abs().max() <= 1e-4
    for text in texts:  # the second time all but the last block is there
        second = ours.sequences[f"s/{text} again"]
        most = (len(second.request.tokens) - 1) // BLOCK_TOKENS * BLOCK_TOKENS
        assert second.num_cached == most > len(ours.rows(text)) // 2


def test_with_overlapping_steps_it_is_the_same(folder: Path) -> None:
    ours = Asked(folder, overlap=1, token_budget=20)
    plain = Asked(folder)
    assert ours.ask(*said(ours.given(STORY))) == plain.ask(*said(TextPart(STORY)))


def test_other_rows_and_other_tenants_share_nothing(folder: Path) -> None:
    ours = Asked(folder)
    rows = ours.rows(STORY)
    for name, held in (("e", rows), ("same", rows.copy()), ("other", rows * np.float32(1.01))):
        ours.core.submit(HoldEmbeddings("s", "m", name, held))

    def cached(name: str, **changes: Any) -> int:
        answer = f"{name} {changes}"
        ours.ask(ChatMessage("user", [EmbeddingsPart(name)]), answer=answer, **changes)
        return ours.sequences[f"s/{answer}"].num_cached

    first = ours.sequences
    assert cached("e") == 0 and cached("e", temperature=0.0) > len(rows) // 2
    assert cached("same") > len(rows) // 2, "equal rows are the same, whoever sent them"
    assert cached("other") < BLOCK_TOKENS, "as little as one number more is another prompt"
    assert cached("same", cache_salt="another tenant's") == 0
    assert cached("e", cache_salt="another tenant's") > len(rows) // 2
    assert len(first) == 6 and ours.core.stats()["encoder_cache_bytes"] == 0


def test_given_rows_never_have_the_name_of_what_was_encoded() -> None:
    rows = np.ones((4, 8), np.float32)
    assert Medium.given(rows).digest == Medium.given(rows.copy()).digest
    assert Medium.given(rows).digest != Medium.of(rows, 4).digest
    assert Medium.given(rows).digest != Medium.given(rows.reshape(8, 4)).digest


def test_embeddings_stand_beside_pictures_and_texts(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("vl")
    build_served_qwen3_vl(folder, seed=3)
    ours, plain = Asked(folder, token_budget=24), Asked(folder)
    given = user(image("p"), ours.given("What is it, dear?"), image("p"), "Say it.")
    told = user(image("p"), "What is it, dear?", image("p"), "Say it.")
    assert ours.ask(given) == plain.ask(told)
    assert (ours.rows_of("a") - plain.rows_of("a")).abs().max() <= 1e-4
    assert ours.core.stats()["media_tokens_encoded"] == 35, "the picture alone, and once"


def test_what_penalties_see_is_the_answer(folder: Path) -> None:
    """No token of the vocabulary that an answer is made of stands for embeddings."""
    ours = Asked(folder)
    penalised = ours.ask(user(ours.given(STORY)), repetition_penalty=1.5)
    filler = ours.prompter._filler
    prompt = ours.sequences["s/a"].request.tokens
    assert prompt.count(filler) >= len(ours.rows(STORY)) and filler not in penalised
    assert filler in ours.prompter.tokenizer.added.values()


REFUSALS: dict[str, tuple[Rows | None, str, str]] = {
    "width": (np.ones((3, 31), np.float32), "invalid_value", "expected embeddings of width 32"),
    "length": (np.ones((5000, 32), np.float32), "context_length_exceeded", "got 5000 tokens"),
    "name": (None, "invalid_value", "expected embeddings that are held, got 'e'"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_read_is_the_part_that_is_to_blame(folder: Path, name: str) -> None:
    rows, code, expected = REFUSALS[name]
    ours = Asked(folder)
    if rows is not None:
        ours.core.submit(HoldEmbeddings("s", "m", "e", rows))
    ours.core.submit(ask(user("Well"), user("So", EmbeddingsPart("e"))))
    failed = outcome(rest(ours.core))
    assert isinstance(failed, AnswerFailed)
    assert (failed.code, failed.message_index, failed.part_index) == (code, 1, 1)
    assert expected in failed.message


def test_without_the_setting_there_are_none(folder: Path) -> None:
    ours = Asked(folder, enable_prompt_embeds=False)
    ours.core.submit(HoldEmbeddings("s", "m", "e", np.ones((3, 32), np.float32)))
    ours.core.submit(ask(user(EmbeddingsPart("e"))))
    failed = outcome(rest(ours.core))
    assert isinstance(failed, AnswerFailed)
    assert (failed.code, failed.message) == (
        "invalid_model",
        "expected no embeddings, m takes none",
    )


def test_rows_that_overflow_end_their_own_answer(folder: Path) -> None:
    ours = Asked(folder)
    alone = ours.ask(user("Tell me a story"), answer="before")
    ours.core.submit(HoldEmbeddings("s", "m", "e", np.full((20, 32), 3e38, np.float32)))
    ours.core.submit(ask(user(EmbeddingsPart("e")), answer="wild", max_tokens=NEW))
    ours.core.submit(ask(user("Tell me a story"), answer="beside", max_tokens=NEW))
    events = rest(ours.core)
    assert isinstance(outcome(events, "beside"), AnswerCompleted)
    assert ours.tokens("beside") == alone
    ended = outcome(events, "wild")  # a norm may bring them back to what can be computed with
    assert isinstance(ended, AnswerCompleted) or ended.code == "model_error"


def test_what_a_session_held_goes_with_it(folder: Path) -> None:
    ours = Asked(folder)
    ours.ask(user(ours.given(STORY)))
    assert ours.core.stats()["embeddings"] == 1 and ours.core.stats()["embedding_bytes"] > 0
    ours.core.submit(CloseSession("s"))
    ours.core.step()
    assert ours.core.stats()["embeddings"] == ours.core.stats()["embedding_bytes"] == 0


def test_pictures_are_still_the_users_alone(folder: Path) -> None:
    ours = Asked(folder)
    ours.core.submit(ask(ChatMessage("system", [ImagePart("p")]), user("Go")))
    assert isinstance(outcome(rest(ours.core)), AnswerFailed)


OTHERS: dict[str, Callable[[Path], Any]] = {
    "omni": lambda folder: build_served_qwen3_omni(folder, seed=3),
    "smolvlm": lambda folder: build_served_smolvlm(folder, seed=3),
    "voxtral": lambda folder: build_random_voxtral_chat(folder, seed=3),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_families_read_them_as_well(tmp_path: Path, name: str) -> None:
    OTHERS[name](tmp_path)
    ours, plain = Asked(tmp_path, token_budget=17), Asked(tmp_path, enable_prompt_embeds=False)
    ours.ask(*said(ours.given(STORY)))
    plain.ask(*said(TextPart(STORY)))
    assert ours.tokens("a") == plain.tokens("a")
    assert (ours.rows_of("a") - plain.rows_of("a")).abs().max() <= 1e-4
