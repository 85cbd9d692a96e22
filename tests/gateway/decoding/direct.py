"""Decoding without a process, for tests of what stands around it."""

from __future__ import annotations

import os
from functools import cache
from typing import TypeVar

from lookhear.gateway.decoding.decoders import Read
from lookhear.gateway.decoding.jobs import Encoded, Jobs, Options
from lookhear.gateway.decoding.parcel import pack, unpack
from lookhear.gateway.slots import Claim

T = TypeVar("T")

ANYONE = Claim("a client", "a request")


@cache
def jobs() -> Jobs:
    return Jobs()


async def decode_here(
    job: str, encoded: Encoded, options: Options, claim: Claim, read: Read[T]
) -> T:
    """Answers travel in a parcel all the same."""
    header, arrays = jobs().by_name[job](encoded, options)
    parcel = pack(header, arrays)
    try:
        return read(*unpack(parcel))
    finally:
        os.close(parcel)
