from __future__ import annotations

from pathlib import Path

import pytest

from lookhear.bench.numbers import Json
from lookhear.bench.sweep.command import Subject, main
from lookhear.errors import UsageError


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--most", "0"], "--most: expected at least 1"),
        (["--variant", "a=--threads 1", "--variant", "a=--threads 2"], "a name of its own"),
        (["--server", "http://127.0.0.1:9", "--variant", "a="], "leave --server out"),
    ],
)
def test_what_cannot_be_swept_is_refused(wrong: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        main([*wrong, "--out", str(tmp_path)])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("other", "protocols"),
    [
        (["--wire", "deepgram"], ["openai", "deepgram"]),
        (["--no-provisional"], ["openai", "openai no-provisional"]),
        ([], ["openai"]),
    ],
    ids=["wire", "provisional", "same"],
)
def test_another_protocol_is_another_measurement(
    other: list[str], protocols: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = []

    def live(subject: Subject, length: float, sessions: int) -> Json:
        measured.append(sessions)
        none: Json = {"n": 0}
        found = {"commit_lag_s": none, "utterance": {"final_s": none}, "wer_all": 0.0}
        return found | {"audio_per_second": 1.0, "drops": 0}

    monkeypatch.setattr(Subject, "live", live)
    for options in ([], other):
        main(["--server", "http://127.0.0.1:9", *options, "--out", str(tmp_path)])
    assert len(measured) == len(protocols)
    page = (tmp_path / "sweep.html").read_text()
    assert all(f"<td>{protocol}</td>" in page for protocol in protocols)
