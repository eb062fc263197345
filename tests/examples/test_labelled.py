"""Examples: against loops over the table of labels, keys of every type, counts, notes that print no key, refusals."""

from __future__ import annotations

import uuid
from datetime import date
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import eventvec as ev
from eventvec.errors import ConfigError, DataError
from eventvec.examples.labelled import Examples, join_examples
from eventvec.learners import inputs
from eventvec.learners.folds import group_codes
from eventvec.learners.task import target
from eventvec.tables import Embeddings
from eventvec.tables.label_times import labelled_histories, labels_beside
from eventvec.tables.read_options import LabelTime
from eventvec.tables.times import DAY

SCHEMA = ev.read(pl.DataFrame({"id": [1], "day": [date(2020, 1, 1)]}), key="id", time="day", numeric=[]).schema


def join(
    keys: pa.Array, table: Any, label: str, *, key: str = "id", group: str | None = None, time: str = "none"
) -> Examples[Embeddings]:
    """Return embeddings with these keys, joined to a table of labels."""
    n = len(keys)
    z = Embeddings(keys, np.zeros((n, 1), np.float32), np.ones(n, np.int64), np.zeros(n, np.int64), SCHEMA, {})
    return join_examples(z, labels_beside(z, table, [label], LabelTime(time), key=key, group=group))


def events_and_labels(seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return events, and labels at several times of an entity, some missing, repeated, or in disagreement."""
    rng = np.random.default_rng(seed)
    events = pl.DataFrame({"id": rng.integers(0, 12, 200), "t": rng.integers(0, 50, 200), "v": rng.random(200)})
    table = pl.DataFrame({
        "id": rng.integers(0, 15, 60), "t": rng.integers(5, 40, 60), "y": rng.choice(["a", "b", None], 60).tolist(),
        "ward": rng.choice(["north", "south"], 60), "w": rng.integers(1, 3, 60).astype(float),
    })  # fmt: skip
    return events, pl.concat([table, table[:10]])


def slow_examples(events: pl.DataFrame, table: pl.DataFrame, inclusive: bool) -> list[tuple]:
    """Return key, time, times of the events that are read, label, ward and weight of each example, row by row."""
    examples = []
    for key, time in sorted({(key, time) for key, time, y, *_ in table.rows() if y is not None}):
        rows = {row[2:] for row in table.rows() if row[:2] == (key, time) and row[2] is not None}
        if len(rows) > 1 or key not in events["id"]:
            continue
        read = [t for other, t, _ in events.rows() if other == key and (t < time or (inclusive and t == time))]
        examples.append((key, time, tuple(sorted(read)), *rows.pop()))
    return examples


@pytest.mark.parametrize("inclusive", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_examples_are_the_rows_of_the_table_with_the_events_before_their_times(seed: int, inclusive: bool) -> None:
    events, table = events_and_labels(seed)
    data = ev.read(events, key="id", time="t", numeric=["v"])
    timed = labels_beside(data, table, ["y"], LabelTime("t", inclusive), group="ward", weight="w")
    histories = labelled_histories(data, timed)
    expected = slow_examples(events, table, inclusive)
    assert len(expected) > 20
    encoder = ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=2)
    for rows in (histories, ev.embed(encoder, histories)):
        examples = join_examples(rows, timed)
        codes = {key: code for code, key in enumerate(dict.fromkeys(row[0] for row in expected))}
        keys = examples.rows.keys.to_pylist()
        assert list(zip(keys, examples.times, strict=True)) == [row[:2] for row in expected]
        assert [examples.labels.tolist(), examples.groups.tolist(), examples.weights.tolist()] == [
            [row[place] for row in expected] for place in (3, 4, 5)
        ]
        assert examples.entities.tolist() == [codes[row[0]] for row in expected]
        assert examples.target().classes == ("a", "b")
        part = examples[np.flatnonzero(examples.times < 20)]
        assert list(zip(part.rows.keys.to_pylist(), part.times, part.labels, strict=True)) == [
            (*row[:2], row[3]) for row in expected if row[1] < 20
        ]
    x = join_examples(histories, timed).rows.sequences
    read = [tuple(x[[row]].values("time").tolist()) for row in range(len(x))]
    assert read == [row[2] for row in expected]
    assert join_examples(ev.embed(encoder, histories), timed).rows.events.tolist() == [len(row[2]) for row in expected]


def test_several_rows_of_an_entity_need_the_times_of_their_labels() -> None:
    events, table = events_and_labels(0)
    data = ev.read(events, key="id", time="t", numeric=["v"], cutoffs=table[["id", "t"]].unique(), cutoff_column="t")
    with pytest.raises(ConfigError, match="entities have several rows, each with its time, and labels need a time too"):
        join_examples(data, labels_beside(data, table, ["y"], LabelTime("none")), of="rows")


def slow_join(keys: list, table: list[tuple]) -> dict[int, object]:
    """Return the label of each position, one key at a time."""
    label_of = {}
    for position, key in enumerate(keys):
        labels = {label for other, label in table if other == key and label is not None}
        if len(labels) == 1:
            label_of[position] = labels.pop()
    return label_of


@pytest.mark.parametrize("seed", range(5))
def test_join_equals_a_loop(seed):
    rng = np.random.default_rng(seed)
    keys = rng.permutation(40)[:20]
    table = [
        (int(k), [None, "a", "b"][int(c)]) for k, c in zip(rng.integers(0, 40, 50), rng.integers(0, 3, 50), strict=True)
    ]
    frame = pl.DataFrame(table, schema={"id": pl.Int64, "y": pl.String}, orient="row")
    joined = join(pa.array(keys, pa.int32()), frame, "y")
    assert dict(zip(joined.positions.tolist(), joined.labels.tolist(), strict=True)) == slow_join(keys.tolist(), table)
    labelled = [row for row in table if row[1] is not None]
    matched = [row for row in labelled if row[0] in keys]
    by_key = {key: {label for other, label in matched if other == key} for key, _ in matched}
    counts = {
        "embeddings have a label.": len(joined.positions),
        "rows of the label table have no label.": len(table) - len(labelled),
        "rows of the label table repeat another one and were merged with it.": len(matched) - len(set(matched)),
        "keys of the label table have rows that disagree and were left out.": sum(
            len(labels) > 1 for labels in by_key.values()
        ),
        "labels have no embedding and were left out.": len({key for key, _ in labelled if key not in keys}),
        "of 20 embeddings have no label, or several that disagree, and were left out.": 20 - len(joined.positions),
    }
    assert joined.notes[:-1] == tuple(f"{count} {text}" for text, count in counts.items() if count)


UUIDS = [uuid.UUID(int=i * 10**30) for i in range(1, 4)]
SAME = [
    (pa.array([1, 2, 3], pa.int8()), pl.Series([3, 1, 9], dtype=pl.UInt32)),
    (pa.array([1, 2, 3], pa.int64()), pl.Series([3, 1, 2**63], dtype=pl.UInt64)),
    (pa.array(["1", "2", "3"]), pl.Series(["3", "1", "9"])),
    (pa.array([1, 2, 3]), pl.Series(["3", "1", "9"])),
    (pa.array(["1", "2", "3"], pa.large_string()), pl.Series(["3", "1", "9"], dtype=pl.Categorical)),
    (pa.array(["1", "2", "3"]).dictionary_encode(), pl.Series(["3", "1", "9"], dtype=pl.Enum(["1", "3", "9"]))),
    (
        pa.array([u.bytes for u in UUIDS], pa.uuid()),
        pl.Series([str(UUIDS[2]).upper(), str(UUIDS[0]), str(uuid.UUID(int=5))]),
    ),
    (
        pa.array([u.bytes for u in UUIDS], pa.binary(16)),
        pl.Series([UUIDS[2].bytes, UUIDS[0].bytes, uuid.UUID(int=5).bytes]),
    ),
    (pa.array([str(u) for u in UUIDS]), pl.Series([UUIDS[2].bytes, UUIDS[0].bytes, uuid.UUID(int=5).bytes])),
]


@pytest.mark.parametrize(("keys", "column"), SAME, ids=lambda x: str(getattr(x, "dtype", getattr(x, "type", ""))))
def test_keys_are_compared_by_value_in_any_type(keys, column):
    joined = join(keys, pl.DataFrame({"who": column, "y": [30, 10, 90]}), "y", key="who")
    assert joined.positions.tolist() == [0, 2]
    assert joined.labels.tolist() == [10, 30]
    assert joined.notes[1:-1] == (
        "1 labels have no embedding and were left out.",
        "1 of 3 embeddings have no label, or several that disagree, and were left out.",
    )


def test_group_and_time_come_along_and_must_agree():
    table = pl.DataFrame(
        {
            "id": [1, 1, 2, 2, 3, 4],
            "y": [1.5, 1.5, 2.5, 2.5, None, 4.5],
            "ward": ["a", "a", "a", "b", None, "b"],
            "at": [date(2020, 1, d) for d in (1, 1, 2, 2, 3, 4)],
        }
    )
    joined = join(pa.array([4, 3, 2, 1]), table, "y", group="ward", time="at")
    assert joined.positions.tolist() == [0, 3]
    assert joined.labels.tolist() == [4.5, 1.5]
    assert joined.groups.tolist() == ["b", "a"]
    assert np.diff(joined.times).tolist() == [-3 * DAY]
    assert joined.notes[1:4] == (
        "1 rows of the label table have no label.",
        "1 rows of the label table repeat another one and were merged with it.",
        "1 keys of the label table have rows that disagree and were left out.",
    )


def test_notes_count_and_print_no_key():
    table = pl.DataFrame({"id": ["secret1", "secret1", "secret2", "secret2", "secret9"], "y": [1, 1, 0, 1, 0]})
    joined = join(pa.array(["secret1", "secret2", "secret3"]), table, "y")
    assert joined.notes[:-1] == (
        "1 embeddings have a label.",
        "1 rows of the label table repeat another one and were merged with it.",
        "1 keys of the label table have rows that disagree and were left out.",
        "1 labels have no embedding and were left out.",
        "2 of 3 embeddings have no label, or several that disagree, and were left out.",
    )
    assert "secret" not in " ".join(joined.notes)


def test_label_rows_without_a_key_are_counted():
    joined = join(pa.array([1, 2]), pl.DataFrame({"id": [1, None, 2, None], "y": [0, 1, 1, None]}), "y")
    assert joined.notes[:-1] == (
        "2 embeddings have a label.",
        "1 rows of the label table have no label.",
        "1 rows of the label table have no key and were left out.",
    )


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Boolean, pl.Decimal(10, 2), pl.Float32, pl.Int8])
def test_labels_of_every_type_are_accepted(dtype):
    values = ["no", "yes"] if dtype == pl.Categorical else [0, 1]
    table = pl.DataFrame({"id": range(20), "y": pl.Series(values * 10).cast(dtype)})
    assert target(join(pa.array(range(20)), table, "y").labels).task == "binary"


@pytest.mark.parametrize(
    ("keys", "table", "label", "message"),
    [
        (pa.array([1]), {"id": [1], "y": [1]}, "chrun", "no column 'chrun'; .*accepted: id, y"),
        (pa.array([1]), {"idd": [1], "y": [1]}, "y", "no column 'id'; did you mean 'idd'"),
        (pa.array([1]), {"id": [1.0], "y": [1]}, "y", "column 'id' cannot be the key: it holds Float64"),
        (pa.array([77]), {"id": [88], "y": [1]}, "y", r"none of 1 labelled rows has a key .*among 1 embeddings .int64"),
    ],
)
def test_join_is_refused(keys, table, label, message):
    with pytest.raises(DataError, match=message) as caught:
        join(keys, pl.DataFrame(table), label)
    assert "77" not in str(caught.value)
    assert "88" not in str(caught.value)


def test_labels_and_groups_that_end_in_nul_stay_different():
    table = pl.DataFrame({"id": range(4), "y": ["a", "a\0", "a", "a\0"], "ward": ["b\0", "b", "b\0\0", "b"]})
    joined = join(pa.array(range(4)), table, "y", group="ward")
    labelled = target(joined.labels)
    assert (labelled.classes, labelled.y.tolist()) == (("a", "a\0"), [0, 1, 0, 1])
    assert target(["a", "a\0", "b"]).classes == ("a", "a\0", "b")
    assert (
        group_codes(joined.groups).tolist() == group_codes(inputs.column(table["ward"].to_list(), "groups", 4)).tolist()
    )
    assert group_codes(joined.groups).tolist() == [0, 1, 2, 1]


def test_whole_numbers_beyond_64_signed_bits_are_labels():
    assert target(np.array([2**64 - 1, 0, 1], np.uint64)).classes == (0, 1, 2**64 - 1)


@pytest.mark.parametrize("labels", [[1, "a"], [[1], [2, 3]]])
def test_labels_that_mix_types_are_refused(labels):
    with pytest.raises(
        DataError, match=r"label 'label' (mixes types; accepted: all text|must be an array with one row)"
    ):
        target(labels)


def test_nested_groups_are_refused():
    table = pl.DataFrame({"id": [1, 2], "y": [0, 1], "ward": [[1], [2]]})
    joined = join(pa.array([1, 2]), table, "y", group="ward")
    with pytest.raises(DataError, match="groups mix types or are nested; accepted: all text"):
        group_codes(joined.groups)


def test_a_long_or_hostile_name_is_shortened_and_escaped():
    table = pl.DataFrame({"id": [1], "y\x1b[31m": [1], "z" * 500: [1]})
    with pytest.raises(DataError) as caught:
        join(pa.array([1]), table, "x")
    assert str(caught.value) == (f"the label table has no column 'x'; accepted: id, y\\x1b[31m, {'z' * 40}…")


@pytest.mark.parametrize("convert", [pl.DataFrame.to_pandas, pl.DataFrame.to_arrow])
def test_the_table_of_labels_may_come_from_another_library(convert):
    table = pl.DataFrame({"card": [7, 5, 9], "again": [True, False, True]})
    joined = join(pa.array([5, 6, 7]), convert(table), "again", key="card")
    assert (joined.positions.tolist(), joined.labels.tolist()) == ([0, 2], [False, True])


def test_masked_values_beside_labels_are_refused() -> None:
    masked = np.ma.masked_array([1.0, 2.0], mask=[True, False])
    with pytest.raises(DataError, match=r"groups must have no masked values, got 1; fill them, or leave their rows"):
        inputs.column(masked, "groups", 2)
    with pytest.raises(DataError, match=r"features 'z' must have no masked values, got 2"):
        inputs.matrix(np.ma.masked_array([[1.0], [2.0]], mask=True), "z", 2)
    assert inputs.column(np.ma.masked_array([1.0, 2.0]), "groups", 2).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("kind", [pl.Null, pl.String, pl.Float64, pl.Boolean, pl.Categorical])
def test_labels_that_are_all_missing_are_named(kind: type[pl.DataType]) -> None:
    table = pl.DataFrame({"card": [5, 6], "churn": pl.Series([None, None], dtype=kind)})
    with pytest.raises(DataError, match=r"no row of 2 has a label \('churn'\); two distinct values"):
        join(pa.array([5, 6]), table, "churn", key="card")
