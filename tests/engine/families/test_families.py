"""Every family is declared once; a new one is one file and one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lookhear.engine.checkpoints.loader import CheckpointError
from lookhear.engine.config import EngineConfig
from lookhear.engine.families import registry
from lookhear.engine.families.build import build_core
from lookhear.engine.families.family import Family
from lookhear.engine.families.registry import families, family_of
from lookhear.engine.messages import (
    AnswerCompleted,
    AnswerSettings,
    AnswerText,
    ChatMessage,
    StartAnswer,
    TextPart,
)
from tests.engine.families import echo
from tests.engine.playing import drain
from tools.random_checkpoints.whisper import LANGUAGES, build_random_whisper

ALL = [*families(), echo.FAMILY]  # the one line


def test_a_family_of_one_file_answers(tmp_path: Path) -> None:
    config = EngineConfig(model=str(echo.checkpoint(tmp_path)), served_name="echo")
    built = build_core(config, lambda stage, share: None, ALL)
    assert built.card.architecture == "EchoForConditionalGeneration"
    assert built.card.abilities == ["chat"]
    core, said = built.core, ChatMessage("user", [TextPart("hello")])
    core.submit(StartAnswer("s", "a", AnswerSettings("echo"), [said]))
    assert core.stats()["answers"] == 1
    text, completed = drain(core)
    assert isinstance(text, AnswerText) and text.text == "hello"
    assert isinstance(completed, AnswerCompleted) and completed.usage.output == 5
    assert core.stats()["decoder_passes"] == 5
    core.check()


@pytest.mark.parametrize(
    ("is_multilingual", "languages"), [(True, sorted(LANGUAGES)), (False, ["en"])]
)
def test_an_english_only_whisper_says_so(
    tmp_path: Path, is_multilingual: bool, languages: list[str]
) -> None:
    folder = build_random_whisper(tmp_path / "model", width=8, layers=1)
    path = folder / "generation_config.json"
    told = json.loads(path.read_text("utf-8")) | {"is_multilingual": is_multilingual}
    path.write_text(json.dumps(told), "utf-8")
    card = build_core(EngineConfig(model=str(folder)), lambda stage, share: None).card
    assert card.languages == languages
    assert card.can("translate") == is_multilingual


def test_it_is_unknown_where_nobody_registered_it(tmp_path: Path) -> None:
    serving = [family for family in families() if family.abilities]
    known = ", ".join(name for family in serving for name in family.architectures)
    assert "TokenClassification" not in known  # an aligner answers nobody
    with pytest.raises(CheckpointError, match=f"expected one of {known}, got EchoFor"):
        family_of(echo.checkpoint(tmp_path))


def test_no_architecture_and_no_name_is_declared_twice() -> None:
    architectures = [name for family in families() for name in family.architectures]
    assert len(architectures) == len(set(architectures)) >= 4
    assert len({family.name for family in families()}) == len(families())


def test_who_serves_one_imports_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, declared = [], registry._declared

    def asking(name: str) -> Family:
        asked.append(name)
        return declared(name)

    monkeypatch.setattr(registry, "_declared", asking)
    folder = build_random_whisper(tmp_path / "model", width=8, layers=1)
    assert family_of(folder)[0].name == "Whisper"
    assert asked == ["whisper"]
