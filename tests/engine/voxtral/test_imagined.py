"""A Voxtral on an imagined card: a CPU's tokens, and nothing waits while a step is launched."""

from __future__ import annotations

from pathlib import Path

import pytest

from lookhear.engine.voxtral.model import VoxtralModel
from tests.engine.imagined.launches import imagine, present
from tests.engine.imagined.regions import serving
from tests.engine.voxtral.driving import a_runner, in_pieces, run, sound, text, whole
from tools.random_checkpoints.voxtral import build_random_voxtral


@pytest.mark.parametrize("ahead", [False, True])
def test_as_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: bool) -> None:
    build_random_voxtral(tmp_path)
    asked = [
        [whole("a", sound(1, 20_000))],
        in_pieces("b", sound(2, 16_000), [9000], 2),
        in_pieces("c", sound(3, 9_000), [5000]),
    ]
    plain = [text(results) for results in run(a_runner(VoxtralModel.from_folder(tmp_path)), *asked)]
    card, launches = imagine(monkeypatch, in_flight=int(ahead))
    with present(card):
        runner = a_runner(VoxtralModel.from_folder(tmp_path, device="cuda"))
        runner.capture(lambda share: None)
        heard = run(serving(card, runner), *asked, ahead=ahead)
    assert [text(results) for results in heard] == plain and all(plain)
    assert launches.num > 100
