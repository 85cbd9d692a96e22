"""Languages by ISO code, and what else clients call them."""

from __future__ import annotations

# English names of the languages that Whisper models know, by ISO code.
_TABLE = (
    "en:english zh:chinese de:german es:spanish ru:russian ko:korean fr:french ja:japanese "
    "pt:portuguese tr:turkish pl:polish ca:catalan nl:dutch ar:arabic sv:swedish it:italian "
    "id:indonesian hi:hindi fi:finnish vi:vietnamese he:hebrew uk:ukrainian el:greek ms:malay "
    "cs:czech ro:romanian da:danish hu:hungarian ta:tamil no:norwegian th:thai ur:urdu "
    "hr:croatian bg:bulgarian lt:lithuanian la:latin mi:maori ml:malayalam cy:welsh sk:slovak "
    "te:telugu fa:persian lv:latvian bn:bengali sr:serbian az:azerbaijani sl:slovenian "
    "kn:kannada et:estonian mk:macedonian br:breton eu:basque is:icelandic hy:armenian "
    "ne:nepali mn:mongolian bs:bosnian kk:kazakh sq:albanian sw:swahili gl:galician "
    "mr:marathi pa:punjabi si:sinhala km:khmer sn:shona yo:yoruba so:somali af:afrikaans "
    "oc:occitan ka:georgian be:belarusian tg:tajik sd:sindhi gu:gujarati am:amharic "
    "yi:yiddish lo:lao uz:uzbek fo:faroese ht:haitian_creole ps:pashto tk:turkmen nn:nynorsk "
    "mt:maltese sa:sanskrit lb:luxembourgish my:myanmar bo:tibetan tl:tagalog mg:malagasy "
    "as:assamese tt:tatar haw:hawaiian ln:lingala ha:hausa ba:bashkir jw:javanese "
    "su:sundanese yue:cantonese "
)
_NAMES = {
    code: name.replace("_", " ") for code, _, name in (row.partition(":") for row in _TABLE.split())
}
_CODES = {name: code for code, name in _NAMES.items()}


def english_name(code: str | None) -> str:
    """ "de" -> "german"; a code without a known name stays as it is; None -> "english", which is
    what a model without language tokens speaks."""
    return _NAMES.get(code or "en", code or "")


def language_code(language: str | None) -> str | None:
    """ "en-US", "EN" and "English" mean "en"; "" means "detect it"."""
    called = (language or "").strip().lower().replace("_", " ")
    return _CODES.get(called) or called.replace(" ", "-").split("-")[0] or None
