"""What every wire does the same way: connect, pace the audio, write down how a session ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from lookhear.bench.measures.trace import RATE, Trace
from lookhear.bench.wires.job import SessionPlan

ANSWER_SECONDS = 60.0  # after the end of the audio; a server that is so far behind has failed
OPEN_SECONDS = 20.0


class Refused(Exception):
    """The server did not accept the session; the message is its reason."""


def connected(url: str, **options: Any) -> connect:
    """The session's socket, for `async with`: no compression, messages up to 16 MiB. options: of
    websockets' `connect`; unless they say otherwise no proxy is asked."""
    return connect(
        url,
        compression=None,
        max_size=2**24,
        open_timeout=OPEN_SECONDS,
        close_timeout=2,
        **{"proxy": None, **options},
    )


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """`work` as a task beside the block, ended with it. What it raises is for who awaits it."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def samples_of(plan: SessionPlan, pcm: NDArray[np.int16]) -> NDArray[np.int16]:
    """[n] samples at RATE of the session's audio, the silence after it included."""
    silence = np.zeros(int(plan.silence_seconds * RATE), "<i2")
    return np.concatenate([pcm[plan.start : plan.end], silence])


async def send_paced(
    send: Callable[[NDArray[np.int16]], Awaitable[None]],
    samples: NDArray[np.int16],
    trace: Trace,
    started: float,
    *,
    rate: int = RATE,
    pace: float = 1.0,
    packet_seconds: float = 0.02,
) -> None:
    """Hand `samples` at `rate` to `send`, each packet when a microphone would have it.

    The clock is absolute: started is time.monotonic() at sample 0, so a late packet does not delay
    the ones after it. The trace counts in samples of the normal form, at RATE.
    """
    size = int(packet_seconds * rate)
    for first in range(0, len(samples), size):
        packet = samples[first : first + size]
        end = first + len(packet)
        await asyncio.sleep(started + end / rate / pace - time.monotonic())
        await send(packet)
        trace.packets.append((time.monotonic() - started, end * RATE // rate))


def patience(started: float, samples: NDArray[np.int16], rate: int = RATE) -> asyncio.Timeout:
    """Around the wait for what is still to come, behind the last packet: however fast they were
    sent, a server may take as long as their samples last. started: as in `send_paced`."""
    end = started + len(samples) / rate
    return asyncio.timeout(max(0.0, end - time.monotonic()) + ANSWER_SECONDS)


@asynccontextmanager
async def recorded(trace: Trace) -> AsyncIterator[None]:
    """Around a whole session: what the server did to it becomes its close code and its problem."""
    try:
        yield
        trace.close_code = 1000
    except ConnectionClosed as error:
        trace.close_code = error.rcvd.code if error.rcvd is not None else 1006
        trace.problem = f"closed early: {error}"
    except (OSError, InvalidHandshake, Refused, ValueError, KeyError) as error:
        trace.problem = explain(error)


def explain(error: Exception) -> str:
    """One line that says what was wrong with the server."""
    match error:
        case OSError() if "Connect call failed" in str(error):  # of one address, or of each
            return "nobody listens there (connection refused)"
        case TimeoutError():
            return f"no answer within {ANSWER_SECONDS:.0f} s ({error or 'timed out'})"
        case InvalidStatus() if error.response.status_code == 401:
            return "wrong or missing API key (HTTP 401)"
        case InvalidStatus() if error.response.status_code == 403:
            return "refused: no such address, or not with this API key (HTTP 403)"
        case InvalidStatus() if error.response.status_code == 404:
            return "no such address, or none of a WebSocket (HTTP 404)"
        case InvalidStatus():
            return f"not a WebSocket of this kind (HTTP {error.response.status_code})"
        case InvalidHandshake():
            return f"not a WebSocket: {error}"
        case Refused():
            return f"the server refused the session: {error}"
        case ValueError() | KeyError():
            return f"not this protocol: {type(error).__name__}: {error}"
        case OSError() if error.strerror:
            return f"cannot be reached: {error.strerror}"
    return f"{type(error).__name__}: {error}"
