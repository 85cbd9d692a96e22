"""The wire of OpenAI's beta, told by its shape and refused by the name that OpenAI refuses it by.

A header `OpenAI-Beta` alone means nothing: clients of the present API send it, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lookhear.gateway.checks.checks import ProtocolError

CODE = "beta_api_shape_disabled"
EVENT = "transcription_session.update"
# Of a session, whose type it did not have. They are elsewhere now.
FIELDS = (
    *("input_audio_format", "input_audio_transcription", "input_audio_noise_reduction"),
    *("output_audio_format", "modalities", "turn_detection"),
)


def beta_refusal(event: Mapping[str, Any]) -> ProtocolError | None:
    """Why a client event is refused; None if it is none of the beta's."""
    name, session = event.get("type"), event.get("session")
    if name == EVENT:
        text = f'type: expected session.update, its session.type "transcription"; got {EVENT}'
        return ProtocolError(f"{text}, which is of OpenAI's beta", code=CODE, param="type")
    if name != "session.update" or not isinstance(session, dict) or "type" in session:
        return None
    field = next((field for field in FIELDS if field in session), None)
    if field is None:
        return None
    text = 'session.type: expected "transcription" or "realtime", and audio.input; got no type'
    text += f" and {field}, as OpenAI's beta had it"
    return ProtocolError(text, code=CODE, param="session.type")
