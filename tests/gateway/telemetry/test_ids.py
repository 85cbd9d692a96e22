"""Ids differ, look alike, and come from the system's randomness."""

from __future__ import annotations

import os
import re

import pytest

from lookhear.gateway.telemetry.ids import DRAWN, Ids


def test_thousands_of_ids_are_all_different() -> None:
    new_id = Ids()
    made = [new_id("item") for _ in range(3 * DRAWN + 1)]
    assert len(set(made)) == len(made)
    assert all(re.fullmatch("item_[0-9a-f]{24}", one) for one in made)


def test_no_digit_of_the_randomness_is_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[bytes] = []

    def urandom(size: int) -> bytes:
        drawn.append(os.getrandom(size))
        return drawn[-1]

    monkeypatch.setattr(os, "urandom", urandom)
    new_id = Ids()
    made = "".join(new_id("x").removeprefix("x_") for _ in range(2 * DRAWN))
    assert bytes.fromhex(made) == b"".join(drawn)
