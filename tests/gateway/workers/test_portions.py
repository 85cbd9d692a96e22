"""What several workers get of the limits adds up to them."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.config import ConfigError, EngineConfig
from lookhear.gateway.config import GatewayConfig
from lookhear.gateway.workers.portions import DIVIDED, check_portions, engines_of, portion

workers = st.integers(1, 64)


@given(workers, st.data())
def test_the_portions_of_a_limit_add_up_to_it_and_are_alike(
    count: int, data: st.DataObject
) -> None:
    limits = {
        name: data.draw(st.integers(least * count, least * count * 1000), name)
        for name, least in DIVIDED.items()
    }
    config = replace(GatewayConfig(workers=count), **limits)  # type: ignore[arg-type]
    check_portions(config)
    parts = [portion(config, number) for number in range(1, count + 1)]
    for name, whole in limits.items():
        values = [getattr(part, name) for part in parts]
        assert sum(values) == whole and max(values) - min(values) <= 1


@given(workers)
def test_what_is_not_a_limit_of_the_whole_is_the_same_everywhere(count: int) -> None:
    config = GatewayConfig(workers=count, max_sessions=6400)
    for number in (1, count):
        part = portion(config, number)
        for field in fields(config):
            if field.name not in (*DIVIDED, "media_workers"):
                assert getattr(part, field.name) == getattr(config, field.name), field.name


@given(workers, st.integers(1, 200))
def test_each_has_a_decoder_and_there_are_as_many_as_there_should_be(
    count: int, wanted: int
) -> None:
    config = GatewayConfig(workers=count, media_workers=wanted, max_sessions=6400)
    parts = [portion(config, number).media_workers for number in range(1, count + 1)]
    assert min(parts) >= 1 and sum(parts) == max(wanted, count)


@pytest.mark.parametrize("name", DIVIDED)
def test_a_limit_of_which_somebody_would_get_nothing(name: str) -> None:
    least = 3 * DIVIDED[name]
    config = replace(GatewayConfig(workers=3), **{name: least - 1})  # type: ignore[arg-type]
    option = name.replace("_", "-")
    with pytest.raises(ConfigError, match=f"^{option}: expected at least {least} with --workers 3"):
        check_portions(config)


def test_no_limit_stays_none() -> None:
    config = GatewayConfig(workers=3, max_client_sessions=0)
    check_portions(config)
    assert portion(config, 2).max_client_sessions == 0


def test_engines_know_whose_they_are() -> None:
    models = [EngineConfig(model="a", workers=3), EngineConfig(model="b", workers=3)]
    own = engines_of(models, 2)
    assert own == [replace(model, worker=2) for model in models]
