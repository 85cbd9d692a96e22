"""Questions of every kind, and what is told of their answers with drafts and without."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import strategies as st

from lookhear.engine.core.core import EngineCore
from lookhear.engine.messages import AnswerCompleted, AnswerText, Event, StartAnswer
from lookhear.engine.paged.draft_model import ModelDrafter
from lookhear.engine.paged.runner import PagedRunner
from tests.engine.chat.asking import ask, hold, image, outcome, rest, text, user
from tests.engine.sampling.schemas import SCHEMAS


def _samplings(most: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "temperature": st.sampled_from([0.0, 0.0, 0.3, 1.0]),
            "seed": st.integers(0, 99),
            "max_tokens": st.integers(1, most),
        },
        optional={
            "top_k": st.integers(1, 5),
            "top_p": st.sampled_from([0.1, 0.9]),
            "repetition_penalty": st.sampled_from([0.5, 1.4]),
            "frequency_penalty": st.sampled_from([-2.0, 2.0]),
            "logit_bias": st.just({str(token): -100.0 for token in range(0, 200, 3)}),
            "logprobs": st.integers(0, 3),
            "stop": st.just(["e"]),
            "ignore_end": st.just(True),
            "min_tokens": st.just(1),
        },
    )


WORDS = st.lists(st.sampled_from(["red", "circle", "what", "is", "in a"]), max_size=30)


def _questions(asked: list[tuple[list[str], bool, dict[str, Any]]]) -> list[StartAnswer]:
    return [
        ask(user(*([image("p")] if sees else []), " ".join(words)), answer=f"a{i}", **sampling)
        for i, (words, sees, sampling) in enumerate(asked)
    ]


def questions(most: int) -> st.SearchStrategy[list[StartAnswer]]:
    """One to five side by side, answered by up to `most` tokens each."""
    asked = st.tuples(WORDS, st.booleans(), _samplings(most))
    return st.lists(asked, min_size=1, max_size=5).map(_questions)


# What has been said must come again before it is looked up. A network guesses from the first token
# on, 16 at a time, and each guess costs a pass: three rounds show all that there is. One that is
# right says 16 tokens in a round, one that is wrong a single one.
QUESTIONS, BRIEF, BRIEFEST = questions(90), questions(40), questions(15)


def _in_form(
    schema: dict[str, Any], temperature: float, seed: int, most: int | None
) -> list[StartAnswer]:
    sampling: dict[str, Any] = {"temperature": temperature, "seed": seed, "max_tokens": most}
    return [ask(user("What is it?"), schema=json.dumps(schema), logprobs=2, **sampling)]


IN_FORM: st.SearchStrategy[list[StartAnswer]] = st.builds(
    _in_form,
    SCHEMAS,
    st.sampled_from([0.0, 0.7]),
    st.integers(0, 99),
    st.sampled_from([None, 30, 300, 900]),
)


# With a budget of tokens per step, and a limit of the answer, a draft ends anywhere.
def longer_and_longer(least: int, more: int) -> list[StartAnswer]:
    return [
        ask(user("What?" * n), answer=f"a{n}", max_tokens=least + more * n, ignore_end=True)
        for n in range(1, 6)
    ]


def told(core: EngineCore, questions: list[StartAnswer]) -> dict[str, Any]:
    """Of each answer: its text, why it ended, its usage but for the cache, its tokens, and how
    probable they and the likeliest others were."""
    core.submit(hold("p", 3))
    for question in questions:
        core.submit(question)
    events = rest(core)
    return {question.answer: _told(events, question.answer) for question in questions}


def _told(events: list[Event], answer: str) -> Any:
    done = outcome(events, answer)
    assert isinstance(done, AnswerCompleted), done
    chosen = [
        token
        for event in events
        if isinstance(event, AnswerText) and event.answer == answer
        for token in event.tokens or ()
    ]
    spelled = [(token.token, len(token.top)) for token in chosen]
    usage = (done.usage.prompt, done.usage.output, done.usage.reasoning)
    # Not which others: rounding decides between two that are as probable.
    logprobs = [token.logprob for token in chosen]
    logprobs += [other.logprob for token in chosen for other in token.top]
    return (text(events, answer), done.reason, done.stop_text, usage, spelled), logprobs


def assert_same(told: dict[str, Any], others: dict[str, Any]) -> None:
    assert told.keys() == others.keys()
    for answer, (said, logprobs) in told.items():
        assert said == others[answer][0]
        assert logprobs == pytest.approx(others[answer][1], abs=1e-4)


def passes(core: EngineCore, *questions: StartAnswer) -> int:
    before = core.stats()["decoder_passes"]
    told(core, list(questions))
    return core.stats()["decoder_passes"] - before


def eagerly(core: EngineCore) -> EngineCore:
    """Drafts of a model as long as can be, whatever was measured."""
    assert isinstance(core._runner, PagedRunner)
    assert isinstance(core._runner.drafter, ModelDrafter)
    core._runner.drafter.costs = None
    return core
