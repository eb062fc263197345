"""Whatever the table, its types and the options, a store holds what memory would, and refuses what it refuses."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import eventvec as ev
from eventvec.tables import key_parts

Numbers = np.ndarray[Any, np.dtype[np.int64]]
START = datetime(2020, 1, 1)
UUIDS = [uuid.uuid5(uuid.NAMESPACE_OID, str(i)) for i in range(60)]
KEYS: dict[str, Callable[[Numbers], pa.Array]] = {
    "int8": lambda ids: pa.array(ids - 30, pa.int8()),
    "uint64": lambda ids: pa.array(ids.astype(np.uint64) + np.uint64(2**63)),
    "text": lambda ids: pa.array([f"é{i}" if i % 3 else f"z{i}" for i in ids], pa.large_string()),
    "dictionary": lambda ids: pa.array([f"k{i}" for i in ids]).dictionary_encode(),
    "dictionary of numbers": lambda ids: pa.array(ids).dictionary_encode(),
    "uuid": lambda ids: pa.ExtensionArray.from_storage(pa.uuid(), KEYS["bytes"](ids).cast(pa.binary(16))),
    "bytes": lambda ids: pa.array([UUIDS[i].bytes for i in ids], pa.binary()),
}
TIMES: dict[str, Callable[[Numbers], pa.Array]] = {
    "date": lambda days: pa.array([(START + timedelta(days=int(day))).date() for day in days]),
    "zone": lambda days: pa.array(
        [START + timedelta(days=int(day)) for day in days], pa.timestamp("ms", "Europe/Rome")
    ),
    "text": lambda days: pa.array([str(START + timedelta(days=int(day))) for day in days]),
    "integer": lambda days: pa.array(days, pa.uint16()),
    "float": lambda days: pa.array(days / 3),
}
USES: list[dict[str, Any]] = [
    {},
    {"summed": ["items"]},
    {"texts": ["text"], "hashed": ["shop"]},
    {"explode": ["items"], "categorical": ["items"]},
    {"explode": ["items"]},
]


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Return a table of at most 60 entities, some of whose values are missing."""
    n, n_entities = draw(st.sampled_from([1, 2, 40, 300])), draw(st.sampled_from([1, 2, 9, 60]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    ids = rng.integers(0, n_entities, n)
    ids = np.sort(ids) if draw(st.booleans()) else ids

    def some(values: list[Any]) -> list[Any]:
        return [None if rng.random() < 0.1 else value for value in values]

    shops = pa.array(some([f"s{i}" for i in rng.geometric(0.3, n)]), pa.string())
    return pa.table(
        {
            "card": KEYS[draw(st.sampled_from(sorted(KEYS)))](ids),
            "day": TIMES[draw(st.sampled_from(sorted(TIMES)))](rng.integers(0, draw(st.sampled_from([3, 90])), n)),
            "shop": shops.dictionary_encode() if draw(st.booleans()) else shops,
            "paid": pa.array(some(rng.lognormal(size=n).tolist()), pa.float64()),
            "items": pa.array(some([list("abc"[: rng.integers(0, 4)]) for _ in range(n)]), pa.list_(pa.string())),
            "text": pa.array(some([f"é {i}" for i in rng.geometric(0.2, n)]), pa.string()),
            "line": rng.permutation(n),
        }
    )


def result(source: Any, **options: Any) -> Any:
    """Return what reading gives, in a form that can be compared; of an error, its type."""
    try:
        data = ev.read(source, **options)
    except (ev.DataError, ev.ConfigError) as error:
        return type(error)
    moments = None if data.moments is None else data.moments.tolist()
    return data.keys.type, data.keys.to_pylist(), data.schema, data.notes, data.fingerprint, moments


@given(
    table=tables(),
    uses=st.sampled_from(USES),
    more=st.fixed_dictionaries(
        {},
        optional={
            "order": st.just("line"),
            "ties": st.just("canonical"),
            "key_as": st.just("client"),
            "holdout": st.sampled_from([0.1, 0.9]),
            "fitting": st.builds(ev.Fitting, min_count=st.sampled_from([1, 9]), log=st.booleans()),
        },
    ),
    until=st.sampled_from([None, None, 2]),
    cut=st.sampled_from([None, None, 1, 30]),
    size=st.sampled_from([(5, 1), (40, 7), (400, 150)]),
    given_as=st.sampled_from(["table", "tables", "files"]),
)
@settings(derandomize=True, suppress_health_check=list(HealthCheck))
def test_a_store_holds_what_memory_holds(
    table: pa.Table,
    uses: dict[str, Any],
    more: dict[str, Any],
    until: int | None,
    cut: int | None,
    size: tuple[int, int],
    given_as: str,
) -> None:
    options = {"key": "card", "time": "day", "numeric": ["paid"], "categorical": ["shop"], **uses, **more}
    if "shop" in options.get("hashed", ()):
        del options["categorical"]
    is_number = pa.types.is_integer(table["day"].type) or pa.types.is_floating(table["day"].type)
    if until is not None:
        options["until"] = until if is_number else START + timedelta(days=until)
    if cut is not None:  # at `cut` times, of any entities
        rows = np.random.default_rng(cut).integers(len(table), size=cut)
        cutoffs = pa.table({"card": table["card"].take(rows), "day": table["day"].take(rows)})
        options |= {"cutoffs": cutoffs, "cutoff_column": "day"}
    half = len(table) // 2
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        for constant, value in zip(("EVENTS", "ROWS", "SAMPLED"), (*size, 3), strict=True):
            patch.setattr(key_parts, constant, value)
        source: Any = table
        if given_as == "tables":
            source = {"first": table[:half], "second": table[half:]}
        elif given_as == "files":
            source = folder / "events"
            source.mkdir()
            pq.write_table(table[:half], source / "0.parquet")
            pq.write_table(table[half:], source / "1.parquet", row_group_size=50)
        memory = result(source, **options)
        assert result(source, store=folder / "store", **options) == memory
        if isinstance(memory, type):
            assert not (folder / "store").exists()
            return
        if given_as == "files":
            assert result(source, store=folder / "store", **options) == memory
        names = ("holdout", "until", "cutoffs", "cutoff_column", "key_as")
        scoring = {"schema": memory[2], **{name: options[name] for name in names if name in options}}
        assert result(source, store=folder / "scored", **scoring) == result(source, **scoring)
