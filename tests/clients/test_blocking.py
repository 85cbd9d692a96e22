"""What a blocking client leaves behind when it is closed: nothing."""

from __future__ import annotations

import sys
import threading

import pytest

from lookhear import Client, Microphone, SessionReady
from tests.clients.chat_server import ChatServer, chunk
from tests.clients.counting_server import CountingServer
from tests.clients.sources.test_audio import FakeDevice
from tests.clients.talking_server import TalkingServer
from tests.clients.threads import on_thread


def test_closing_it_ends_a_session_whose_events_somebody_keeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", FakeDevice())
    server = CountingServer()
    with on_thread(server.running()):
        with Client(server.url) as client:
            events = client.transcribe(Microphone())
            assert isinstance(next(events), SessionReady)
            assert not FakeDevice.last.closed
        assert FakeDevice.last.closed
        with pytest.raises(RuntimeError, match="closed"):
            next(events)
        assert list(events) == []
        client.close()


@pytest.mark.parametrize("is_waiting", [True, False], ids=["waiting", "between two events"])
def test_closing_it_ends_what_another_thread_listens_to(
    monkeypatch: pytest.MonkeyPatch, is_waiting: bool
) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", FakeDevice())
    server, begun, told = CountingServer(), threading.Event(), list[str]()
    closed = threading.Event()
    with on_thread(server.running()):
        client = Client(server.url)

        def listen() -> None:
            try:
                for event in client.transcribe(Microphone()):
                    assert isinstance(event, SessionReady)
                    begun.set()
                    if not is_waiting:
                        assert closed.wait(60)
            except RuntimeError as error:
                told.append(str(error))

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        assert begun.wait(60)
        client.close()
        closed.set()
        thread.join(60)
        assert not thread.is_alive() and FakeDevice.last.closed
    assert told == ["the client was closed"]


def test_closing_it_ends_an_answer_and_a_conversation() -> None:
    server = ChatServer([chunk(content="Once")], hold=True)
    with server.running():
        with Client(server.url) as client:
            story = client.chat("A story?")
            assert next(story) == "Once"
        assert server.hung_up.wait(60)
    talking = TalkingServer()
    with on_thread(talking.running()):
        with Client(talking.url) as client:
            talk = client.conversation().__enter__()
            talk.add_text("Hello")
        assert talking.hung_up.wait(60)
