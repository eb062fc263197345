"""Files of the published TESRBench (Liu and Quan 2024): one record per sequence, with its description.

The fields of a record are the lists `time_since_start`, `time_since_last_event`, `type_event` and `type_text`, with one
element per event, and the text `description`. Fields beyond these are ignored. The files are at
https://huggingface.co/tppllm.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from polars.exceptions import PanicException, PolarsError

import eventvec as ev
from eventvec.errors import DataError, listed
from eventvec.schema import Schema
from experiments.tpp.benchmarks import HOUR, KEY, Benchmark, Split

LISTS = ("time_since_start", "time_since_last_event", "type_event", "type_text")
FIELDS = (*LISTS, "description")
READERS: dict[str, Callable[[Path], pl.DataFrame]] = {
    ".json": pl.read_json, ".jsonl": pl.read_ndjson, ".parquet": pl.read_parquet,
}  # fmt: skip
PARTS = {"training": ("train",), "validation": ("dev", "validation"), "test": ("test",)}
"""The names that the file of each part may begin with; the published code reads `dev.json`."""


def read_records(path: Path, schema: Schema | None = None) -> ev.Dataset:
    """Return the sequences of one file, in its order, with `type_text` of each event and the text `description`.

    The key `record` is the number of the record, from 0. Times are `time_since_start`, in the unit of the file.

    Args:
        path: A file that ends in .json (a list of records), .jsonl (a record per line) or .parquet.
        schema: The schema of the training file, by which types are coded.

    Raises:
        DataError: If the file cannot be read, or a record lacks a field, has lists of different lengths or without
            elements, a missing value, an empty description, or times that are not finite or descend.

    Example:
        >>> data = read_records(Path("train.json"))  # doctest: +SKIP
    """
    table = _table(path).with_row_index("record")
    _check(table, path)
    events = table.select("record", "time_since_start", "type_text").explode("time_since_start", "type_text")
    static = table.select("record", "description")
    if schema is not None:
        return ev.read(events, schema=schema, static=static)
    return ev.read(
        events, key="record", time="time_since_start", categorical=["type_text"], static=static,
        static_columns={"description": "text"}, fitting=ev.Fitting(min_count=1),
    )  # fmt: skip


def read_split(folder: Path) -> dict[str, ev.Dataset]:
    """Return the sequences for training, validation and test, coded by the types of those for training.

    Args:
        folder: It contains one file for each part: `train`, `dev` or `validation`, and `test`, with an ending that
            `read_records` accepts; the names may continue after a hyphen (`train-00000-of-00001.parquet`).

    Raises:
        DataError: If a part has no file or more than one, or a file cannot be read.

    Example:
        >>> {part: len(data) for part, data in read_split(Path("stack-overflow")).items()}  # doctest: +SKIP
        {'training': 2668, 'validation': 334, 'test': 334}
    """
    files = {part: _file(folder, part) for part in PARTS}
    training = read_records(files["training"])
    others = {part: read_records(files[part], training.schema) for part in ("validation", "test")}
    return {"training": training, **others}


def read_benchmark(folder: Path) -> Benchmark:
    """Return the sequences of all three parts as one benchmark, whose unit is an hour: times keep their numbers.

    Args:
        folder: As for `read_split`.

    Raises:
        DataError: As `read_split` does.

    Example:
        >>> read_benchmark(Path("stack-overflow")).split.test  # doctest: +SKIP
    """
    tables = []
    for part in PARTS:
        table = _table(path := _file(folder, part))
        _check(table, path)
        tables.append(table.select("time_since_start", "type_text", "description"))
    sizes = [len(table) for table in tables]
    together = pl.concat(tables, how="vertical_relaxed").with_row_index(KEY)
    events = together.select(KEY, "time_since_start", "type_text").explode("time_since_start", "type_text")
    events = events.select(
        pl.col(KEY).cast(pl.Int64),
        time=(pl.col("time_since_start") * HOUR).round().cast(pl.Int64),
        type_text="type_text",
    )
    rows = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    return Benchmark(folder.name, events, together["description"].to_list(), HOUR, Split(*rows))


def write_records(data: Benchmark, folder: Path) -> None:
    """Write a benchmark in the format of the published files, one `.json` for each part.

    Args:
        data: The sequences.
        folder: The folder, which is made.

    Example:
        >>> write_records(benchmark("usgs_earthquakes"), Path("us-earthquake"))  # doctest: +SKIP
    """
    folder.mkdir(parents=True, exist_ok=True)
    codes = {name: code for code, name in enumerate(sorted(data.events["type_text"].unique()))}
    records = []
    for (_, names, times), description in zip(data.histories(), data.descriptions, strict=True):
        since = (np.array(times) - times[0]) / data.unit
        records.append({
            "time_since_start": since.tolist(), "time_since_last_event": np.diff(since, prepend=0.0).tolist(),
            "type_event": [codes[name] for name in names], "type_text": names, "description": description,
        })  # fmt: skip
    for name, rows in zip(("train", "dev", "test"), data.split, strict=True):
        (folder / f"{name}.json").write_text(json.dumps([records[i] for i in rows]))


def _file(folder: Path, part: str) -> Path:
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    matching = [path for path in files if path.suffix in READERS and path.stem.split("-")[0] in PARTS[part]]
    if len(matching) != 1:
        names = listed(path.name for path in matching) if matching else "no file"
        accepted = f"one file whose name begins with {' or '.join(PARTS[part])} and ends in {', '.join(READERS)}"
        raise DataError(f"{folder} has {names} for {part}; accepted: {accepted}")
    return matching[0]


def _table(path: Path) -> pl.DataFrame:
    if path.suffix not in READERS:
        raise DataError(f"{path} ends in {path.suffix or 'nothing'}; accepted endings: {', '.join(READERS)}")
    try:
        return READERS[path.suffix](path)
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}; download it from https://huggingface.co/tppllm") from error
    except (PolarsError, PanicException, OSError) as error:  # polars 1.30 panics on a line that is a list
        raise DataError(f"{path} cannot be read as {path.suffix[1:]}; download it again") from error


def _check(table: pl.DataFrame, path: Path) -> None:
    absent = [name for name in FIELDS if name not in table.columns]
    if absent or table.is_empty():
        lack = f"the records of {path} lack {listed(absent)}" if absent else f"{path} has no records"
        raise DataError(f"{lack}; accepted: records with {listed(FIELDS)}")
    for name in FIELDS:
        kind = table[name].dtype
        if not _right(name, kind):
            expected = "text" if name == "description" else f"lists of {'text' if name == 'type_text' else 'numbers'}"
            raise DataError(f"the field {name} of {path} holds {kind}; accepted: {expected}")
    lengths = [pl.col(name).list.len() for name in LISTS]
    times = pl.col("time_since_start")
    faults = {
        "a missing value": pl.any_horizontal(
            pl.col(FIELDS).is_null(), *(pl.col(n).list.eval(pl.element().is_null()).list.any() for n in LISTS)
        ),
        "lists of different lengths": pl.any_horizontal(lengths[0] != other for other in lengths[1:]),
        "no events": lengths[0] == 0,
        "an empty description": pl.col("description").str.strip_chars() == "",
        "times that are not finite": ~times.list.eval(pl.element().cast(pl.Float64).is_finite()).list.all(),
        "times that descend": (times.list.diff().list.min() < 0).fill_null(False),
    }
    for fault, expression in faults.items():
        rows = table.select(expression.alias("fault")).to_series().arg_true()
        if len(rows):
            raise DataError(
                f"{len(rows)} of {len(table)} records of {path} have {fault}, the first is record {rows[0]}, counted "
                "from 0; correct or remove them"
            )


def _right(name: str, kind: pl.DataType) -> bool:
    """Return whether a field has the right type."""
    if name in ("type_text", "description"):
        return kind == (pl.List(pl.String) if name == "type_text" else pl.String)
    return isinstance(kind, pl.List) and kind.inner.is_numeric()
