"""What the protocol asks of its shell, in order."""

from __future__ import annotations

from dataclasses import dataclass

from lookhear.engine.messages import Message
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.protocol.dialect import Close, Dialect, Json
from lookhear.gateway.realtime.protocol.events import (
    Refused,
    ResponseStatus,
    SessionEvent,
    SpeakersLost,
)
from lookhear.media.audio.pcm import AudioFormat
from lookhear.media.voice.vad import VadConfig


@dataclass(frozen=True, slots=True)
class Send:
    """A server frame for the client. problem: the one that it tells, if it is an error."""

    event: Json
    problem: ProtocolError | None = None


@dataclass(frozen=True, slots=True)
class Submit:
    """A message for the engine."""

    message: Message


@dataclass(frozen=True, slots=True)
class UseModel:
    """Turns that begin from now on are for this model: its engine is the session's to lose."""

    model: str


@dataclass(frozen=True, slots=True)
class Tune:
    """How audio is to be heard from the next append on."""

    format: AudioFormat
    vad: VadConfig


@dataclass(frozen=True, slots=True)
class ResetIntake:
    """The buffer ends here by hand (commit or clear), or the turn was over at `sample`: the
    detector begins a new turn after it."""

    sample: int | None = None


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """For logs and metrics. lag: seconds from the commit to the transcript, None if it failed."""

    item: str
    seconds: float
    lag: float | None


@dataclass(frozen=True, slots=True)
class ResponseFinished:
    """For logs and metrics. status: how it ended."""

    response: str
    status: ResponseStatus


@dataclass(frozen=True, slots=True)
class GuessAsked:
    """For metrics: somebody asks what an eager answer is the answer to."""

    answer: str


Finding = TurnFinished | ResponseFinished | GuessAsked
Output = Send | Submit | UseModel | Tune | ResetIntake | Finding | Close


class Emitter:
    """Collects what the parts of one session put out, in order. Events are rendered at once, since
    the items in them change. session: as messages for the engine name it. dialect: of the client;
    another one may take over."""

    def __init__(self, session: str, dialect: Dialect) -> None:
        self.session = session
        self.dialect = dialect
        self._out: list[Output] = []

    def send(self, event: SessionEvent) -> None:
        """Tell the client."""
        problem = event.problem if isinstance(event, Refused | SpeakersLost) else None
        for frame in self.dialect.render(event):
            self._out.append(Send(frame, problem))

    def refuse(self, problem: ProtocolError, event_id: str | None = None) -> None:
        """Tell the client what cannot be. event_id: of the command, unless the problem has one."""
        problem.event_id = problem.event_id or event_id
        self.send(Refused(problem))

    def submit(self, message: Message) -> None:
        """Tell the engine."""
        self._out.append(Submit(message))

    def put(self, output: Output) -> None:
        """Ask the shell for something else."""
        self._out.append(output)

    def take(self) -> list[Output]:
        """All since the last call."""
        out, self._out = self._out, []
        return out
