"""Encoder outputs by digest: bounded in bytes, the least recently used go first."""

from __future__ import annotations

from collections import OrderedDict

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.paged.encoder_cache import EncoderCache


def output(tokens: int) -> torch.Tensor:
    return torch.full((tokens, 4), float(tokens))  # 16 bytes a token


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("af"), st.integers(0, 9), st.integers(1, 8)), max_size=60),
    st.integers(0, 12),
)
def test_any_use_keeps_the_newest_within_its_bytes(
    ops: list[tuple[str, int, int]], room: int
) -> None:
    cache = EncoderCache(16 * room)
    model: OrderedDict[bytes, int] = OrderedDict()  # the same with a plain dictionary
    for op, name, size in ops:
        digest = bytes([name])
        if op == "a":
            cache.add(digest, output(size))
            if digest not in model and size <= room:
                model[digest] = size
                while sum(model.values()) > room:
                    model.popitem(last=False)
        else:
            found = cache.find(digest)
            assert (found is not None) == (digest in model)
            if found is not None:
                assert torch.equal(found, output(model[digest]))
                model.move_to_end(digest)
        cache.check()
        assert len(cache) == len(model) and cache.num_bytes == 16 * sum(model.values())
    assert cache.num_hits + cache.num_misses == sum(op == "f" for op, _, _ in ops)


def test_what_was_found_is_not_the_next_to_go() -> None:
    cache = EncoderCache(32)
    cache.add(b"a", output(1))
    cache.add(b"b", output(1))
    assert cache.find(b"a") is not None
    cache.add(b"c", output(1))
    assert cache.find(b"b") is None and cache.find(b"a") is not None
    assert (cache.num_hits, cache.num_misses, cache.num_evicted) == (2, 1, 1)


def test_what_is_larger_than_all_the_room_throws_nobody_out() -> None:
    cache = EncoderCache(32)
    cache.add(b"a", output(2))
    cache.add(b"huge", output(3))
    assert len(cache) == 1 and cache.find(b"huge") is None
