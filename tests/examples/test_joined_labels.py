"""The join of labels: against a loop, keys of every type, counts, notes that print no key, and refusals."""

from __future__ import annotations

import uuid
from datetime import date

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from eventvec.errors import DataError
from eventvec.examples.joined_labels import join_labels
from eventvec.learners import inputs
from eventvec.learners.folds import group_codes
from eventvec.learners.task import target


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
    joined = join_labels(pa.array(keys, pa.int32()), "id", frame, "y")
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
    assert joined.notes == tuple(f"{count} {text}" for text, count in counts.items() if count)


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
    joined = join_labels(keys, "who", pl.DataFrame({"who": column, "y": [30, 10, 90]}), "y")
    assert joined.positions.tolist() == [0, 2]
    assert joined.labels.tolist() == [10, 30]
    assert joined.notes[1:] == (
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
    joined = join_labels(pa.array([4, 3, 2, 1]), "id", table, "y", group="ward", time="at")
    assert joined.positions.tolist() == [0, 3]
    assert joined.labels.tolist() == [4.5, 1.5]
    assert joined.groups.tolist() == ["b", "a"]
    assert joined.times.to_list() == [date(2020, 1, 4), date(2020, 1, 1)]
    assert joined.times.dtype == pl.Date
    assert joined.notes[1:4] == (
        "1 rows of the label table have no label.",
        "1 rows of the label table repeat another one and were merged with it.",
        "1 keys of the label table have rows that disagree and were left out.",
    )


def test_notes_count_and_print_no_key():
    table = pl.DataFrame({"id": ["secret1", "secret1", "secret2", "secret2", "secret9"], "y": [1, 1, 0, 1, 0]})
    joined = join_labels(pa.array(["secret1", "secret2", "secret3"]), "id", table, "y")
    assert joined.notes == (
        "1 embeddings have a label.",
        "1 rows of the label table repeat another one and were merged with it.",
        "1 keys of the label table have rows that disagree and were left out.",
        "1 labels have no embedding and were left out.",
        "2 of 3 embeddings have no label, or several that disagree, and were left out.",
    )
    assert "secret" not in " ".join(joined.notes)


def test_label_rows_without_a_key_are_counted():
    joined = join_labels(pa.array([1, 2]), "id", pl.DataFrame({"id": [1, None, 2, None], "y": [0, 1, 1, None]}), "y")
    assert joined.notes == (
        "2 embeddings have a label.",
        "1 rows of the label table have no label.",
        "1 rows of the label table have no key and were left out.",
    )


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Boolean, pl.Decimal(10, 2), pl.Float32, pl.Int8])
def test_labels_of_every_type_are_accepted(dtype):
    values = ["no", "yes"] if dtype == pl.Categorical else [0, 1]
    table = pl.DataFrame({"id": range(20), "y": pl.Series(values * 10).cast(dtype)})
    assert target(join_labels(pa.array(range(20)), "id", table, "y").labels).task == "binary"


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
        join_labels(keys, "id", pl.DataFrame(table), label)
    assert "77" not in str(caught.value)
    assert "88" not in str(caught.value)


def test_labels_and_groups_that_end_in_nul_stay_different():
    table = pl.DataFrame({"id": range(4), "y": ["a", "a\0", "a", "a\0"], "ward": ["b\0", "b", "b\0\0", "b"]})
    joined = join_labels(pa.array(range(4)), "id", table, "y", group="ward")
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
    joined = join_labels(pa.array([1, 2]), "id", table, "y", group="ward")
    with pytest.raises(DataError, match="groups mix types or are nested; accepted: all text"):
        group_codes(joined.groups)


def test_a_long_or_hostile_name_is_shortened_and_escaped():
    table = pl.DataFrame({"id": [1], "y\x1b[31m": [1], "z" * 500: [1]})
    with pytest.raises(DataError) as caught:
        join_labels(pa.array([1]), "id", table, "x")
    assert str(caught.value) == (f"the label table has no column 'x'; accepted: id, y\\x1b[31m, {'z' * 40}…")


@pytest.mark.parametrize("convert", [pl.DataFrame.to_pandas, pl.DataFrame.to_arrow])
def test_the_table_of_labels_may_come_from_another_library(convert):
    table = pl.DataFrame({"card": [7, 5, 9], "again": [True, False, True]})
    joined = join_labels(pa.array([5, 6, 7]), "card", convert(table), "again")
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
        join_labels(pa.array([5, 6]), "card", table, "churn")
