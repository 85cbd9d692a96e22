"""A transducer on an imagined card: a CPU's tokens, and nothing waits while a step is launched."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookhear.engine.models.frames import frame_filters
from lookhear.engine.transducer.model import TransducerModel
from tests.engine.imagined.launches import imagine, present
from tests.engine.imagined.regions import serving
from tests.engine.transducer.driving import a_runner, in_pieces, run, sound, text, whole
from tools.random_checkpoints.transducer import build_random_transducer


@pytest.mark.parametrize("ahead", [False, True])
def test_as_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: bool) -> None:
    build_random_transducer(tmp_path)
    asked = [
        [whole("a", sound(1, 30_000), 3)],
        in_pieces("b", sound(2, 40_000), 1, [9000]),
        in_pieces("c", sound(3, 20_000), 1, [5000]),
    ]
    plain = [
        text(results) for results in run(a_runner(TransducerModel.from_folder(tmp_path)), *asked)
    ]
    card, launches = imagine(monkeypatch, in_flight=int(ahead))
    frame_filters.cache_clear()  # those of another card
    with present(card):
        runner = a_runner(TransducerModel.from_folder(tmp_path, device="cuda"))
        runner.capture(lambda share: None)
        heard = run(serving(card, runner), *asked, ahead=ahead)
    frame_filters.cache_clear()
    assert [text(results) for results in heard] == plain and all(plain)
    assert launches.num > 100
