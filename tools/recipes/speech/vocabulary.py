"""The words of the grammar: every entry in English, Spanish and German, with the forms that the
sentences need. Entries are tuples, in the order that the comment above each table gives."""

from __future__ import annotations

# Rooms: (en "the kitchen"), (es "de la cocina", "en la cocina"), (de "in der Küche").
ROOMS = [
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
DEVICES = [
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
CLOSABLES = [
    ("door", "la puerta", "die Tür"),
    ("window", "la ventana", "das Fenster"),
    ("curtain", "la cortina", "den Vorhang"),
    ("gate", "el portón", "das Tor"),
    ("fridge", "la nevera", "den Kühlschrank"),
    ("cupboard", "el armario", "den Schrank"),
]
# Colours: en, es masculine, es feminine, es masculine plural, es feminine plural, de.
COLOURS = [
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
THINGS = [
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
GOODS = [
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
NAMES = [
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
DAYS = [
    ("Monday", "lunes", "Montag"),
    ("Tuesday", "martes", "Dienstag"),
    ("Wednesday", "miércoles", "Mittwoch"),
    ("Thursday", "jueves", "Donnerstag"),
    ("Friday", "viernes", "Freitag"),
    ("Saturday", "sábado", "Samstag"),
    ("Sunday", "domingo", "Sonntag"),
]
CITIES = [
    ("Madrid", "Madrid", "Madrid"),
    ("Berlin", "Berlín", "Berlin"),
    ("London", "Londres", "London"),
    ("Paris", "París", "Paris"),
    ("Vienna", "Viena", "Wien"),
    ("Lisbon", "Lisboa", "Lissabon"),
    ("Rome", "Roma", "Rom"),
    ("Hamburg", "Hamburgo", "Hamburg"),
]
WEATHER = [
    ("it will be sunny", "hará sol", "sonnig"),
    ("it will be cold", "hará frío", "kalt"),
    ("it will be hot", "hará calor", "heiß"),
    ("it will be windy", "hará viento", "windig"),
    ("it will be cloudy", "estará nublado", "wolkig"),
]
WHEN = [
    ("Today", "Hoy", "Heute"),
    ("Tomorrow", "Mañana", "Morgen"),
    ("This weekend", "Este fin de semana", "Am Wochenende"),
    ("Next week", "La semana que viene", "Nächste Woche"),
]
# Places: en, es "al museo", es "del museo", de "zum Museum", de "vom Museum".
PLACES = [
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
VEHICLES = [
    ("train", "tren", "Der Zug", "fährt"),
    ("bus", "autobús", "Der Bus", "fährt"),
    ("ship", "barco", "Das Schiff", "fährt"),
    ("plane", "avión", "Das Flugzeug", "fliegt"),
]
PEOPLE = [
    ("My brother", "Mi hermano", "Mein Bruder"),
    ("My sister", "Mi hermana", "Meine Schwester"),
    ("My father", "Mi padre", "Mein Vater"),
    ("My mother", "Mi madre", "Meine Mutter"),
    ("My neighbour", "Mi vecino", "Mein Nachbar"),
    ("Our teacher", "Nuestra profesora", "Unsere Lehrerin"),
]
DRINKS = [
    ("coffee with milk", "café con leche", "Kaffee mit Milch"),
    ("green tea", "té verde", "grünen Tee"),
    ("orange juice", "zumo de naranja", "Orangensaft"),
    ("cold water", "agua fría", "kaltes Wasser"),
    ("hot chocolate", "chocolate caliente", "heiße Schokolade"),
]
DAYTIMES = [
    ("in the morning", "por la mañana", "am Morgen"),
    ("in the afternoon", "por la tarde", "am Nachmittag"),
    ("at night", "por la noche", "in der Nacht"),
    ("every day", "todos los días", "jeden Tag"),
]
EVENTS = [
    ("the meeting", "la reunión", "die Besprechung"),
    ("the concert", "el concierto", "das Konzert"),
    ("the film", "la película", "der Film"),
    ("the class", "la clase", "der Unterricht"),
    ("the game", "el partido", "das Spiel"),
    ("the party", "la fiesta", "die Feier"),
]
GENRES = [
    ("jazz", "jazz", "Jazz"),
    ("quiet music", "música tranquila", "ruhige Musik"),
    ("classical music", "música clásica", "klassische Musik"),
    ("happy songs", "canciones alegres", "fröhliche Lieder"),
    ("old songs", "canciones antiguas", "alte Lieder"),
    ("the news", "las noticias", "die Nachrichten"),
]
PHRASES = [
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
MINUTES = [2, 3, 4, 5, 10, 12, 15, 20, 25, 30, 40, 45, 50]
