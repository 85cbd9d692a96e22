"""The live camera: what is kept, where it stands in prompts, and that nothing grows."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.messages import ChatMessage, VideoPart
from lookhear.gateway.realtime.pictures.camera import Camera, DecodedFrame
from lookhear.gateway.realtime.pictures.media_requests import scaled
from lookhear.media.pictures.similarity import thumbnail
from tests.gateway.conversing import MODELS, Talk, picture, pictures_of, readable, shown
from tests.gateway.fake_chat import VISION


def looking(**camera: Any) -> Talk:
    talk = Talk()
    talk.update({"lookhear": {"camera": camera}})
    return talk


def test_only_what_changed_is_kept() -> None:
    talk = looking(report=True)
    (kept,) = talk.frame("a", 0)
    assert kept == {**kept, "timestamp_ms": 0, "frames": 1}
    assert talk.frame("a", 500) == []
    (kept,) = talk.frame("c", 1000)
    assert kept["frames"] == 2
    assert talk.frame("d", 1100) == []  # too early: not even looked at
    talk.say_text("What?")
    talk.respond()
    assert talk.prompt() == [("user", "<<a c>>", "What?")]
    (video, _) = talk.asked[-1].messages[0].parts
    assert isinstance(video, VideoPart) and video.seconds == [0.0, 1.0]


def test_nothing_is_reported_unless_asked_for() -> None:
    talk = Talk()
    assert talk.frame("a", 0) == []
    assert "lookhear" not in talk.frames[0]["session"]
    assert talk.client("lookhear.input_video_frame.clear")[0]["type"].endswith("cleared")
    assert talk.held == {}


def test_frames_stand_before_the_question_that_follows_them() -> None:
    talk = looking()
    talk.frame("a", 0)
    talk.say_text("one")
    talk.frame("c", 1000)
    talk.respond()
    talk.frame("e", 2000)
    talk.reply("A")
    talk.frame("g", 3000)
    talk.say_text("two")
    talk.respond()
    assert talk.prompt() == [
        ("user", "<<a c>>", "one"),
        ("assistant", "A"),
        ("user", "<<e g>>", "two"),
    ]
    talk.reply("B")
    talk.frame("i", 4000)
    talk.respond()
    assert talk.prompt()[-2:] == [("assistant", "B"), ("user", "<<i>>")]


def test_frames_are_read_ahead_as_the_next_prompt_begins() -> None:
    talk = looking()
    talk.frame("a", 0)
    talk.frame("c", 1000)
    assert readable(talk.ahead[-1].messages) == [("user", "<<a c>>")]
    talk.say_text("one")
    talk.respond()
    talk.frame("e", 2000)
    assert len(talk.ahead) == 2  # somebody waits
    talk.reply("A")
    assert readable(talk.ahead[-1].messages) == [
        ("user", "<<a c>>", "one"),
        ("assistant", "A"),
        ("user", "<<e>>"),
    ]


def test_older_frames_are_thinned() -> None:
    talk = looking(max_frames=4)
    for number in range(8):
        talk.frame(str(number), 1000 * number)
    assert pictures_of(talk.ahead[-1].messages) == [str(n) for n in range(8)]
    talk.frame("8", 8000)
    assert pictures_of(talk.ahead[-1].messages) == ["1", "3", "5", "6", "7", "8"]
    assert talk.dropped == ["0", "2", "4"]


def test_frames_of_an_answer_that_never_came_join_those_before() -> None:
    talk = looking()
    talk.frame("a", 0)
    talk.say_text("one")
    talk.respond()
    talk.frame("c", 1000)
    talk.break_off()
    talk.respond()
    assert talk.prompt() == [("user", "<<a c>>", "one")]
    talk.reply("A")
    talk.frame("e", 2000)
    talk.client("conversation.item.delete", item_id=talk.done[-1]["output"][0]["id"])
    talk.respond()
    assert talk.prompt() == [("user", "<<a c e>>", "one")]


def test_another_size_begins_another_part() -> None:
    talk = looking()
    talk.frame("a", 0)
    talk.frame("c@64x32", 1000)
    talk.frame("e@64x32", 2000)
    talk.say_text("What?")
    talk.respond()
    assert talk.prompt() == [("user", "<<a>>", "<<c e>>", "What?")]


def test_large_frames_are_scaled_down() -> None:
    big = picture("a", 1600, 1200)
    small = scaled(big, 640 * 480)
    assert small.pixels.shape == (480, 640, 3)
    assert small.name != big.name
    assert scaled(small, 640 * 480) is small


def test_frames_and_a_context_of_its_own() -> None:
    talk = looking()
    talk.frame("a", 0)
    talk.respond({"conversation": "none", "input": [shown("b", "What?")]})
    assert talk.prompt() == [("user", "<b>", "What?")]


def test_a_context_that_is_full_loses_the_older_frames() -> None:
    talk = looking()
    for index, name in enumerate("acegikmo"):
        talk.frame(name, 1000 * index)
    talk.say_text("What?")
    talk.respond()
    talk.break_off("context_length_exceeded")
    assert talk.prompt() == [("user", "<<i k m o>>", "What?")]
    talk.reply("A")
    assert sorted(talk.dropped) == ["a", "c", "e", "g"]
    for index, name in enumerate("bdfh"):  # as many as turned out to fit, and no more
        talk.frame(name, 20_000 + 1000 * index)
        assert len(pictures_of(talk.ahead[-1].messages)) <= 4
    talk.respond()
    assert pictures_of(talk.asked[-1].messages)[-2:] == ["f", "h"]


def test_what_cannot_be_a_frame() -> None:
    talk = looking()
    talk.frame("a", 1000)
    (problem,) = talk.frame("c", 999)
    assert problem["error"]["param"] == "timestamp_ms"
    (problem,) = talk.frame("broken", 2000)
    assert problem["error"]["param"] == "image"
    (problem,) = talk.client("lookhear.input_video_frame.append", image="x", timestamp_ms=-1)
    assert problem["error"]["param"] == "timestamp_ms"
    (problem,) = talk.client("lookhear.input_video_frame.append", timestamp_ms=3000)
    assert problem["error"]["param"] == "image"
    (problem,) = talk.update({"lookhear": {"camera": {"max_frames": 0}}})
    assert problem["error"]["param"] == "session.lookhear.camera.max_frames"
    talk.client("lookhear.input_video_frame.clear")
    talk.frame("c", 0)  # the clock may begin anew
    blind = VISION.__class__("fake/text", "qwen3", [], 1, 1, abilities=["chat"])
    (problem,) = Talk(models=[*MODELS, blind], requested_model="fake/text").frame("a", 0)
    assert problem["error"]["code"] == "unsupported_image"


def test_thousands_of_frames_cost_no_more_than_a_hundred() -> None:
    talk = looking(max_frames=8)
    sizes = []
    for number in range(2_400):
        talk.frame(str(number), 500 * number)
        if number % 120 == 119:
            talk.say_text("What now?")
            talk.respond()
            assert talk.prompt()[-1][0] == "user"
            newest = pictures_of(talk.asked[-1].messages)
            assert newest[-8:] == [str(n) for n in range(number - 7, number + 1)]
            talk.reply("This")
            sizes.append(len(newest))
            talk.frames.clear()
            talk.outputs.clear()
            talk.ahead.clear()
            talk.asked.clear()
        assert len(talk.held) <= 16
    assert max(sizes) <= 16


def test_prompts_only_grow_between_thinnings() -> None:
    """What was read ahead is the beginning of what is read next."""
    talk = looking(max_frames=8)
    broken = 0
    for number in range(400):
        talk.frame(str(number), 500 * number)
        if len(talk.ahead) >= 2:
            old, new = (units(ahead.messages) for ahead in talk.ahead[-2:])
            broken += new[: len(old)] != old
    assert broken <= 400 / 4  # each thinning makes room for four frames


def units(messages: list[ChatMessage]) -> list[Any]:
    """Frames and texts, one by one, as they follow one another in the prompt."""
    flat: list[Any] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, VideoPart):
                flat += list(zip(part.pictures, part.seconds, strict=True))
            else:
                flat.append(part)
    return flat


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 250), max_size=200),
    st.integers(1, 10),
    st.floats(0, 0.3),
)
def test_a_camera_is_bounded_and_in_order(
    shades: list[int], max_frames: int, min_change: float
) -> None:
    camera = Camera()
    kept: list[int] = []
    for at, shade in enumerate(shades):
        image = picture(str(at))
        image.pixels[:] = shade
        if camera.see(DecodedFrame(image, thumbnail(image.pixels)), at, None, min_change):
            kept.append(at)
        before = len(camera.frames)
        gone = camera.thin(max_frames)
        assert before == len(gone) + len(camera.frames)
        assert len(camera.frames) <= 2 * max_frames
    times = [round(frame.seconds * 1000) for frame in camera.frames]
    assert times == sorted(times)
    newest = kept[-max_frames:]
    assert times[len(times) - len(newest) :] == newest
    shown = [shades[at] for at in kept]
    assert all(
        abs(np.float32(a) - np.float32(b)) / 255 >= min_change - 1e-6
        for a, b in zip(shown, shown[1:], strict=False)
    )
