"""The blocking client takes the options that the asynchronous one takes, and its types say so."""

from __future__ import annotations

import inspect
import typing

import pytest

import lookhear
from lookhear import message
from lookhear.blocking import BlockingConversation, Client
from lookhear.chat.conversation import Conversation
from lookhear.client import AsyncClient
from lookhear.live.events import Event, Said, Word
from lookhear.live.options import StreamOptions, TranscribeOptions

TWINS = [(Client, AsyncClient), (BlockingConversation, Conversation)]


@pytest.mark.parametrize(("blocking", "asynchronous"), TWINS)
def test_the_options_are_those_of_the_asynchronous_client(
    blocking: type, asynchronous: type
) -> None:
    methods = {name for name, value in vars(asynchronous).items() if inspect.isfunction(value)}
    asked = {name for name in methods if not name.startswith("_")} - {"aclose"}
    assert asked <= set(vars(blocking))
    for name in asked:
        ours, theirs = getattr(blocking, name), getattr(asynchronous, name)
        assert inspect.signature(ours) == inspect.signature(theirs), name


def test_what_is_yielded_can_be_imported() -> None:
    """With what it is made of."""
    for event in (*typing.get_args(Event), Said, Word):
        assert getattr(lookhear, event.__name__) is event


def test_what_a_stream_is_asked_for_has_the_types_of_its_options() -> None:
    typed, options = typing.get_type_hints(TranscribeOptions), typing.get_type_hints(StreamOptions)
    assert typed == {name: options[name] for name in typed}
    for client in (AsyncClient, Client):
        for name in ("transcribe", "transcribe_text"):
            hints = typing.get_type_hints(getattr(client, name))
            assert hints["options"] == typing.Unpack[TranscribeOptions]


@pytest.mark.parametrize("name", ["images", "videos", "audio"])
def test_one_medium_alone_is_not_taken_for_many(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: expected a list, got 'scene.png' alone$"):
        message("user", "What is it?", **{name: "scene.png"})


async def test_one_word_alone_is_not_taken_for_many() -> None:
    client = AsyncClient("http://127.0.0.1:1")
    with pytest.raises(ValueError, match="keywords: expected a list, got 'time' alone"):
        client.transcribe("talk.wav", keywords="time")
    with pytest.raises(ValueError, match="keywords: expected a list, got 'time' alone"):
        await client.transcribe_file("talk.wav", keywords="time")
    with pytest.raises(ValueError, match="images: expected a list, got 'scene.png' alone"):
        await client.conversation().add("What is it?", images="scene.png")


def misspelt(client: Client) -> None:
    """Not run: a type checker must complain about each (else about the comment)."""
    client.transcribe("talk.wav", langauge="en")  # type: ignore[call-arg]
    client.transcribe_text("talk.wav", pace="fast")  # type: ignore[arg-type]
    client.transcribe_file("talk.wav", words=True)  # type: ignore[call-arg]
    client.chat("What is this?", image="cat.jpg")  # type: ignore[call-arg]
    client.conversation(instruction="Be brief.")  # type: ignore[call-arg]
