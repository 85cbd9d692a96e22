from __future__ import annotations

from pathlib import Path

import pytest

from lookhear.bench.sweep.command import main
from lookhear.errors import UsageError


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--lengths", "-1"], "--lengths: expected numbers above 0"),
        (["--sessions", "0"], "--sessions: expected numbers above 0"),
        (["--rates", "nan"], "--rates: expected numbers above 0"),
        (["--rate-step", "0"], "--rate-step: expected more than 0"),
        (["--most", "0"], "--most: expected at least 1"),
        (["--variant", "a=--threads 1", "--variant", "a=--threads 2"], "a name of its own"),
        (["--server", "http://127.0.0.1:9", "--variant", "a="], "leave --server out"),
    ],
)
def test_what_cannot_be_swept_is_refused(wrong: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        main([*wrong, "--out", str(tmp_path)])
    assert not list(tmp_path.iterdir())
