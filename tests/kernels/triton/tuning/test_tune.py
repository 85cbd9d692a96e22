"""What `lookhear tune` takes and keeps, by clocks that are made up; what it says where there is no
card."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
from torch import Tensor

from lookhear.kernels import tune as command
from lookhear.kernels.triton import tuning
from lookhear.kernels.triton.configs import DEFAULTS, Tile, parsed, tile
from lookhear.kernels.triton.tuning import measuring
from lookhear.kernels.triton.tuning import notes as noting
from lookhear.kernels.triton.tuning.cases import Case
from lookhear.kernels.triton.tuning.measuring import LostDevice, measure
from lookhear.kernels.triton.tuning.notes import Notes

DEFAULT = DEFAULTS["vocabulary"][0][1]
CPU = torch.device("cpu")
TILES = (Tile(1024, 4), Tile(2048, 4), Tile(8192, 16))
Answer = Callable[[], Tensor]


def ones() -> Tensor:
    return torch.ones(1)


def case(answer: Answer = ones, **more: Any) -> Case:
    return Case("vocabulary", math.inf, TILES, lambda device: {"a call": answer}, **more)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """Milliseconds by the size of the tile that is tried."""
    times = {1024: 0.9, 2048: 0.7, 4096: 1.0, 8192: 0.2}

    def do_bench(call: Answer, **how: Any) -> float:
        return times[tile("vocabulary", 1).size]

    monkeypatch.setattr(triton.testing, "do_bench", do_bench)
    monkeypatch.setattr(triton.testing, "do_bench_cudagraph", do_bench)
    return times


def measured(
    of: Case,
    notes: Notes | None = None,
    refused: Mapping[Tile, str | None] = {},  # noqa: B006
    *,
    seconds: float = 1e9,
    written: Callable[[], None] = lambda: None,
) -> Notes:
    notes = Notes("A card") if notes is None else notes
    end = math.inf if seconds > 0 else -math.inf
    measure(of, CPU, notes, refused, end=end, written=written)
    return notes


def test_the_fastest_that_gives_the_same_numbers_is_taken(clock: dict[int, float]) -> None:
    def answer() -> Tensor:
        return torch.tensor([2.0 if tile("vocabulary", 1).warps == 16 else 1.0])

    notes = measured(case(answer))
    assert notes.best(case()) == Tile(2048, 4)
    found = notes.milliseconds["vocabulary all"]
    assert found["2048/4/1"] == {"a call": 0.7} and "8192/16/1" not in found
    assert "not close" in notes.refused["vocabulary all"]["8192/16/1"]


def test_a_gain_within_the_noise_is_none(clock: dict[int, float]) -> None:
    clock.update({1024: 0.99, 2048: 0.98, 8192: 0.975})
    assert measured(case()).best(case()) == DEFAULT


def test_steps_are_timed_where_there_are_some_and_calls_compared(clock: dict[int, float]) -> None:
    steps = case(steps=lambda device: {"a step": lambda: torch.full((1,), math.nan)})
    found = measured(steps).milliseconds["vocabulary all"]
    assert found["2048/4/1"] == {"a step": 0.7} and len(found) == 4


def test_what_a_card_refuses_is_left_out(clock: dict[int, float]) -> None:
    def answer() -> Tensor:
        if tile("vocabulary", 1).size != DEFAULT.size:
            raise triton.runtime.errors.OutOfResources(300_000, 230_000, "shared memory")
        return ones()

    notes = measured(case(answer))
    assert notes.best(case()) == DEFAULT and len(notes.refused["vocabulary all"]) == 3


def test_what_the_compiler_refuses_or_has_no_time_for_is_not_measured(
    clock: dict[int, float],
) -> None:
    notes = measured(case(), refused={TILES[0]: "too large", TILES[1]: None, DEFAULT: None})
    assert set(notes.milliseconds["vocabulary all"]) == {"4096/8/1", "8192/16/1"}
    assert notes.refused["vocabulary all"] == {"1024/4/1": "too large"}
    assert notes.left_out["vocabulary all"] == ["2048/4/1"]


def test_the_default_at_least_is_measured_when_there_is_no_time(clock: dict[int, float]) -> None:
    notes = measured(case(), seconds=-1)
    assert list(notes.milliseconds["vocabulary all"]) == ["4096/8/1"]
    assert len(notes.left_out["vocabulary all"]) == 3


def test_a_library_stands_beside_ours_or_says_why_not(clock: dict[int, float]) -> None:
    def absent(device: torch.device) -> dict[str, Answer]:
        def call() -> Tensor:
            raise RuntimeError("No available kernel.")

        return {"a call": call}

    rivals = {"torch": lambda device: {"a call": ones}, "other": absent}
    both = case(rivals=rivals)
    notes = measured(both)
    assert notes.library["vocabulary all"]["torch"] == {"a call": 1.0}
    assert notes.library["vocabulary all"]["other"] == "RuntimeError: No available kernel."
    assert "torch: 1000.0 us, ours for the same 200.0" in tuning.shown(both, notes)
    assert notes.is_whole(both)


def test_what_no_call_comes_back_from_ends_the_run_and_is_not_tried_again(
    clock: dict[int, float], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "card.json"

    def answer() -> Tensor:
        if tile("vocabulary", 1) == TILES[1]:
            raise RuntimeError("an illegal memory access was encountered")
        return ones()

    def look(device: torch.device) -> None:
        raise LostDevice("gone")

    notes = Notes.resumed(path, "A card")
    with monkeypatch.context() as changes:
        changes.setattr(measuring, "_look_at", look)
        with pytest.raises(LostDevice):
            measured(case(answer), notes, written=lambda: notes.write(path, [case()]))
    # What the process could not write any more, the next one finds under way.
    again = Notes.resumed(path, "A card")
    assert "did not come back" in again.refused["vocabulary all"]["2048/4/1"]
    assert again.todo(case()) == [Tile(8192, 16)]
    assert again.rows(case()) == {DEFAULT: {"a call": 1.0}, TILES[0]: {"a call": 0.9}}


@pytest.mark.parametrize("change", ["device", "torch", "triton", "kernels"])
def test_measurements_of_something_else_are_not_gone_on_with(
    change: str, clock: dict[int, float], tmp_path: Path
) -> None:
    path = tmp_path / "card.json"
    notes = Notes.resumed(path, "A card")
    measured(case(), notes).write(path, [case()])
    assert Notes.resumed(path, "A card") == notes
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, change: "another"}))
    assert Notes.resumed(path, "A card").milliseconds == {}


def test_they_are_of_all_sources_of_kernels_but_not_of_who_measures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def kernels() -> str:
        return Notes.resumed(tmp_path / "none.json", "A card").kernels

    for folder in ("int4", "tuning"):
        (tmp_path / folder).mkdir()
    monkeypatch.setattr(noting, "SOURCES", tmp_path)
    monkeypatch.setattr(noting, "TUNING", tmp_path / "tuning")
    found = [kernels()]
    for name in ("tuning/notes.py", "norms.py", "int4/products.py"):
        (tmp_path / name).write_text("another")
        found.append(kernels())
    assert found[0] == found[1] and len(set(found)) == 3


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"tiles": {}}', '{"tiles": {}, "more": 1}'])
def test_a_file_that_is_no_table_is_begun_anew(content: str, tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    path.write_text(content)
    assert Notes.resumed(path, "A card").milliseconds == {}


def test_sizes_that_were_not_measured_keep_their_defaults(
    clock: dict[int, float], tmp_path: Path
) -> None:
    """Also between those that were."""
    path, notes = tmp_path / "card.json", Notes("A card")
    some = [Case("few rows", limit, (), lambda device: {"x": ones}) for limit in (1, 4)]
    for one, best in zip(some, (Tile(16, 4, 4), Tile(8, 8, 2)), strict=True):
        notes.measured(one, one.default, {"x": 1.0}, {})
        notes.measured(one, best, {"x": 0.5}, {})
    some = [Case(c.kernel, c.limit, (Tile(16, 4, 4), Tile(8, 8, 2)), c.calls) for c in some]
    notes.write(path, some)
    kept = dict(DEFAULTS["few rows"])
    assert dict(parsed(json.loads(path.read_text()))["few rows"]) == {
        **kept, 1.0: Tile(16, 4, 4), 4.0: Tile(8, 8, 2)
    }  # fmt: skip


# --- a whole run ---------------------------------------------------------------------------------


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[Any]]]:
    """As `tune` meets one; returns the jobs that its compilers were given."""
    jobs: list[list[Any]] = []

    def compile_all(wanted: list[Any], target: object, **how: Any) -> dict[Any, str]:
        jobs.append(list(wanted))
        return dict.fromkeys(wanted, "")

    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "A card")
    monkeypatch.setattr(torch, "device", lambda name: CPU)
    driver = SimpleNamespace(active=SimpleNamespace(get_current_target=lambda: None))
    monkeypatch.setattr(tuning, "driver", driver)
    monkeypatch.setattr(tuning, "compile_all", compile_all)
    norm = Case("norm", 128.0, (), lambda device: {"x": ones})
    monkeypatch.setattr(tuning, "cases", lambda: iter([case(), norm]))
    yield jobs


def test_the_table_that_is_written_can_be_read_and_is_gone_on_with(
    clock: dict[int, float], card: list[list[Any]], tmp_path: Path, capsys: Any
) -> None:
    output = tmp_path / "tables" / "card.json"
    path = tuning.tune(output, ["vocabulary"], seconds=1e9)
    assert "8192/16/1, 200.0 us instead of 1000.0 (4 tried" in capsys.readouterr().out
    signs: list[None] = []
    again = tuning.tune(output, seconds=1e9, goes_on=lambda: signs.append(None))
    assert again == path == output and len(signs) == 1  # a case was left
    # The likeliest first; what is known already is not compiled again.
    assert [len(some) for some in card] == [4, 1]
    assert card[0][0] == ("vocabulary all", DEFAULT) and card[1] == [("norm 128", Tile(8, 4))]
    document = json.loads(path.read_text())
    assert document["device"] == "A card" and document["triton"] == triton.__version__
    table = parsed(document)
    assert table["vocabulary"] == ((math.inf, Tile(8192, 16)),)
    assert table["norm"] == DEFAULTS["norm"]


def test_a_case_that_has_no_room_leaves_the_others(
    clock: dict[int, float], card: list[list[Any]], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: Any,
) -> None:  # fmt: skip
    def too_large(device: torch.device) -> dict[str, Answer]:
        raise torch.OutOfMemoryError("tried to allocate 3 GiB")

    large = Case("norm", 128.0, (), too_large)
    monkeypatch.setattr(tuning, "cases", lambda: iter([large, case()]))
    document = json.loads(tuning.tune(tmp_path / "card.json", seconds=1e9).read_text())
    assert set(document["tiles"]) == {"vocabulary"}
    assert "norm 128" in (said := capsys.readouterr().out) and "tried to allocate 3 GiB" in said


def test_an_unknown_kernel_names_itself() -> None:
    with pytest.raises(ValueError, match="kernel.*'norms'"):
        tuning.tune(None, ["norms"])


def test_without_a_card_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == 1
    assert capsys.readouterr().err == ("lookhear tune: expected a CUDA device, torch sees none\n")


@pytest.mark.parametrize(
    "options",
    [["--kernel", "norms"], *(["--seconds", text] for text in ("0", "-100", "nan", "inf", "x"))],
    ids=" ".join,
)
def test_what_it_cannot_do_is_refused(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(options)
    assert ended.value.code == 2 and f"argument {options[0]}: " in capsys.readouterr().err


def test_a_run_that_goes_on_behind_its_time_is_not_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waits: list[float] = []
    now = iter([0.0, 0.0, 200.0, 900.0])

    def tune(output: Path, kernels: None, *, goes_on: Callable[[], None], **how: Any) -> Path:
        goes_on()
        goes_on()
        return output

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(tuning, "tune", tune)
    monkeypatch.setattr(command, "time", SimpleNamespace(monotonic=lambda: next(now)))
    watch = SimpleNamespace(
        dump_traceback_later=lambda wait, exit: waits.append(wait),
        cancel_dump_traceback_later=lambda: None,
    )
    monkeypatch.setattr(command, "faulthandler", watch)
    assert command.main(["--output", str(tmp_path / "card.json")]) == 0
    assert waits == [300.0, 100.0, 60.0]
