"""How a job of a decoder went: for whoever asked, and to be counted."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from lookhear.gateway.decoding.crew import DecoderEnded
from lookhear.gateway.decoding.decoder import Limits
from lookhear.gateway.decoding.parcel import Header, ParcelError
from lookhear.gateway.http.errors import ApiError
from lookhear.media.base import MediaError

log = logging.getLogger(__name__)


class DecoderFailed(Exception):
    """A bug of ours, with its place."""


class Verdict:
    """outcome: "done", "refused" (the file is at fault), "memory", "time", "crashed", "lost" (the
    decoder, and by no fault of the file), "failed" (ours), or "cancelled"."""

    def __init__(self, limits: Limits) -> None:
        self.outcome = "cancelled"
        self._limits = limits

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Inside a decoder is asked. Raises MediaError: the file is not what it should be, or
        decoding it takes too much; and ApiError (503): a decoder was lost."""
        self.outcome = "failed"
        try:
            yield
        except DecoderEnded as ended:
            self.outcome = _outcome(ended.status)
            raise self._told(ended.status) from None
        except DecoderFailed as bug:
            # Ours, but found by this file: whoever sent it is told, and goes on with others.
            log.error("a decoder failed", exc_info=bug)
            raise self._told() from None
        except TimeoutError:
            self.outcome = "time"
            raise self._told() from None
        except MediaError as error:
            self.outcome = "memory" if error.reason == "too_much_memory" else "refused"
            raise
        except (ParcelError, KeyError, IndexError) as error:
            raise RuntimeError(f"a decoder gave a wrong answer: {error}") from error
        except (asyncio.CancelledError, GeneratorExit):
            self.outcome = "cancelled"
            raise

    def done(self, told: Header) -> Header:
        """told: how a decoder answered -> what it says of what it has done."""
        match told:
            case {"done": dict(done)}:
                self.outcome = "done"
                return done
            case {"refused": [str(reason), str(detail)]}:
                raise MediaError(reason, detail)
            case {"limit": _}:
                self.outcome = "memory"
                raise self._told()
            case {"bug": str(text)}:
                raise DecoderFailed(text)
            case _:
                raise ParcelError("expected an answer")

    def _told(self, status: int = 0) -> Exception:
        limits = self._limits
        match self.outcome:
            case "memory":
                most = f"{limits.memory_bytes} bytes of memory"
                message = f"expected a file that can be decoded in {most}; got one that needs more"
                return MediaError("too_much_memory", message)
            case "time":
                most = f"{limits.seconds:g} s of processor time"
                message = f"expected a file that can be decoded in {most}; got one that takes more"
                return MediaError("too_much_time", message)
            case "failed":
                message = (
                    "expected a file that can be decoded; got one over which the decoder failed"
                )
                return MediaError("unsupported", message)
            case "crashed":
                message = "expected a file that can be decoded; got one over which the decoder "
                return MediaError("unsupported", message + f"ended ({_name(status)})")
            case _:
                message = "the process that decoded the file was ended; try again"
                return ApiError(503, message, code="decoder_lost")


def _outcome(status: int) -> str:
    """What it means that a decoder ended with this status."""
    if status == -signal.SIGXCPU:
        return "time"
    # By SIGKILL who is short of memory ends processes, be it a neighbour's fault.
    return "crashed" if status < 0 and status != -signal.SIGKILL else "lost"


def _name(status: int) -> str:
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
