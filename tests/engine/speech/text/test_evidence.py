"""Which ticks have to agree."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lookhear.engine.messages import SAMPLE_RATE
from lookhear.engine.speech.live_config import Evidence, LiveConfig
from lookhear.engine.speech.text.evidence import Looks, num_heard, num_least, num_sure
from lookhear.engine.speech.text.hypothesis import Hypothesis


def look(number: int) -> Hypothesis:
    return Hypothesis(tokens=(7, number), logprobs=(0.0, 0.0))


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 200))
def test_all_since_a_position_and_the_one_before(steps: list[int], evidence: int) -> None:
    looks, ends, at = Looks(), [], 0
    for number, step in enumerate(steps):
        at += step
        ends.append(at)
        expected = [i for i, end in enumerate(ends) if end > at - evidence]
        older = [i for i, end in enumerate(ends) if end <= at - evidence]
        looks.add(at, look(number), at - evidence)
        found = [hypothesis.tokens[1] for hypothesis in looks.since(at - evidence)]
        assert found == ([older[-1], *expected] if older else [])
        assert [hypothesis.tokens[1] for hypothesis in looks.last()] == [number]


def test_committed_tokens_are_no_part_of_a_look() -> None:
    looks = Looks()
    looks.add(10, heard(" In", " order"), 0)
    looks.commit(heard(" In").tokens, piece)
    assert [look.tokens for look in looks.last()] == [heard(" order").tokens]
    looks.clear()
    assert looks.last() == []


def test_a_look_that_takes_what_was_said_for_all_contradicts_nothing() -> None:
    for committed in ((), heard(" In").tokens):
        looks = Looks()
        if committed:
            looks.commit(committed, piece)
        for number, words in enumerate([(" order", " to"), (), (" order", " to", " work")]):
            looks.add(10 * number, heard(*words), 0)
        assert len(looks.since(0)) == (2 if committed else 3), "who is still"


def test_what_a_look_wrote_in_another_way_is_committed_too() -> None:
    looks = Looks()
    for number, words in enumerate([(",", " in", " order"), (" in", "-", " order"), (" out",)]):
        looks.add(number, heard(*words), 0)
    looks.commit(heard(".", " In").tokens, piece)
    left = [heard(" order").tokens, heard("-", " order").tokens, ()]
    assert [look.tokens for look in looks.since(0)] == left


def test_where_words_have_no_blanks_between_them_any_character_may_end_one() -> None:
    pieces = ["今日", "は", "、", "雨"]

    def spelt(token: int) -> bytes:
        return pieces[token].encode()

    for language, left in (("ja", (3,)), ("en", ())):
        looks = Looks()
        looks.add(10, Hypothesis((0, 1, 3), (0.0,) * 3, language=language), 0)
        looks.commit((0, 2, 1), spelt)
        assert looks.last()[0].tokens == left


# --- words of the same letters -----------------------------------------------------------------

WORDS = [
    " In",
    " in",
    " order",
    ".",
    ",",
    "-",
    " out",
    " to",
    " work",
    " sure",
    " that",
    " nobody",
    " than",
]
CONFIG = LiveConfig(evidence=(Evidence(-math.inf, 30),), letters=60)


def piece(token: int) -> bytes:
    return WORDS[token].encode()


def heard(*words: str) -> Hypothesis:
    tokens = tuple(WORDS.index(word) for word in words)
    return Hypothesis(tokens=tokens, logprobs=(0.0,) * len(tokens))


def sure(*looks: Hypothesis, config: LiveConfig = CONFIG) -> int:
    """Of the last one; each heard 10 samples more than the one before."""
    *before, new = looks
    older, end = Looks(), 10 * len(looks)
    for number, look in enumerate(before, 1):
        older.add(10 * number, look, end - config.oldest_look)
    most = len(new.tokens)
    return num_sure(new, older, config, piece, end=end, is_quiet=False, most=most)


def test_signs_that_change_hold_nothing_up_for_ever() -> None:
    one, other = heard(".", " In", " order", " to"), heard(" in", " order", " to")
    flapping = [one, other] * 3
    assert sure(*flapping) == 0  # for as long as letters have to be the same
    assert sure(*flapping, one) == 3  # "to" is held back
    assert sure(*flapping, other) == 2
    assert sure(*[one] * 4) == 3  # alike in all


def test_other_letters_are_waited_for() -> None:
    one, other = heard(" in", " order", " to"), heard(" in", " work", " to")
    assert sure(*[one, other] * 3, one) == 1


def test_what_most_looks_heard_is_not_waited_for_longer_than_that() -> None:
    one, other = heard(" in", " order", " to"), heard(" in", " work", " to")
    looks = [one, other, one, one, other, one]
    assert sure(*looks) == 1  # not for long enough
    assert sure(*looks, one) == 2  # five of seven
    assert sure(*looks, other) == 1  # what few heard waits, also if it is the last


def test_the_last_word_is_sure_once_nothing_has_followed_for_long() -> None:
    """As beside a television, which is no silence."""
    config = replace(CONFIG, settled=50)
    one, other = heard(" in", " order", " to"), heard(" in", " order", " work")
    assert sure(*[one] * 5, config=config) == 2
    assert sure(*[one] * 6, config=config) == 3
    assert sure(one, other, *[one] * 4, config=config) == 2
    assert sure(*[one] * 4, other, one, config=config) == 2


def test_looks_that_hear_no_more_while_somebody_speaks_on_are_asked_for_more() -> None:
    def least(
        looks: Looks, draft: Hypothesis, voiced: int, told: int = 0, *, is_cut: bool = False
    ) -> int:
        start = -SAMPLE_RATE  # the audio began so long ago that all of it can have been said
        times = {"start": start, "told": told, "voiced": voiced, "long": 30}
        return num_least(looks, draft, piece, b"", **times, is_cut=is_cut)

    one, other = heard(" in", " order", "."), heard(" In", " order")
    stuck, growing, silent = Looks(), Looks(), Looks()
    for number in range(1, 6):
        stuck.add(10 * number, (one, other)[number % 2], 0)
        growing.add(10 * number, heard(*[" in", " order", " to", " work", " sure"][:number]), 0)
        silent.add(10 * number, heard(), 0)
    assert least(stuck, one, voiced=50) == 4, "more than the draft, its signs included"
    assert least(stuck, one, voiced=35) == 1, "nobody spoke on for so long"
    assert least(growing, heard(" in"), voiced=50) == 1
    assert least(growing, heard(" in"), voiced=50, told=20) == 0
    assert least(growing, heard(" in"), voiced=50, told=20, is_cut=True) == 1, (
        "nobody hears it again"
    )
    assert least(growing, heard(" in"), voiced=50, told=50, is_cut=True) == 0, "all is told"
    assert least(silent, heard(), voiced=50) == 0, "nobody may have said anything"
    assert least(silent, heard(), voiced=50, is_cut=True) == 0
    stuck.commit(one.tokens, piece)
    stuck.add(60, heard(), 0)
    assert least(stuck, heard(), voiced=60) == 0, "all that was heard is told"


def test_who_knew_a_sentence_before_it_was_said_is_not_stuck() -> None:
    """A sentence that comes again is known from its first word on, and no look has more of it."""
    second, again = SAMPLE_RATE, heard(" in", " order", " to", " work", " that", " nobody", ".")

    def least(voiced: int) -> int:
        looks = Looks()
        for end in range(second, voiced, second // 4):
            looks.add(end, again, 0)
        times = {"start": 0, "told": second // 2, "voiced": voiced, "long": 3 * second // 2}
        return num_least(looks, again, piece, b" So", **times, is_cut=False)

    assert least(13 * second // 4) == 1
    assert least(4 * second) == len(again.tokens) + 1, "said, and more since"


def at_cut(new: Hypothesis, looks: Looks, end: int = 10, least: float = -1.0) -> int:
    return num_heard(new, looks, piece, end, least=least)


def test_a_cut_commits_no_more_than_was_heard_beyond_it() -> None:
    looks = Looks()
    made_up = heard(" in", " order", " to", " sure", " that", " nobody")
    assert at_cut(made_up, looks) == 6  # nothing says otherwise
    looks.add(10, heard(" In", " order", "."), 0)
    assert at_cut(made_up, looks, 5) == 2
    assert at_cut(heard(" in", " order", " to"), looks) == 3
    assert at_cut(heard(" out"), looks) == 1
    assert at_cut(made_up, looks, 10 + SAMPLE_RATE) == 6  # there was time to say it


def test_a_cut_commits_no_guess_at_its_end() -> None:
    """Also where the look before, of hardly other audio, guessed the same."""
    looks = Looks()
    looks.add(10, heard(" In", " order", " to", " work"), 0)
    new = heard(" in", " order", " to", " work", "-", " that", ".")

    def kept(*improbable: int) -> int:
        logprobs = tuple(-2.0 if i in improbable else 0.0 for i in range(len(new.tokens)))
        return at_cut(new._replace(logprobs=logprobs), looks)

    assert kept() == kept(4, 6) == 7, "a sign is no word"
    assert kept(5) == 5
    assert kept(3, 5) == 3
    assert kept(0, 3) == 7, "it knew what came behind"
    assert kept(*range(7)) == 0


def test_a_look_that_heard_other_letters_has_nothing_more_to_say() -> None:
    pieces = [b" the", b" she", b" cat"]
    looks = Looks()
    looks.add(100, Hypothesis((1, 2)), 0)
    looks.commit((0,), pieces.__getitem__)
    assert [look.tokens for look in looks.last()] == [()]


def test_letters_that_were_heard_in_another_language_say_nothing() -> None:
    pieces = [b" no", b" me", b" so"]
    config = LiveConfig(evidence=(), settled=10**6, letters=100, held_words=0)
    for language, count in (("en", 3), ("es", 0)):
        looks = Looks()
        for end in (100, 200):
            looks.add(end, Hypothesis((0, 1, 2), (-9.0,) * 3, language=language), 0)
        new = Hypothesis((0, 1, 2), (-9.0,) * 3, language="en")
        spell = pieces.__getitem__
        found = num_sure(new, looks, config, spell, end=300, is_quiet=False, most=3)
        assert found == count, language
