"""What the core needs of whoever runs requests on a model. See `WhisperRunner`, `PagedRunner`.

place(request)      room for it is taken; nothing is computed
launch(work)        encoders and one decoder pass over all the work; nothing is read back
finish()            of a launched step: what was sampled is read, and the sequences go on
release(sequence)   its room is free again
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch

from lookhear.engine.core.request import Demand, Phase, RequestError, Result

log = logging.getLogger(__name__)


class Running(Protocol):
    """A placed request, as the core sees it."""

    phase: Phase

    @property
    def key(self) -> str:
        """Its owner's."""

    @property
    def num_drafted(self) -> int:
        """Tokens of its draft."""

    def demand(self) -> Demand:
        """What it could be fed next."""

    def result(self) -> Result:
        """What came of it. Only when it is done."""


S = TypeVar("S", bound=Running)
R = TypeVar("R", contravariant=True)
Q = TypeVar("Q")


@dataclass(frozen=True, slots=True)
class Failure:
    """One request that cannot go on. code, message: for its client. bug: what it is, if ours."""

    key: str
    code: str
    message: str
    bug: Exception | None = None

    @classmethod
    def of(cls, key: str, error: Exception, what: str) -> Failure:
        """Of an error while doing what, in words."""
        if isinstance(error, RequestError):
            return cls(key, error.code, str(error))
        said = str(error) or type(error).__name__  # Python's own MemoryError says nothing
        return cls(key, "server_error", f"{what}: {said}", error if is_bug(error) else None)


NOT_FINITE = "the model's output is not finite (NaN weights or input, or an overflow)"


# Of a launched step, called once: reads what was sampled and moves the sequences on. Returns the
# requests that the step has ended; everything else went on.
Finish = Callable[[], list[Failure]]


class Runner(Protocol, Generic[R, S]):
    """Owns a model's caches. All calls belong to the thread that owns the device."""

    @property
    def free_tokens(self) -> int:
        """Places of the paged cache that a new request could reserve now."""

    def place(self, request: R) -> S:
        """Raises `RequestError` if it could never run."""

    def launch(self, work: Sequence[tuple[S, int]]) -> Finish:
        """work: sequences and how many tokens each is fed."""

    def release(self, sequence: S) -> None:
        """The request is over: its room is free again."""

    def forget(self, key: str) -> None:
        """The owner is gone: what is kept for its next request is not needed."""

    def stats(self) -> dict[str, int]:
        """Counters, for the metrics."""

    def check(self, num_running: int) -> None:
        """Raise AssertionError if anything leaked."""


def check_done(failures: Sequence[Failure]) -> None:
    """Of a step that nobody asked for: raises what ended it, a bug itself, else a RuntimeError."""
    for failure in failures:
        raise failure.bug or RuntimeError(failure.message)


def warm_up(runner: Runner[Q, S], requests: Sequence[Q]) -> None:
    """Runs requests that nobody made, one after the other, each to its end, so that no kernel is
    compiled while somebody waits. What fails is said, and may still serve others."""
    for request in requests:
        sequence = runner.place(request)
        failures: list[Failure] = []
        while sequence.phase is not Phase.DONE and not failures:
            failures = runner.launch([(sequence, sequence.demand().known)])()
        if failures:
            log.warning("warming up: %s: %s", failures[0].code, failures[0].message)
        runner.release(sequence)


T = TypeVar("T")


def isolated(group: Sequence[T], work: Callable[[Sequence[T]], None]) -> list[tuple[T, Exception]]:
    """Do the work for all at once; if that fails, for each alone. Returns those that fail alone.

    So one request that cannot be carried out (out of memory, mostly, a kernel that cannot be
    compiled for it, or a grammar that is too much work) takes nobody with it, nor does a bug of
    ours that shows with one; one that shows with each of several is raised. After an error that
    leaves a device unusable (an illegal address) there is no next step: it is raised.
    """
    if not group:
        return []
    try:
        work(group)
    except Exception as error:
        raise_if_lost(error)
        if len(group) == 1:
            return _told([(group[0], error)])
    else:
        return []
    failed: list[tuple[T, Exception]] = []
    for item in group:
        try:
            work([item])
        except Exception as error:
            raise_if_lost(error)
            failed.append((item, error))
    bugs = [error for _, error in failed if is_bug(error)]
    if len(bugs) == len(group):
        raise bugs[0]
    return _told(failed)


def _told(failed: list[tuple[T, Exception]]) -> list[tuple[T, Exception]]:
    """The same; the log has been told where our bugs are."""
    for _, error in failed:
        if is_bug(error):
            log.error("a bug with one request", exc_info=error)
    return failed


def is_bug(error: Exception) -> bool:
    """Whether it is ours: no refusal, nor what torch and Triton say of the device or its memory."""
    # Triton's own errors are no RuntimeErrors, and Triton may not be there.
    is_triton = type(error).__module__.partition(".")[0] == "triton"
    return not (is_triton or isinstance(error, (RequestError, RuntimeError, MemoryError)))


def raise_if_lost(error: Exception) -> None:
    """Where it may be one that leaves the device unusable, the device is asked."""
    if isinstance(error, torch.AcceleratorError):
        torch.cuda.synchronize()  # a device that is lost says so again whatever it is asked
