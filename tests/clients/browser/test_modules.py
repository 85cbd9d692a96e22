"""Parts of the browser page by themselves, in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
import pytest_asyncio
from rich.cells import cell_len

from tests.clients.browser.chromium import Browser, Page
from tests.clients.browser.pages import IN_CHROMIUM, READY, clean_page
from tests.gateway.running import running

pytestmark = IN_CHROMIUM


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page(browser: Browser) -> AsyncIterator[Page]:
    async with running() as gateway, clean_page(browser, gateway.http, READY) as page:
        yield page


async def test_what_is_firm_of_a_turn_that_fails_is_not_lost(page: Page) -> None:
    kept, blank = await page.js("""(async () => {
        const { Transcript } = await import("./transcript/transcript.js");
        const [box, hint] = [document.createElement("div"), document.createElement("p")];
        const whole = { onChange() {}, begun: () => 0, seeker: () => null };
        const transcript = new Transcript(box, hint, whole);
        const told = "conversation.item.input_audio_transcription.";
        const take = (item_id, type, more) => transcript.take({ item_id, type, ...more }, 0);
        const error = { message: "the engine failed" };
        take("one", "input_audio_buffer.speech_started");
        take("one", told + "delta", { delta: " it was" });
        take("one", told + "failed", { error });
        const kept = transcript.turns.map(({ text }) => text);
        transcript.clear();
        take("two", "input_audio_buffer.speech_started");
        take("two", told + "failed", { error });
        return [kept, transcript.isBlank];
    })()""")
    assert kept == ["it was"]
    assert not blank  # so it can be cleared


async def test_frames_in_which_nothing_is_new_are_not_held_for_ever(page: Page) -> None:
    """The server tells only of those it keeps."""
    sent, again = await page.js("""(async () => {
        const { Frames } = await import("./session/frames.js");
        const frames = new Frames();
        for (let time = 0; time < 5000; time++) frames.event(`picture ${time}`, time);
        const sent = frames.sent.size;
        frames.kept(4999);
        return [sent, frames.again().map(({ image }) => image)];
    })()""")
    assert sent < 100
    assert again == ["picture 4999"]


async def test_it_is_said_why_a_picture_was_refused(page: Page) -> None:
    said = await page.js("""(async () => {
        const { serverProblem } = await import("./shared/problems.js");
        const problem = "expected a picture whose sides differ at most 200 times";
        const [code, path] = ["invalid_image", "item_a-1.content[0].image_url: "];
        return ["", path].map((where) => serverProblem({ code, message: where + problem }));
    })()""")
    why = "expected a picture whose sides differ at most 200 times"
    assert said == [f"The server refused this picture: {why}."] * 2


async def test_who_has_no_place_is_told_so_in_a_sentence(page: Page) -> None:
    said = await page.js("""(async () => {
        const { closedProblem, serverProblem } = await import("./shared/problems.js");
        const problem = { code: "too_many_speakers", message: "expected a place among those" };
        return [serverProblem(problem), closedProblem(1013, "", problem)];
    })()""")
    full = "The server has as many speakers as it can follow"
    assert said == [f"{full}, so this is not heard. Try again in a moment.", f"{full}."]


async def test_of_what_is_too_long_only_the_question_is_taken_back(page: Page) -> None:
    """The picture in front of it may fit, and an answer is nobody's to take back."""
    left = await page.js("""(async () => {
        const { Session } = await import("./session/session.js");
        const session = new Session();
        session.connection.send = () => {};
        const fail = (id) => {
            const error = { code: "context_length_exceeded", message: "messages: too long" };
            session.take({ type: "response.created", response: { id } });
            session.take({ type: "response.done",
                response: { id, status: "failed", status_details: { error }, output: [] } });
        };
        session.history.ask("picture", [{ type: "input_image", image_url: "data:" }], false);
        session.history.ask("question", [{ type: "input_text", text: "why" }], true);
        fail("first");
        session.history.addAnswer("answer", "Because.");
        fail("second");
        return session.history.items().map(({ id }) => id);
    })()""")
    assert left == ["picture", "answer"]


async def test_who_has_no_room_is_asked_once_more_in_a_new_session(page: Page) -> None:
    told = await page.js("""(async () => {
        const { Session } = await import("./session/session.js");
        const codes = ["too_many_items", "conversation_too_large", "pictures_too_large", "other"];
        return codes.map((code) => {
            const session = new Session();
            let opened = 0, refused = 0;
            session.connection.open = () => opened++;
            session.connection.send = () => {};
            session.addEventListener("refused", () => refused++);
            session.history.ask("old", [{ type: "input_text", text: "how" }], true);
            session.history.get("old").acked = true;
            session.history.ask("new", [{ type: "input_text", text: "why" }], true);
            const refuse = () => session.take({ type: "error", error: { code, event_id: "new" } });
            refuse();
            const kept = session.history.items().length;
            refuse();
            return [opened, kept, refused];
        });
    })()""")
    assert told == [[1, 2, 1]] * 3 + [[0, 1, 1]]


async def test_why_a_connection_ended_is_a_sentence(page: Page) -> None:
    said = await page.js("""(async () => {
        const { closedProblem } = await import("./shared/problems.js");
        const away = { code: "going_away", message: "the server is shutting down; connect again" };
        const late = { code: "timeout", message: "the session is over" };
        const whole = { code: "idle", message: "Nothing was said." };
        return [away, late, whole].map((problem) => closedProblem(1001, "", problem));
    })()""")
    assert said == ["The server is shutting down.", "The session is over.", "Nothing was said."]


async def test_subtitles_have_the_signs_and_spaces_of_the_text(page: Page) -> None:
    """A sign that came after its word is in no word, and not every word has a space before it."""
    said = [
        (
            "An inter-office line. 3.5, at www.one.org.",
            "An inter -office line 3 .5 at www .one.org",
        ),
        ("今天的天气很好。我们走吧。", "今天 的 天气 很好 我们 走 吧"),
        ("No times: 3.5,  here.", ""),
    ]
    shown = await page.js(
        """(async (said) => {
        const { cues } = await import("./transcript/subtitles.js");
        const timed = (word, index) => ({ word, start: index * 100, end: index * 100 + 100 });
        return said.map(([text, words]) => cues([
            { start: 0, end: 2000, text, words: words.split(" ").filter(Boolean).map(timed) },
        ]).map((cue) => cue.text));
    })(SAID)""".replace("SAID", json.dumps(said))
    )
    assert shown == [[text] for text, _ in said]


async def test_a_cue_ends_with_a_long_sentence(page: Page) -> None:
    cues = await page.js("""(async () => {
        const { cues } = await import("./transcript/subtitles.js");
        const [first, next] = ["天".repeat(43) + "。", "很好。"];
        const times = [{ word: first, start: 0, end: 900 }, { word: next, start: 900, end: 1200 }];
        return cues([{ start: 0, end: 1200, text: first + next, words: times }]);
    })()""")
    assert [(cue["start"], cue["end"], cue["text"][-2:]) for cue in cues] == [
        (0, 900, "天。"),
        (900, 1200, "好。"),
    ]


async def test_subtitles_of_languages_without_spaces_are_short_enough_to_be_read(
    page: Page,
) -> None:
    """Neither has a model word times for all of them."""
    sentence = "今天天气很好。我们去公园散步，看见了很多花。"
    texts = [sentence * 8, "天" * 100, "one two three " * 20]
    written = await page.js(f"""import("./transcript/subtitles.js").then(({{ cues, srt }}) =>
        {json.dumps(texts)}.map((text) => {{
            const turns = [{{ start: 0, end: 24000, text, words: [] }}];
            return [cues(turns), srt(turns)];
        }}))""")
    for text, (cues, srt) in zip(texts, written, strict=True):
        assert "".join(cue["text"].replace(" ", "") for cue in cues) == text.replace(" ", "")
        assert all(a["end"] == b["start"] for a, b in pairwise(cues))
        assert (cues[0]["start"], cues[-1]["end"]) == (0, pytest.approx(24_000))
        shown = [line for line in srt.splitlines() if not re.match(r"\d|$", line)]
        assert all(cell_len(line) <= 42 for line in shown)
    assert all(cue["text"][-1] in "。，" for cue in written[0][0])
