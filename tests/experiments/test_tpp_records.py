"""Files in the format of TESRBench: what is read from them, and what is refused."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from experiments.tpp.records import read_records, read_split

from eventvec.dataset import strings
from eventvec.errors import DataError

RECORDS: list[dict[str, Any]] = [
    {
        "time_since_start": [0.0, 0.57, 0.66],
        "time_since_last_event": [0.0, 0.57, 0.09],
        "type_event": [3, 1, 3],
        "type_text": ["Nice Question", "Good Answer", "Nice Question"],
        "description": "It begins with Nice Question.",
        "dataset": "stack-overflow",
    },
    {
        "time_since_start": [0.0, 0.0],
        "time_since_last_event": [0.0, 0.0],
        "type_event": [1, 0],
        "type_text": ["Good Answer", "Guru"],
        "description": "Two badges at one time.",
        "dataset": "stack-overflow",
    },
]


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pl.DataFrame(records).write_parquet(path)
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, records)) + "\n")
    else:
        path.write_text(json.dumps(records, indent=4))
    return path


@pytest.mark.parametrize("ending", ["json", "jsonl", "parquet"])
def test_a_file_is_read_in_its_order(tmp_path: Path, ending: str) -> None:
    data = read_records(write(tmp_path / f"train.{ending}", RECORDS))
    (column,) = data.schema.categorical
    codes = data.sequences.values("type_text")
    assert data.keys.to_pylist() == [0, 1]
    assert data.sequences.lengths.tolist() == [3, 2]
    assert [column.values[code - 2] for code in codes.tolist()] == [
        text for record in RECORDS for text in record["type_text"]
    ]
    torch.testing.assert_close(
        data.sequences.values("time").double(), torch.tensor([0.0, 0.57, 0.66, 0.0, 0.0]).double(), rtol=1e-6, atol=1e-6
    )
    assert strings(data.sequences.static["description"]) == [record["description"] for record in RECORDS]


def test_the_parts_are_coded_by_the_types_of_training(tmp_path: Path) -> None:
    unknown = copy.deepcopy(RECORDS[:1])
    unknown[0]["type_text"][1] = "Caucus"
    for name, records in {"train": RECORDS, "dev": RECORDS[1:], "test": unknown}.items():
        write(tmp_path / f"{name}.json", records)
    parts = read_split(tmp_path)
    assert {part: len(data) for part, data in parts.items()} == {"training": 2, "validation": 1, "test": 1}
    assert all(data.schema == parts["training"].schema for data in parts.values())
    trained, tested = (parts[part].sequences.values("type_text").tolist() for part in ("training", "test"))
    assert [trained[0], trained[2]] == [tested[0], tested[2]]
    assert tested[1] not in trained


def test_sharded_names_and_missing_parts(tmp_path: Path) -> None:
    for name in ("train-00000-of-00001", "validation-00000-of-00001"):
        write(tmp_path / f"{name}.parquet", RECORDS)
    with pytest.raises(DataError, match="no file for test; accepted: one file whose name begins with test"):
        read_split(tmp_path)
    write(tmp_path / "test-00000-of-00001.parquet", RECORDS)
    assert len(read_split(tmp_path)["test"]) == 2
    write(tmp_path / "test.json", RECORDS)
    with pytest.raises(DataError, match=r"test-00000-of-00001\.parquet, test\.json for test"):
        read_split(tmp_path)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("type_text", ["Guru"], "1 of 2 records .* lists of different lengths, the first is record 1"),
        ("time_since_start", [1.0, 0.0], "times that descend"),
        ("time_since_start", [0.0, math.inf], "times that are not finite"),
        ("time_since_start", [0.0, None], "a missing value"),
        ("time_since_start", None, "a missing value"),
        ("type_text", ["Guru", None], "a missing value"),
        ("description", None, "a missing value"),
        ("description", " ", "an empty description"),
    ],
)
def test_a_bad_record_is_refused_in_one_sentence(tmp_path: Path, field: str, value: object, message: str) -> None:
    records = copy.deepcopy(RECORDS)
    records[1][field] = value
    with pytest.raises(DataError, match=message) as caught:
        read_records(write(tmp_path / "train.parquet", records))
    assert "\n" not in str(caught.value)


def test_a_record_without_events_is_refused(tmp_path: Path) -> None:
    empty: dict[str, Any] = {name: [] for name, value in RECORDS[1].items() if isinstance(value, list)}
    with pytest.raises(DataError, match="no events, the first is record 1"):
        read_records(write(tmp_path / "train.jsonl", [RECORDS[0], {**RECORDS[1], **empty}]))


@pytest.mark.parametrize(
    "field", ["time_since_start", "time_since_last_event", "type_event", "type_text", "description"]
)
def test_a_missing_field_is_named(tmp_path: Path, field: str) -> None:
    records = [{name: value for name, value in record.items() if name != field} for record in RECORDS]
    with pytest.raises(DataError, match=f"lack {field}; accepted: records with"):
        read_records(write(tmp_path / "train.json", records))


@pytest.mark.parametrize(
    ("field", "value", "accepted"),
    [("type_text", 3, "lists of text"), ("time_since_start", ["0"], "lists of numbers"), ("description", 3, "text")],
)
def test_a_field_of_another_type_is_refused(tmp_path: Path, field: str, value: object, accepted: str) -> None:
    records = [{**record, field: value} for record in RECORDS]
    with pytest.raises(DataError, match=f"the field {field} .*accepted: {accepted}"):
        read_records(write(tmp_path / "train.json", records))


@pytest.mark.parametrize("ending", ["json", "jsonl", "parquet"])
@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"\x00\xff", b"[]"])
def test_a_file_that_is_no_list_of_records_is_refused(tmp_path: Path, ending: str, content: bytes) -> None:
    path = tmp_path / f"train.{ending}"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_records(path)
    assert "\n" not in str(caught.value)


def test_another_ending_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"accepted endings: \.json, \.jsonl, \.parquet"):
        read_records(tmp_path / "train.csv")
    with pytest.raises(DataError, match="there is no file"):
        read_records(tmp_path / "train.json")
