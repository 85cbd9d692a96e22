from __future__ import annotations

from pathlib import Path

import pytest

from lookhear.bench.numbers import Json
from lookhear.bench.sweep.points import Journal, Point, Variant

ABOUT: Json = {"commit": "abc", "cpu": "some", "cores": 2, "date": "today"}
INT8 = Variant("int8", "--dtype int8")
POINT = Point("live", INT8, "data", 20.0, 2)


def unexpected() -> Json:
    raise AssertionError("it was measured before")


@pytest.mark.parametrize(
    ("text", "variant"),
    [
        ("int8=--dtype int8 --threads 1", Variant("int8", "--dtype int8 --threads 1")),
        ("--dtype=int8", Variant("--dtype=int8", "--dtype=int8")),
        ("plain=", Variant("plain", "")),
        ("toy --threads=1", Variant("toy --threads=1", "toy --threads=1")),
        ("int8=toy --threads=1", Variant("int8", "toy --threads=1")),
        ("", Variant("default", "")),
    ],
)
def test_a_variant_is_a_name_and_arguments(text: str, variant: Variant) -> None:
    assert Variant.of(text) == variant


def test_arguments_without_a_name_may_hold_any_sign() -> None:
    assert Variant.unnamed(" org/a=b ") == Variant("org/a=b", "org/a=b")
    assert Variant.unnamed("") == Variant("default", "")


def test_a_point_is_measured_once_whatever_its_variant_is_called(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "sweep.jsonl"
    assert Journal(path, ABOUT).numbers(POINT, lambda: {"x": 1.5}) == {"x": 1.5}
    again = Journal(path, ABOUT)
    assert again.num_known == 1 and again.has(POINT)
    renamed = Point("live", Variant("other", INT8.arguments), "data", 20.0, 2)
    assert again.numbers(renamed, unexpected) == {"x": 1.5}
    [entry] = again.entries()
    assert entry["commit"] == "abc" and entry["point"]["variant"]["name"] == "int8"


@pytest.mark.parametrize(
    "other",
    [
        Point("files", INT8, "data", 20.0, 2),
        Point("live", Variant("int8", "--dtype float32"), "data", 20.0, 2),
        Point("live", INT8, "other", 20.0, 2),
        Point("live", INT8, "data", 10.0, 2),
        Point("live", INT8, "data", 20.0, 3),
    ],
)
def test_whatever_else_differs_is_another_point(tmp_path: Path, other: Point) -> None:
    journal = Journal(tmp_path / "sweep.jsonl", ABOUT)
    journal.numbers(POINT, lambda: {"x": 1})
    assert not journal.has(other)
    assert journal.numbers(other, lambda: {"x": 2}) == {"x": 2}


def test_what_says_nothing_is_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    journal = Journal(path, ABOUT)
    found = journal.numbers(POINT, lambda: {"late": 9}, lambda numbers: numbers["late"] < 1)
    assert found == {"late": 9} and not journal.has(POINT) and not path.exists()
    journal.numbers(POINT, lambda: {"late": 0}, lambda numbers: numbers["late"] < 1)
    assert Journal(path, ABOUT).num_known == 1


def test_a_writer_that_was_killed_loses_one_point_and_spoils_none(tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    points = [Point("live", INT8, "data", 20.0, load) for load in (1, 2, 4)]
    journal = Journal(path, ABOUT)
    for point in points:
        journal.numbers(point, lambda: {"x": 1})
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rindex(b"\n") + 1
    for cut in (last, last + 1, len(whole) - 1):
        path.write_bytes(whole[:cut])
        again = Journal(path, ABOUT)
        assert [again.has(point) for point in points] == [True, True, False]
        again.numbers(points[2], lambda: {"x": 1})
        assert path.read_bytes() == whole
