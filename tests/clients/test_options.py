"""The blocking client takes the options that the asynchronous one takes, and its types say so."""

from __future__ import annotations

import inspect
import typing

import pytest

from lookhear import options
from lookhear.blocking import Client
from lookhear.client import AsyncClient

METHODS = {
    "transcribe": options.TranscribeOptions,
    "transcribe_text": options.TranscribeOptions,
    "transcribe_file": options.FileOptions,
    "transcribe_raw": options.RawFileOptions,
    "chat": options.ChatOptions,
    "conversation": options.TalkOptions,
}


@pytest.mark.parametrize("name", METHODS)
def test_the_options_are_those_of_the_asynchronous_client(name: str) -> None:
    typed = typing.get_type_hints(METHODS[name])
    method = getattr(AsyncClient, "transcribe" if name == "transcribe_text" else name)
    hints = typing.get_type_hints(method)
    parameters = inspect.signature(method).parameters.values()
    assert typed == {p.name: hints[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert typing.get_type_hints(getattr(Client, name))["options"] == typing.Unpack[METHODS[name]]


def misspelt(client: Client) -> None:
    """Not run: a type checker must complain about each (else about the comment)."""
    client.transcribe("talk.wav", langauge="en")  # type: ignore[call-arg]
    client.transcribe_text("talk.wav", pace="fast")  # type: ignore[arg-type]
    client.transcribe_file("talk.wav", words=True)  # type: ignore[call-arg]
    client.chat("What is this?", image="cat.jpg")  # type: ignore[call-arg]
    client.conversation(instruction="Be brief.")  # type: ignore[call-arg]
