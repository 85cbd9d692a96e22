"""The closed grammar of demo-whisper: the same sentence in English, Spanish and German.

A sentence is a template with slots; slots carry one form per language, so that every sentence
comes with its translations. One in ten slot fillings is held out for evaluation, by a hash of
the English sentence, and never reaches training in any language.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass

from tools.recipes.speech.numbers_in_words import in_words
from tools.recipes.speech.vocabulary import (
    CITIES,
    CLOSABLES,
    COLOURS,
    DAYS,
    DAYTIMES,
    DEVICES,
    DRINKS,
    EVENTS,
    GENRES,
    GOODS,
    MINUTES,
    NAMES,
    PEOPLE,
    PHRASES,
    PLACES,
    ROOMS,
    THINGS,
    VEHICLES,
    WEATHER,
    WHEN,
)

LANGUAGES = ("en", "es", "de")
Forms = tuple[str, str, str]


@dataclass(frozen=True)
class Sentence:
    """One meaning in every language of `LANGUAGES`, in that order."""

    forms: Forms
    template: str

    def text(self, language: str) -> str:
        """The sentence in one of LANGUAGES."""
        return self.forms[LANGUAGES.index(language)]

    @property
    def held_out(self) -> bool:
        """Whether the sentence belongs to evaluation. Fixed phrases always train."""
        if self.template == "phrase":
            return False
        return hashlib.sha1(self.forms[0].encode()).digest()[0] % 10 == 0


def _number(rng: random.Random) -> int:
    return rng.randrange(20) if rng.random() < 0.5 else rng.randrange(20, 100)


def _words(n: int) -> Forms:
    return in_words(n, "en"), in_words(n, "es"), in_words(n, "de")


def _es_from(place: str) -> str:
    """Join the Spanish preposition "de" with the article: "de el" becomes "del"."""
    return "del " + place[3:] if place.startswith("el ") else "de " + place


def _de_in(place: str) -> str:
    """Join the German preposition "in" with the dative article: "in dem" becomes "im"."""
    return "im " + place[4:] if place.startswith("dem ") else "in " + place


def _switch(rng: random.Random) -> Forms:
    d, r = rng.choice(DEVICES), rng.choice(ROOMS)
    en, es, de = rng.choice([("on", "Enciende", "ein"), ("off", "Apaga", "aus")])
    return (
        f"Turn {en} the {r[0]} {d[0]}.",
        f"{es} {d[1]} {_es_from(r[1])}.",
        f"Schalte {d[2]} {_de_in(r[2])} {de}.",
    )


def _sum(rng: random.Random) -> Forms:
    a, b = _words(_number(rng)), _words(_number(rng))
    op = rng.choice([("plus", "más", "plus"), ("minus", "menos", "minus"), ("times", "por", "mal")])
    return (
        f"What is {a[0]} {op[0]} {b[0]}?",
        f"¿Cuánto es {a[1]} {op[1]} {b[1]}?",
        f"Wie viel ist {a[2]} {op[2]} {b[2]}?",
    )


def _percent(rng: random.Random) -> Forms:
    d, n = rng.choice(DEVICES), _words(rng.randrange(2, 100))
    return (
        f"Set the {d[0]} to {n[0]} percent.",
        f"Pon {d[1]} al {n[1]} por ciento.",
        f"Stelle {d[2]} auf {n[2]} Prozent.",
    )


def _digits(rng: random.Random) -> Forms:
    name = rng.choice(
        [
            ("My code is", "Mi código es", "Mein Code ist"),
            ("The number is", "El número es", "Die Nummer ist"),
            ("Dial", "Marca", "Wähle"),
        ]
    )
    rows = [_words(rng.randrange(10)) for _ in range(rng.randint(3, 6))]
    en, es, de = (f"{name[i]} {' '.join(row[i] for row in rows)}." for i in range(3))
    return en, es, de


def _call(rng: random.Random) -> Forms:
    p, d, n = (
        rng.choice(NAMES),
        rng.choice(DAYS),
        _words(rng.randrange(2, 13)),
    )
    return (
        f"Call {p[0]} on {d[0]} at {n[0]}.",
        f"Llama a {p[1]} el {d[1]} a las {n[1]}.",
        f"Rufe {p[2]} am {d[2]} um {n[2]} an.",
    )


def _paint(rng: random.Random) -> Forms:
    r, c = rng.choice(ROOMS), rng.choice(COLOURS)
    d = rng.choice([DEVICES[0], DEVICES[1], *CLOSABLES])
    return (
        f"Make the {r[0]} {d[0]} {c[0]}.",
        f"Pon {d[1]} {_es_from(r[1])} de color {c[1]}.",
        f"Mache {d[2]} {_de_in(r[2])} {c[5]}.",
    )


def _remind(rng: random.Random) -> Forms:
    p, c, n = (
        rng.choice(NAMES),
        rng.choice(CLOSABLES),
        _words(rng.choice(MINUTES)),
    )
    en, es, de = rng.choice([("close", "cierre", "schließen"), ("open", "abra", "öffnen")])
    return (
        f"Remind {p[0]} to {en} the {c[0]} in {n[0]} minutes.",
        f"Recuerda a {p[1]} que {es} {c[1]} en {n[1]} minutos.",
        f"Erinnere {p[2]} daran, {c[2]} in {n[2]} Minuten zu {de}.",
    )


def _where(rng: random.Random) -> Forms:
    t, c, r = (
        rng.choice(THINGS),
        rng.choice(COLOURS),
        rng.choice(ROOMS),
    )
    article, colour = ("El", c[1]) if t[2] == "m" else ("La", c[2])
    return (
        f"The {c[0]} {t[0]} is in the {r[0]}.",
        f"{article} {t[1]} {colour} está en {r[1]}.",
        f"{t[3].capitalize()} {c[5]}e {t[4]} ist {_de_in(r[2])}.",
    )


def _weather(rng: random.Random) -> Forms:
    w, c, t = (
        rng.choice(WEATHER),
        rng.choice(CITIES),
        rng.choice(WHEN),
    )
    if rng.random() < 0.3:
        return (
            f"Will it rain in {c[0]} {t[0].lower()}?",
            f"¿Lloverá en {c[1]} {t[1].lower()}?",
            f"Wird es {t[2][0].lower()}{t[2][1:]} in {c[2]} regnen?",
        )
    return (
        f"{t[0]} {w[0]} in {c[0]}.",
        f"{t[1]} {w[1]} en {c[1]}.",
        f"{t[2]} wird es in {c[2]} {w[2]}.",
    )


def _route(rng: random.Random) -> Forms:
    a, b = rng.sample(PLACES, 2)
    if rng.random() < 0.4:
        n = _words(rng.choice(MINUTES))
        return (
            f"It takes {n[0]} minutes from the {a[0]} to the {b[0]}.",
            f"Se tarda {n[1]} minutos {a[2]} {b[1]}.",
            f"Es dauert {n[2]} Minuten {a[4]} {b[3]}.",
        )
    return (
        f"How do I get from the {a[0]} to the {b[0]}?",
        f"¿Cómo llego {a[2]} {b[1]}?",
        f"Wie komme ich {a[4]} {b[3]}?",
    )


def _buy(rng: random.Random) -> Forms:
    a, b = rng.sample(GOODS, 2)
    n, m, c = (
        _words(rng.randrange(2, 13)),
        _words(rng.randrange(2, 13)),
        rng.choice(COLOURS),
    )
    colour = c[3] if a[2] == "m" else c[4]
    return (
        f"I want to buy {n[0]} {c[0]} {a[0]} and {m[0]} {b[0]}.",
        f"Quiero comprar {n[1]} {a[1]} {colour} y {m[1]} {b[1]}.",
        f"Ich möchte {n[2]} {c[5]}e {a[3]} und {m[2]} {b[3]} kaufen.",
    )


def _play(rng: random.Random) -> Forms:
    g, r, n = (
        rng.choice(GENRES),
        rng.choice(ROOMS),
        _words(rng.choice(MINUTES)),
    )
    return (
        f"Play {g[0]} in the {r[0]} for {n[0]} minutes.",
        f"Pon {g[1]} en {r[1]} durante {n[1]} minutos.",
        f"Spiele {g[2]} {_de_in(r[2])} für {n[2]} Minuten.",
    )


def _departure(rng: random.Random) -> Forms:
    v, c, h, m = (
        rng.choice(VEHICLES),
        rng.choice(CITIES),
        _words(rng.randrange(2, 13)),
        _words(rng.choice([5, 10, 15, 20, 25, 40, 45, 50])),
    )
    return (
        f"The {v[0]} to {c[0]} leaves at {h[0]} {m[0]}.",
        f"El {v[1]} a {c[1]} sale a las {h[1]} y {m[1]}.",
        f"{v[2]} nach {c[2]} {v[3]} um {h[2]} Uhr {m[2]}.",
    )


def _habit(rng: random.Random) -> Forms:
    p, d, t = (
        rng.choice(PEOPLE),
        rng.choice(DRINKS),
        rng.choice(DAYTIMES),
    )
    return (
        f"{p[0]} drinks {d[0]} {t[0]}.",
        f"{p[1]} bebe {d[1]} {t[1]}.",
        f"{p[2]} trinkt {t[2]} {d[2]}.",
    )


def _tell(rng: random.Random) -> Forms:
    p, e, n = (
        rng.choice(NAMES),
        rng.choice(EVENTS),
        _words(rng.randrange(2, 13)),
    )
    en, es, de = rng.choice([("starts", "empieza", "beginnt"), ("ends", "termina", "endet")])
    return (
        f"Tell {p[0]} that {e[0]} {en} at {n[0]}.",
        f"Dile a {p[1]} que {e[1]} {es} a las {n[1]}.",
        f"Sag {p[2]}, dass {e[2]} um {n[2]} {de}.",
    )


def _phrase(rng: random.Random) -> Forms:
    return rng.choice(PHRASES)


_TEMPLATES: list[tuple[str, float, Callable[[random.Random], Forms]]] = [
    ("switch", 1.0, _switch),
    ("sum", 1.4, _sum),
    ("percent", 1.0, _percent),
    ("digits", 1.0, _digits),
    ("call", 1.0, _call),
    ("paint", 1.0, _paint),
    ("remind", 1.0, _remind),
    ("where", 1.0, _where),
    ("weather", 0.8, _weather),
    ("route", 0.9, _route),
    ("buy", 1.0, _buy),
    ("play", 0.8, _play),
    ("departure", 1.0, _departure),
    ("habit", 0.6, _habit),
    ("tell", 0.9, _tell),
    ("phrase", 0.3, _phrase),
]


def sentence(rng: random.Random, held_out: bool) -> Sentence:
    """Draw one sentence of the training part, or of the held-out part."""
    names = [name for name, _, _ in _TEMPLATES]
    weights = [weight for _, weight, _ in _TEMPLATES]
    while True:
        name = rng.choices(names, weights)[0]
        draw = next(function for key, _, function in _TEMPLATES if key == name)
        drawn = Sentence(draw(rng), name)
        if drawn.held_out == held_out:
            return drawn
