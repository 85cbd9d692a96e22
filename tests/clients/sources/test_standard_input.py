"""What is piped in, whatever it is: a pipe, a file, a device."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from lookhear.sources.standard_input import read_blocks


async def all_of(descriptor: int) -> bytes:
    try:
        return b"".join([block async for block in read_blocks(descriptor, asyncio.Event())])
    finally:
        os.close(descriptor)


async def test_a_pipe() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"sound")
    os.close(writing)
    assert await all_of(reading) == b"sound"


async def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"sound" * 100_000)
    assert await all_of(os.open(tmp_path / "a.wav", os.O_RDONLY)) == b"sound" * 100_000


async def test_a_device_that_nobody_can_wait_for() -> None:
    assert await all_of(os.open(os.devnull, os.O_RDONLY)) == b""


async def test_one_that_never_ends_can_be_stopped() -> None:
    stop = asyncio.Event()
    descriptor = os.open("/dev/zero", os.O_RDONLY)
    async for block in read_blocks(descriptor, stop):
        assert not any(block)
        stop.set()
    os.close(descriptor)
