"""Expected words in a request to a paged decoder: no draft, no chunk changes the text, nothing but
a word does, and no block is ever shared that a trial writes to."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.engine.core.request import Phase, Priority
from lookhear.engine.paged.blocks import BLOCK_TOKENS
from lookhear.engine.paged.expecting import ExpectingSequence
from lookhear.engine.paged.request import Expectation, PagedRequest
from lookhear.engine.sampling.expected import ExpectedWords, Strength, Told

END, TAG = 9, 8  # TAG: behind the header
WORDS = {"Abc": [1, 2, 3], "Ad": [1, 4], "E": [5], "Fg": [6, 7]}
STRENGTH = Strength(behind=4.0, sure=1.0, gain=3.0, doubt=1.0)


def encode(text: str) -> list[int]:
    """Of a word."""
    return WORDS[text.strip()]


# Every token begins with a space, so a word is over whatever follows it.
EXPECTED = ExpectedWords(
    [*WORDS],
    encode,
    lambda token: b" %d" % token if token not in (END, TAG) else b"",
    STRENGTH,
)
PROMPT = tuple(range(100, 118))


def make(expectation: Expectation | None, draft: tuple[int, ...] = ()) -> PagedRequest:
    return PagedRequest(
        "s/t",
        Priority.LIVE,
        PROMPT,
        draft=draft,
        max_new_tokens=24,
        loop_room=None,
        expectation=expectation,
    )


def scores(context: tuple[int, ...], seed: int, *, is_tagged: bool) -> list[float]:
    """A model: any deterministic function of the context. Of each token, the end included."""
    said = context[len(PROMPT) :]
    values = [hash((seed, token, context[-3:], len(context))) % 50 / 10 for token in range(END + 1)]
    values[END] += len(said) / 4 - 2
    if is_tagged and len(said) < 2:  # a header of two tokens
        values = [float(9 * (token == (0, TAG)[len(said)])) for token in range(END + 1)]
    elif is_tagged or said:
        values[TAG] = -20.0
    total = math.log(sum(map(math.exp, values)))
    return [value - total for value in values]


def run(
    request: PagedRequest, seed: int, chunks: list[int], *, is_tagged: bool = False
) -> tuple[ExpectingSequence, int]:
    """Decode to the end with a cache that only knows what was fed; and the passes it took."""
    count = -(-request.reserved_tokens // BLOCK_TOKENS)
    sequence = ExpectingSequence(request, frozenset([END]), 0, list(range(1, count + 1)))
    cache: list[int] = []
    passes, chunks = 0, [*chunks]
    while sequence.phase is not Phase.DONE:
        passes += 1
        demand = sequence.demand()
        wanted = demand.known + demand.draft
        assert wanted >= 1 and not demand.waiting, "a step must feed something"
        count = min(wanted, chunks.pop()) if chunks and demand.divisible else wanted
        fed, queries = sequence.fed, sequence.queries(count)
        assert fed <= len(cache) and cache[:fed] == sequence.context[:fed]
        assert fed + count <= len(sequence.blocks) * BLOCK_TOKENS, "beyond what was reserved"
        assert sequence.expecting.trials is None or fed >= len(PROMPT) - 1
        cache[fed:] = queries
        logits, forced = sequence.num_logits(count), sequence.expecting.forced
        firsts = sequence.expecting.firsts
        sequence.launch(count)
        assert not logits or sequence.demand().waiting, "what it says decides what comes next"
        sampled, told = [], []
        for i in range(logits):
            own = scores(tuple(cache[: fed + count - logits + i + 1]), seed, is_tagged=is_tagged)
            best = max(range(END + 1), key=lambda token: own[token])
            sampled.append(best)
            token = forced[i] if i < len(forced) else best
            told.append(Told(own[token], own[best], [own[first] for first in firsts]))
        if logits:
            sequence.absorb_told(sampled, [here.own for here in told], told)
        written = len(sequence.context) - 1
        named = sequence.name_blocks(written)
        assert all(sequence.blocks.index(block) == 0 for block, _ in named), "of the prompt only"
    return sequence, passes


some_chunks = st.lists(st.integers(1, 12), max_size=12)


@settings(deadline=None)
@given(
    seed=st.integers(0, 10_000),
    draft=st.lists(st.integers(0, TAG - 1), max_size=20),
    kept=st.integers(0, 20),
    chunks=some_chunks,
    is_tagged=st.booleans(),
)
def test_any_draft_in_any_chunks_gives_the_tokens_of_plain_decoding(
    seed: int, draft: list[int], kept: int, chunks: list[int], is_tagged: bool
) -> None:
    expectation = Expectation(EXPECTED, header_end=TAG if is_tagged else None)
    plain, _ = run(make(expectation), seed, [], is_tagged=is_tagged)
    text = plain.result().tokens
    request = make(expectation, (*text[:kept], *draft))
    drafted, _ = run(request, seed, chunks, is_tagged=is_tagged)
    assert drafted.result().tokens == text
    assert drafted.context == plain.context == [*PROMPT, *text]
    assert drafted.generated.num_accepted <= drafted.num_drafted
    assert len(plain.result().logprobs) == len(text)


def test_what_is_offered_again_is_counted_again() -> None:
    """Where a draft was wrong, and goes on as the text does."""
    for seed in range(100):
        text = run(make(Expectation(EXPECTED)), seed, [])[0].result().tokens
        if len(text) > 8:
            wrong = (text[4] + 1) % TAG
            draft = (*text[:4], wrong, *text[3:])
            drafted, _ = run(make(Expectation(EXPECTED), draft), seed, [])
            assert drafted.result().tokens == text
            assert drafted.num_drafted > len(draft)
            return
    raise AssertionError("no text is so long")


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), is_tagged=st.booleans())
def test_a_text_changes_only_where_a_whole_word_is(seed: int, is_tagged: bool) -> None:
    header_end = TAG if is_tagged else None
    nothing = ExpectedWords([], encode, lambda token: b"", STRENGTH)
    own, alone = run(
        make(Expectation(nothing, header_end=header_end)), seed, [], is_tagged=is_tagged
    )
    words = Expectation(EXPECTED, header_end=header_end)
    sequence, passes = run(make(words), seed, [], is_tagged=is_tagged)
    text, theirs = sequence.result().tokens, own.result().tokens
    assert text[: 2 * is_tagged] == theirs[: 2 * is_tagged], "a header is no text"
    if text != theirs:
        assert any(
            list(text[at : at + len(word)]) == word and theirs[at : at + len(word)] != tuple(word)
            for word in WORDS.values()
            for at in range(2 * is_tagged, len(text))
        )
    assert passes <= alone + STRENGTH.most * (2 + STRENGTH.stray), "it comes to an end"


def test_words_are_heard_that_the_model_alone_would_not_say() -> None:
    def said(words: list[str]) -> list[tuple[int, ...]]:
        expected = ExpectedWords(words, encode, lambda token: b" %d" % token, STRENGTH)
        return [run(make(Expectation(expected)), seed, [])[0].result().tokens for seed in range(40)]

    changed = sum(one != other for one, other in zip(said([*WORDS]), said([]), strict=True))
    assert 0 < changed < 40


def test_an_answer_without_its_header_stays_as_it_is() -> None:
    for seed in range(20):
        untagged = run(make(Expectation(EXPECTED, header_end=TAG)), seed, [])[0]
        assert untagged.expecting.trials is None or TAG in untagged.result().tokens


def test_what_stands_in_front_is_known() -> None:
    """Nothing speaks for a word that was said before."""
    texts = [
        run(make(Expectation(EXPECTED, before)), seed, [])[0].result().tokens
        for before in ((), (1, 2, 3, 1, 4, 5, 6, 7))
        for seed in range(40)
    ]
    assert texts[:40] != texts[40:]


def test_of_its_prompt_all_blocks_are_shared_but_the_one_that_is_read_again() -> None:
    request = make(Expectation(EXPECTED))
    assert request.lasting_tokens == len(PROMPT) - 1
    assert make(None).lasting_tokens == math.inf
