from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lookhear.engine.drafts.pace import PassCosts
from lookhear.engine.families.parts import chat
from lookhear.engine.paged.draft_model import ModelDrafter
from lookhear.engine.paged.pass_costs import measured_costs
from lookhear.engine.paged.runner import PagedRunner
from tools.random_checkpoints.qwen3 import build_random_qwen3_aligner, build_served_qwen3_asr


@pytest.fixture(scope="session")
def served_asr(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a random Qwen3-ASR with windows of two seconds and a context of 512 tokens.
    Shared: copy it before you change anything."""
    folder = tmp_path_factory.mktemp("served-asr")
    build_served_qwen3_asr(folder, seed=5)
    return folder


@pytest.fixture(scope="session")
def served_aligner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a random aligner that tells 25 times apart, 2 s. Shared, too."""
    folder = tmp_path_factory.mktemp("served-aligner")
    build_random_qwen3_aligner(folder, seed=1, labels=25)
    return folder


MEASURED: dict[object, PassCosts] = {}  # by networks: the one that answers, the one that guesses


@pytest.fixture(scope="module", autouse=True)
def measured_once() -> Iterator[None]:
    """How long the passes of a network take is measured once. That is for every engine that may
    guess: as much as an answer, and the tests begin hundreds of them."""

    def costs(
        runner: PagedRunner, clock: Callable[[], float], drafter: ModelDrafter | None = None
    ) -> PassCosts:
        guesses = None if drafter is None else type(drafter._network)
        of = type(runner._model), guesses
        if of not in MEASURED:
            MEASURED[of] = measured_costs(runner, clock, drafter)
        return MEASURED[of]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chat, "measured_costs", costs)
        yield
