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

from engine.demo.numbers_in_words import in_words

LANGUAGES = ("en", "es", "de")
Forms = tuple[str, str, str]


@dataclass(frozen=True)
class Sentence:
    """One meaning in every language of `LANGUAGES`, in that order."""

    forms: Forms
    template: str

    def text(self, language: str) -> str:
        return self.forms[LANGUAGES.index(language)]

    @property
    def held_out(self) -> bool:
        """Whether the sentence belongs to evaluation. Fixed phrases always train."""
        if self.template == "phrase":
            return False
        return hashlib.sha1(self.forms[0].encode()).digest()[0] % 10 == 0


# Rooms: (en "the kitchen"), (es "de la cocina", "en la cocina"), (de "in der Küche").
_ROOMS = [
    ("kitchen", "la cocina", "der Küche"),
    ("bedroom", "el dormitorio", "dem Schlafzimmer"),
    ("garage", "el garaje", "der Garage"),
    ("office", "la oficina", "dem Büro"),
    ("hallway", "el pasillo", "dem Flur"),
    ("bathroom", "el baño", "dem Badezimmer"),
    ("garden", "el jardín", "dem Garten"),
    ("living room", "el salón", "dem Wohnzimmer"),
    ("cellar", "el sótano", "dem Keller"),
    ("dining room", "el comedor", "dem Esszimmer"),
]
# Devices: en, es with article, de accusative with article.
_DEVICES = [
    ("lights", "las luces", "das Licht"),
    ("lamp", "la lámpara", "die Lampe"),
    ("heater", "la calefacción", "die Heizung"),
    ("fan", "el ventilador", "den Ventilator"),
    ("music", "la música", "die Musik"),
    ("radio", "la radio", "das Radio"),
    ("camera", "la cámara", "die Kamera"),
    ("television", "la televisión", "den Fernseher"),
    ("alarm", "la alarma", "den Alarm"),
    ("computer", "el ordenador", "den Computer"),
    ("dishwasher", "el lavavajillas", "die Spülmaschine"),
]
_CLOSABLES = [
    ("door", "la puerta", "die Tür"),
    ("window", "la ventana", "das Fenster"),
    ("curtain", "la cortina", "den Vorhang"),
    ("gate", "el portón", "das Tor"),
    ("fridge", "la nevera", "den Kühlschrank"),
    ("cupboard", "el armario", "den Schrank"),
]
# Colours: en, es masculine, es feminine, es masculine plural, es feminine plural, de.
_COLOURS = [
    ("red", "rojo", "roja", "rojos", "rojas", "rot"),
    ("green", "verde", "verde", "verdes", "verdes", "grün"),
    ("blue", "azul", "azul", "azules", "azules", "blau"),
    ("yellow", "amarillo", "amarilla", "amarillos", "amarillas", "gelb"),
    ("white", "blanco", "blanca", "blancos", "blancas", "weiß"),
    ("black", "negro", "negra", "negros", "negras", "schwarz"),
    ("brown", "marrón", "marrón", "marrones", "marrones", "braun"),
    ("grey", "gris", "gris", "grises", "grises", "grau"),
]
# Things: en, es noun, es gender, de with nominative article.
_THINGS = [
    ("book", "libro", "m", "das", "Buch"),
    ("bag", "bolsa", "f", "die", "Tasche"),
    ("key", "llave", "f", "der", "Schlüssel"),
    ("chair", "silla", "f", "der", "Stuhl"),
    ("table", "mesa", "f", "der", "Tisch"),
    ("bicycle", "bicicleta", "f", "das", "Fahrrad"),
    ("phone", "teléfono", "m", "das", "Telefon"),
    ("hat", "sombrero", "m", "der", "Hut"),
    ("bottle", "botella", "f", "die", "Flasche"),
    ("dog", "perro", "m", "der", "Hund"),
    ("cat", "gato", "m", "die", "Katze"),
    ("car", "coche", "m", "das", "Auto"),
    ("umbrella", "paraguas", "m", "der", "Regenschirm"),
    ("shirt", "camisa", "f", "das", "Hemd"),
]
# Goods: en plural, es plural, es gender, de plural.
_GOODS = [
    ("apples", "manzanas", "f", "Äpfel"),
    ("lemons", "limones", "m", "Zitronen"),
    ("tomatoes", "tomates", "m", "Tomaten"),
    ("eggs", "huevos", "m", "Eier"),
    ("pens", "bolígrafos", "m", "Stifte"),
    ("candles", "velas", "f", "Kerzen"),
    ("flowers", "flores", "f", "Blumen"),
    ("cups", "tazas", "f", "Tassen"),
    ("potatoes", "patatas", "f", "Kartoffeln"),
    ("onions", "cebollas", "f", "Zwiebeln"),
]
_NAMES = [
    ("Alice", "Alicia", "Alice"),
    ("Robert", "Roberto", "Robert"),
    ("Maria", "María", "Maria"),
    ("David", "David", "David"),
    ("Laura", "Laura", "Laura"),
    ("Peter", "Pedro", "Peter"),
    ("Anna", "Ana", "Anna"),
    ("Martin", "Martín", "Martin"),
    ("Julia", "Julia", "Julia"),
    ("Thomas", "Tomás", "Thomas"),
]
_DAYS = [
    ("Monday", "lunes", "Montag"),
    ("Tuesday", "martes", "Dienstag"),
    ("Wednesday", "miércoles", "Mittwoch"),
    ("Thursday", "jueves", "Donnerstag"),
    ("Friday", "viernes", "Freitag"),
    ("Saturday", "sábado", "Samstag"),
    ("Sunday", "domingo", "Sonntag"),
]
_CITIES = [
    ("Madrid", "Madrid", "Madrid"),
    ("Berlin", "Berlín", "Berlin"),
    ("London", "Londres", "London"),
    ("Paris", "París", "Paris"),
    ("Vienna", "Viena", "Wien"),
    ("Lisbon", "Lisboa", "Lissabon"),
    ("Rome", "Roma", "Rom"),
    ("Hamburg", "Hamburgo", "Hamburg"),
]
_WEATHER = [
    ("it will be sunny", "hará sol", "sonnig"),
    ("it will be cold", "hará frío", "kalt"),
    ("it will be hot", "hará calor", "heiß"),
    ("it will be windy", "hará viento", "windig"),
    ("it will be cloudy", "estará nublado", "wolkig"),
]
_WHEN = [
    ("Today", "Hoy", "Heute"),
    ("Tomorrow", "Mañana", "Morgen"),
    ("This weekend", "Este fin de semana", "Am Wochenende"),
    ("Next week", "La semana que viene", "Nächste Woche"),
]
# Places: en, es "al museo", es "del museo", de "zum Museum", de "vom Museum".
_PLACES = [
    ("museum", "al museo", "del museo", "zum Museum", "vom Museum"),
    ("station", "a la estación", "de la estación", "zum Bahnhof", "vom Bahnhof"),
    ("airport", "al aeropuerto", "del aeropuerto", "zum Flughafen", "vom Flughafen"),
    ("hotel", "al hotel", "del hotel", "zum Hotel", "vom Hotel"),
    ("library", "a la biblioteca", "de la biblioteca", "zur Bibliothek", "von der Bibliothek"),
    ("hospital", "al hospital", "del hospital", "zum Krankenhaus", "vom Krankenhaus"),
    ("market", "al mercado", "del mercado", "zum Markt", "vom Markt"),
    ("beach", "a la playa", "de la playa", "zum Strand", "vom Strand"),
    ("school", "a la escuela", "de la escuela", "zur Schule", "von der Schule"),
    ("bank", "al banco", "del banco", "zur Bank", "von der Bank"),
]
_VEHICLES = [
    ("train", "tren", "Der Zug", "fährt"),
    ("bus", "autobús", "Der Bus", "fährt"),
    ("ship", "barco", "Das Schiff", "fährt"),
    ("plane", "avión", "Das Flugzeug", "fliegt"),
]
_PEOPLE = [
    ("My brother", "Mi hermano", "Mein Bruder"),
    ("My sister", "Mi hermana", "Meine Schwester"),
    ("My father", "Mi padre", "Mein Vater"),
    ("My mother", "Mi madre", "Meine Mutter"),
    ("My neighbour", "Mi vecino", "Mein Nachbar"),
    ("Our teacher", "Nuestra profesora", "Unsere Lehrerin"),
]
_DRINKS = [
    ("coffee with milk", "café con leche", "Kaffee mit Milch"),
    ("green tea", "té verde", "grünen Tee"),
    ("orange juice", "zumo de naranja", "Orangensaft"),
    ("cold water", "agua fría", "kaltes Wasser"),
    ("hot chocolate", "chocolate caliente", "heiße Schokolade"),
]
_DAYTIMES = [
    ("in the morning", "por la mañana", "am Morgen"),
    ("in the afternoon", "por la tarde", "am Nachmittag"),
    ("at night", "por la noche", "in der Nacht"),
    ("every day", "todos los días", "jeden Tag"),
]
_EVENTS = [
    ("the meeting", "la reunión", "die Besprechung"),
    ("the concert", "el concierto", "das Konzert"),
    ("the film", "la película", "der Film"),
    ("the class", "la clase", "der Unterricht"),
    ("the game", "el partido", "das Spiel"),
    ("the party", "la fiesta", "die Feier"),
]
_GENRES = [
    ("jazz", "jazz", "Jazz"),
    ("quiet music", "música tranquila", "ruhige Musik"),
    ("classical music", "música clásica", "klassische Musik"),
    ("happy songs", "canciones alegres", "fröhliche Lieder"),
    ("old songs", "canciones antiguas", "alte Lieder"),
    ("the news", "las noticias", "die Nachrichten"),
]
_PHRASES = [
    ("Good morning.", "Buenos días.", "Guten Morgen."),
    ("Good night.", "Buenas noches.", "Gute Nacht."),
    ("Thank you very much.", "Muchas gracias.", "Vielen Dank."),
    ("How are you today?", "¿Cómo estás hoy?", "Wie geht es dir heute?"),
    ("See you tomorrow.", "Hasta mañana.", "Bis morgen."),
    ("Yes please.", "Sí por favor.", "Ja bitte."),
    ("No thank you.", "No gracias.", "Nein danke."),
    ("Stop.", "Para.", "Stopp."),
    ("Hello.", "Hola.", "Hallo."),
    ("I do not understand.", "No entiendo.", "Ich verstehe nicht."),
    ("What time is it?", "¿Qué hora es?", "Wie spät ist es?"),
]
_MINUTES = [2, 3, 4, 5, 10, 12, 15, 20, 25, 30, 40, 45, 50]


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
    d, r = rng.choice(_DEVICES), rng.choice(_ROOMS)
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
    d, n = rng.choice(_DEVICES), _words(rng.randrange(2, 100))
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
    p, d, n = rng.choice(_NAMES), rng.choice(_DAYS), _words(rng.randrange(2, 13))
    return (
        f"Call {p[0]} on {d[0]} at {n[0]}.",
        f"Llama a {p[1]} el {d[1]} a las {n[1]}.",
        f"Rufe {p[2]} am {d[2]} um {n[2]} an.",
    )


def _paint(rng: random.Random) -> Forms:
    r, c = rng.choice(_ROOMS), rng.choice(_COLOURS)
    d = rng.choice([_DEVICES[0], _DEVICES[1], *_CLOSABLES])
    return (
        f"Make the {r[0]} {d[0]} {c[0]}.",
        f"Pon {d[1]} {_es_from(r[1])} de color {c[1]}.",
        f"Mache {d[2]} {_de_in(r[2])} {c[5]}.",
    )


def _remind(rng: random.Random) -> Forms:
    p, c, n = rng.choice(_NAMES), rng.choice(_CLOSABLES), _words(rng.choice(_MINUTES))
    en, es, de = rng.choice([("close", "cierre", "schließen"), ("open", "abra", "öffnen")])
    return (
        f"Remind {p[0]} to {en} the {c[0]} in {n[0]} minutes.",
        f"Recuerda a {p[1]} que {es} {c[1]} en {n[1]} minutos.",
        f"Erinnere {p[2]} daran, {c[2]} in {n[2]} Minuten zu {de}.",
    )


def _where(rng: random.Random) -> Forms:
    t, c, r = rng.choice(_THINGS), rng.choice(_COLOURS), rng.choice(_ROOMS)
    article, colour = ("El", c[1]) if t[2] == "m" else ("La", c[2])
    return (
        f"The {c[0]} {t[0]} is in the {r[0]}.",
        f"{article} {t[1]} {colour} está en {r[1]}.",
        f"{t[3].capitalize()} {c[5]}e {t[4]} ist {_de_in(r[2])}.",
    )


def _weather(rng: random.Random) -> Forms:
    w, c, t = rng.choice(_WEATHER), rng.choice(_CITIES), rng.choice(_WHEN)
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
    a, b = rng.sample(_PLACES, 2)
    if rng.random() < 0.4:
        n = _words(rng.choice(_MINUTES))
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
    a, b = rng.sample(_GOODS, 2)
    n, m, c = (
        _words(rng.randrange(2, 13)),
        _words(rng.randrange(2, 13)),
        rng.choice(_COLOURS),
    )
    colour = c[3] if a[2] == "m" else c[4]
    return (
        f"I want to buy {n[0]} {c[0]} {a[0]} and {m[0]} {b[0]}.",
        f"Quiero comprar {n[1]} {a[1]} {colour} y {m[1]} {b[1]}.",
        f"Ich möchte {n[2]} {c[5]}e {a[3]} und {m[2]} {b[3]} kaufen.",
    )


def _play(rng: random.Random) -> Forms:
    g, r, n = rng.choice(_GENRES), rng.choice(_ROOMS), _words(rng.choice(_MINUTES))
    return (
        f"Play {g[0]} in the {r[0]} for {n[0]} minutes.",
        f"Pon {g[1]} en {r[1]} durante {n[1]} minutos.",
        f"Spiele {g[2]} {_de_in(r[2])} für {n[2]} Minuten.",
    )


def _departure(rng: random.Random) -> Forms:
    v, c, h, m = (
        rng.choice(_VEHICLES),
        rng.choice(_CITIES),
        _words(rng.randrange(2, 13)),
        _words(rng.choice([5, 10, 15, 20, 25, 40, 45, 50])),
    )
    return (
        f"The {v[0]} to {c[0]} leaves at {h[0]} {m[0]}.",
        f"El {v[1]} a {c[1]} sale a las {h[1]} y {m[1]}.",
        f"{v[2]} nach {c[2]} {v[3]} um {h[2]} Uhr {m[2]}.",
    )


def _habit(rng: random.Random) -> Forms:
    p, d, t = rng.choice(_PEOPLE), rng.choice(_DRINKS), rng.choice(_DAYTIMES)
    return (
        f"{p[0]} drinks {d[0]} {t[0]}.",
        f"{p[1]} bebe {d[1]} {t[1]}.",
        f"{p[2]} trinkt {t[2]} {d[2]}.",
    )


def _tell(rng: random.Random) -> Forms:
    p, e, n = rng.choice(_NAMES), rng.choice(_EVENTS), _words(rng.randrange(2, 13))
    en, es, de = rng.choice([("starts", "empieza", "beginnt"), ("ends", "termina", "endet")])
    return (
        f"Tell {p[0]} that {e[0]} {en} at {n[0]}.",
        f"Dile a {p[1]} que {e[1]} {es} a las {n[1]}.",
        f"Sag {p[2]}, dass {e[2]} um {n[2]} {de}.",
    )


def _phrase(rng: random.Random) -> Forms:
    return rng.choice(_PHRASES)


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
