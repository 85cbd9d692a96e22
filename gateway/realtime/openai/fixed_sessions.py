"""Sessions that a client secret was made for: what it says, the client cannot change.

How the session answers is fixed as a whole, what was left out included: instructions, model, length
and all that a response may override. Of how it hears and what it reports the fields that the secret
names are fixed, the others are the client's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lookhear.engine.messages import ModelCard
from lookhear.gateway.checks.checks import ProtocolError
from lookhear.gateway.realtime.openai.session_updates import updated
from lookhear.gateway.realtime.protocol.commands import (
    ClientCommand,
    Configure,
    CreateResponse,
    ResponsePlan,
)
from lookhear.gateway.realtime.protocol.dialect import Json
from lookhear.gateway.realtime.settings import (
    ConverseSettings,
    SessionSettings,
    default_settings,
)


def fixed_settings(
    session: Json, models: Sequence[ModelCard]
) -> tuple[SessionSettings, ProtocolError | None]:
    """How such a session begins, and what is wrong with it: then it must not begin."""
    settings = default_settings(models)
    try:
        return updated(settings, models, session=session), None
    except ProtocolError as problem:
        return settings, problem


def within(command: ClientCommand, session: Json) -> ClientCommand:
    """The same command, unable to change what is fixed. Raises nothing: who tries is shown in the
    echo what holds."""
    match command:
        case Configure(change=change):

            def changed(settings: SessionSettings, models: Sequence[ModelCard]) -> SessionSettings:
                new = updated(change(settings, models), models, session=session)
                return replace(new, converse=settings.converse)

            return replace(command, change=changed)
        case CreateResponse(plan=plan):

            def planned(settings: ConverseSettings) -> ResponsePlan:
                return replace(plan(settings), settings=settings)

            return replace(command, plan=planned)
        case _:
            return command
