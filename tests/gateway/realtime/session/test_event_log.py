"""Wherever it is cut, the frames that a client gets, joined, are those of no cut at all."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from lookhear.gateway.realtime.session.event_log import EventLog


@dataclass(frozen=True)
class Put:
    length: int


@dataclass(frozen=True)
class Write:
    """most, count: of one batch. arriving: how many of its frames the client gets, if it is cut."""

    most: int
    count: int
    arriving: int | None = None


steps = st.lists(
    st.one_of(
        st.builds(Put, st.integers(0, 40)),
        st.builds(Write, st.integers(1, 60), st.integers(1, 5), st.none() | st.integers(0, 5)),
    ),
    max_size=60,
)


def frame(number: int, length: int) -> str:
    return f"{number}:" + "x" * length


@given(steps=steps, kept=st.integers(0, 400))
def test_what_a_client_gets_is_what_was_put(steps: list[Put | Write], kept: int) -> None:
    log = EventLog(kept)
    put: list[str] = []
    got: list[str] = []
    greetings = 0
    last = "none yet"
    for step in [*steps, Write(10**9, 10**9)]:
        if isinstance(step, Put):
            text = frame(len(put), step.length)
            log.put(text, text.partition(":")[0])
            put.append(text)
            continue
        taken = log.take(step.most, step.count)
        assert len(taken) <= step.count
        assert len(taken) <= 1 or sum(map(len, taken)) <= step.most
        assert taken or not log.unsent
        arrived = taken if step.arriving is None else taken[: step.arriving]
        for text in arrived:
            last, _, _ = text.partition(":")
            if not last.startswith("hello"):
                got.append(text)
        if step.arriving is None:
            continue
        if not log.rewind(last):
            # Only where more is missing than is kept.
            missing = sum(len(text) for text in put[len(got) :])
            assert last == "none yet" or missing + 64 * (greetings + 1) > kept
            return
        greetings += 1
        log.put_first(f"hello{greetings}:", f"hello{greetings}")
        [first] = log.take(10**9, 1)
        assert first == f"hello{greetings}:", "the present greeting first, and no older one"
    assert got == put
    assert log.unsent == 0


@given(lengths=st.lists(st.integers(1, 30), min_size=1), kept=st.integers(0, 200))
def test_so_much_is_kept_and_no_more(lengths: list[int], kept: int) -> None:
    log = EventLog(kept)
    for number, length in enumerate(lengths):
        log.put("x" * length, str(number))
    log.take(10**9, 10**9)
    for number in range(len(lengths)):
        behind = sum(lengths[number + 1 :])
        copy = EventLog(kept)
        for place, length in enumerate(lengths):
            copy.put("x" * length, str(place))
        copy.take(10**9, 10**9)
        assert copy.rewind(str(number)) == (behind <= kept)
        assert copy.unsent == (behind if behind <= kept else 0)
    assert not log.rewind("never sent")


def test_a_greeting_that_no_socket_took_is_not_for_the_next() -> None:
    log = EventLog(100)
    log.put("one", "1")
    assert log.take(10, 9) == ["one"]
    log.put_first("hello", "h1")
    log.put("two", "2")
    assert log.rewind("1")  # the second socket broke before anything was written to it
    assert log.unsent == 3
    log.put_first("hello again", "h2")
    assert log.take(100, 9) == ["hello again", "two"]
