"""Trials: which expected word takes the place of what the model wrote; nothing else does."""

from __future__ import annotations

import math

from lookhear.engine.sampling.expected import ExpectedWords, Strength, Told, WrittenText
from lookhear.engine.sampling.trials import Trials

PIECES = [" I", " met", " an", " owner", " Anna", " Owen", " to", " day", "s", " Annah", "."]
END = len(PIECES)
IDS = {piece: token for token, piece in enumerate(PIECES)}
STRENGTH = Strength(behind=9.0, sure=0.9, gain=4.0, doubt=1.0, stray=2)


def tokens(text: str) -> tuple[int, ...]:
    """Every word is a token."""
    return tuple(IDS[" " + word] for word in text.split())


class Model:
    """Of each text that it knows, how likely in all; each of its tokens costs as much of that. What
    it does not know is a hundred nats off, and ends."""

    def __init__(self, texts: dict[str, float]) -> None:
        self.texts = {(*tokens(text), END): nats for text, nats in texts.items()}

    def nats(self, before: tuple[int, ...], token: int) -> float:
        known = [
            nats / len(text)
            for text, nats in self.texts.items()
            if text[: len(before) + 1] == (*before, token)
        ]
        return max(known, default=-100.0)

    def told(self, before: tuple[int, ...], token: int, firsts: tuple[int, ...]) -> Told:
        best = max(self.nats(before, each) for each in range(END + 1))
        return Told(self.nats(before, token), best, [self.nats(before, t) for t in firsts])

    def best(self, before: tuple[int, ...]) -> int:
        return max(range(END + 1), key=lambda token: (self.nats(before, token), token == END))


def heard(text: str, model: Model, *names: str, is_open: bool = False, said: str = "") -> str:
    """The text when all trials are over. said: what stands in front of it."""
    words = ExpectedWords(names, lambda w: list(tokens(w)) or [END], _piece, STRENGTH)
    own = (*tokens(text), END)
    told = [model.told(own[:at], token, words.firsts) for at, token in enumerate(own)]
    trials = Trials(words, WrittenText(own, tuple(told)), tokens(said), {END}, 40, is_open=is_open)
    while not trials.is_over:
        chosen, context = [], list(trials.context)
        num_forced, guess = trials.num_forced, trials.guess
        answers = []
        for place in range(len(guess) + 1):
            before = (*context, *guess[:place])
            is_guess = place < num_forced
            chosen.append(guess[place] if is_guess else model.best(before))
            answers.append(model.told(before, chosen[-1], ()))
        trials.take(chosen, answers)
    final, sure = trials.result()
    assert len(final) == len(sure) and all(nats > -math.inf for nats in sure)
    return "".join(PIECES[token] for token in final).strip()


def _piece(token: int) -> bytes:
    return PIECES[token].encode() if token < END else b""


def test_a_word_that_costs_less_than_what_speaks_for_it_is_heard() -> None:
    model = Model({"I met an owner to day": -7.0, "I met Anna to day": -9.0})
    assert heard("I met an owner to day", model, "Anna") == "I met Anna to day"
    assert heard("I met an owner to day", model) == "I met an owner to day"


def test_a_word_that_costs_more_is_not() -> None:
    model = Model({"I met an owner to day": -7.0, "I met Anna to day": -14.0})
    assert heard("I met an owner to day", model, "Anna") == "I met an owner to day"


def test_of_two_words_in_one_place_the_likelier_is_heard() -> None:
    model = Model(
        {"I met an owner to day": -7.0, "I met Anna to day": -8.5, "I met Owen to day": -8.0}
    )
    assert heard("I met an owner to day", model, "Anna", "Owen") == "I met Owen to day"


def test_words_in_two_places_are_both_heard() -> None:
    model = Model(
        {
            "an met I met an to day": -7.0,
            "Anna met I met an to day": -8.0,
            "an met I met Owen to day": -8.0,
        }
    )
    said = heard("an met I met an to day", model, "Anna", "Owen")
    assert said == "Anna met I met Owen to day"


def test_speech_that_a_word_does_not_cover_is_not_left_out() -> None:
    model = Model({"I met an owner to day to day to day": -7.0, "I met Anna": -4.0})
    said = "I met an owner to day to day to day"
    assert heard(said, model, "Anna") == said


def test_a_text_that_goes_on_otherwise_is_given_up() -> None:
    model = Model({"I met an owner": -7.0, "I met Anna I I I I I": -1.0})
    assert heard("I met an owner", model, "Anna") == "I met an owner"


def test_where_speech_goes_on_the_last_word_stays() -> None:
    model = Model({"I met an owner": -7.0, "I met Anna": -7.0})
    assert heard("I met an owner", model, "Anna") == "I met Anna"
    assert heard("I met an owner", model, "Anna", is_open=True) == "I met an owner"
    model = Model({"I met an owner to": -7.0, "I met Anna to": -7.0})
    assert heard("I met an owner to", model, "Anna", is_open=True) == "I met Anna to"


def test_a_word_that_was_said_before_is_expected_by_the_model_alone() -> None:
    """Once it stands there, the model finds it likely wherever a name may be."""
    texts = {"I met an owner to day": -7.0, "I met Anna to day": -9.0}
    model = Model(texts)
    own = "I met an owner to day"
    assert heard(own, model, "Anna", said="I met Owen") == "I met Anna to day"
    assert heard(own, model, "Anna", said="I met Anna to day") == own
    likely = Model({**texts, "I met Anna to day": -5.0})  # by more than what speaks against it
    assert heard(own, likely, "Anna", said="I met Anna to day") == "I met Anna to day"
