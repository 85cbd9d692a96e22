"""Which model a session's turns are for, and what becomes of settings that a model cannot do."""

from __future__ import annotations

from typing import Any

import pytest

from lookhear.engine.messages import ModelCard, TurnFailed
from lookhear.gateway.realtime.openai.session_updates import first_settings
from lookhear.gateway.realtime.protocol.outputs import UseModel
from tests.gateway.scripted import SESSION, Script, kinds


def used(script: Script) -> list[str]:
    return [output.model for output in script.outputs if isinstance(output, UseModel)]


def transcription(**fields: Any) -> dict[str, Any]:
    return {"audio": {"input": {"turn_detection": None, "transcription": fields}}}


def shown_model(frame: dict[str, Any]) -> str:
    return str(frame["session"]["audio"]["input"]["transcription"]["model"])


def test_the_model_may_change_between_turns_and_within_one() -> None:
    script = Script()
    script.update(transcription())
    script.hear(0.2)
    (updated,) = script.update(transcription(model="fake-english"))
    assert shown_model(updated) == "fake-english"
    script.hear(0.2)  # the open turn keeps what it began with
    script.client("input_audio_buffer.commit")
    script.hear(0.2)
    script.client("input_audio_buffer.commit")
    models = {item: start.settings.model for item, start in script.started.items()}
    assert models == {"item_1": "fake/whisper", "item_2": "fake-english"}
    for item in ("item_2", "item_1"):  # two engines, each at its own pace
        script.say(item, item)
        assert script.complete(item)[0]["transcript"] == item
    (updated,) = script.update(transcription(model=None))
    assert shown_model(updated) == "fake/whisper", "null is the default"
    assert used(script) == ["fake/whisper", "fake-english", "fake/whisper"]


def test_an_unknown_model_changes_nothing_and_the_answer_lists_those_served() -> None:
    script = Script(requested_model="fake-english")
    assert shown_model(script.frames[0]) == "fake-english"
    (problem,) = script.update(transcription(model="whisper-9", language="de"))
    assert problem["error"]["code"] == "model_not_found"
    assert problem["error"]["param"] == "session.audio.input.transcription.model"
    for name in ("fake/whisper", "fake-english", "whisper-9"):
        assert name in problem["error"]["message"]
    (updated,) = script.update(transcription())
    assert updated["session"]["audio"]["input"]["transcription"] == {"model": "fake-english"}
    assert used(script) == ["fake-english"]


def test_a_language_is_checked_against_the_model_it_comes_with() -> None:
    script = Script(requested_model="fake-english")
    (problem,) = script.update(transcription(model="fake/whisper", language="xx"))
    assert problem["error"]["code"] == "invalid_language"
    assert problem["error"]["param"] == "session.audio.input.transcription.language"
    assert used(script) == ["fake-english"], "a refused update changes nothing"
    (problem,) = script.update(transcription(language="fr"))
    assert 'expected one of en; got "fr"' in problem["error"]["message"]
    script.update(transcription(model="fake/whisper", language="fr"))
    assert used(script) == ["fake-english", "fake/whisper"]


@pytest.mark.parametrize(
    ("code", "message", "type", "param"),
    [
        (
            "invalid_language",
            "language: expected de, en; got 'fr'",
            "invalid_request_error",
            "session.audio.input.transcription.language",
        ),
        (
            "invalid_words",
            "words: m gives no word times",
            "invalid_request_error",
            "session.lookhear.words",
        ),
        ("audio_too_long", "the turn is longer than 9 s", "invalid_request_error", None),
        ("too_many_turns", "all are taken", "transcription_error", None),
        ("server_error", "language: what a coincidence", "transcription_error", None),
    ],
)
def test_what_a_model_cannot_do_fails_the_turn_and_names_the_field(
    code: str, message: str, type: str, param: str | None
) -> None:
    script = Script()
    script.update(transcription())
    script.hear(0.2)
    script.client("input_audio_buffer.commit")
    frames = script.engine(TurnFailed(SESSION, "item_1", code, message))
    assert kinds(frames) == ["failed"]
    error = {key: value for key, value in frames[0]["error"].items() if value is not None}
    assert error == {
        "type": type,
        "code": code,
        "message": message,
        **({} if param is None else {"param": param}),
    }


def test_a_model_of_both_abilities_answers_unless_it_is_asked_to_transcribe() -> None:
    both = ModelCard("both", "voxtral", ["en"], 1, 1, abilities=["transcribe", "chat", "audio"])
    other = ModelCard("other", "whisper", ["en"], 1, 1)
    settings, problem = first_settings([other, both], "both", transcribes=False)
    assert problem is None and settings.converse is not None
    assert (settings.converse.model, settings.model) == ("both", "other")
    settings, problem = first_settings([other, both], "both", transcribes=True)
    assert problem is None and settings.converse is None and settings.model == "both"
