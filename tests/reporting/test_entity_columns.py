"""What is known of each entity stands in its row, and what does not fit is counted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from eventvec.errors import DataError
from eventvec.evaluation import LabelOptions
from eventvec.reporting.entity_columns import entity_columns, label_columns, most_frequent
from eventvec.schema import Categorical
from eventvec.sequences import Sequences
from eventvec.tables import Embeddings, Fitting, attach, read

EVENTS = pl.DataFrame({"card": [1, 1, 2, 3], "day": [1, 2, 5, 9], "shop": ["a", "b", "b", None]})
PLAIN = LabelOptions()


def embedded(**options: Any) -> tuple[Any, Embeddings]:
    data = read(EVENTS, key="card", time="day", categorical=["shop"], fitting=Fitting(min_count=1), **options)
    return data, Embeddings.of(data, np.eye(len(data)))


def test_labels_stand_beside_their_entities() -> None:
    data, z = embedded()
    labels = pl.DataFrame({"card": ["3", "1", "9"], "churn": [True, False, True], "number of events": [7, 8, 9]})
    frame, notes = entity_columns(z, data, labels, PLAIN)
    assert frame["churn"].to_list() == [False, None, True]
    assert frame["number of events"].to_list() == [8, None, 7]  # the caller's column of this name
    assert frame["last event"].to_list() == [2, 5, 9]
    assert frame["shop, most frequent"].to_list()[1:] == ["b", None]
    assert notes == ("1 of 3 embeddings have no row in the label table.",)


def test_rows_that_disagree_and_lists_are_left_out_and_counted() -> None:
    _, z = embedded()
    labels = pl.DataFrame({"id": [1, 1, 2, 2, None], "x": [1, 2, 3, 3, 4], "tags": [[1]] * 5})
    frame, notes = label_columns(z, labels, LabelOptions(key="id"))
    assert frame.to_dict(as_series=False) == {"x": [None, 3, None]}
    assert notes[:2] == (
        "1 keys of the label table have rows that disagree; the map shows no labels of them.",
        "The map shows no columns of lists or bytes: tags.",
    )

    monthly = pl.DataFrame({"card": [1, 1, 2, 2], "day": [4, 8, 4, 8], "x": [1, 2, 1, 2]})
    data, z = embedded()
    frame, notes = entity_columns(z, data, monthly, PLAIN)
    assert "x" not in frame.columns
    assert notes == ("2 keys of the label table have rows that disagree; the map shows no labels of them.",)


def test_a_table_that_does_not_fit_is_refused_without_a_key() -> None:
    _, z = embedded()
    with pytest.raises(DataError, match="the label table has no column 'card'; did you mean 'cart'"):
        label_columns(z, pl.DataFrame({"cart": [1]}), PLAIN)
    with pytest.raises(DataError, match="none of 1 rows of the label table has a key") as refused:
        label_columns(z, pl.DataFrame({"card": [987654], "churn": [True]}), PLAIN)
    assert "987654" not in str(refused.value)


def test_labels_of_several_times_are_joined_by_time() -> None:
    cutoffs = pl.DataFrame({"card": [1, 1, 2], "day": [2, 3, 6]})
    _, z = embedded(cutoffs=cutoffs, cutoff_column="day")
    labels = cutoffs.with_columns(churn=pl.Series(["x", "y", "z"])).reverse()
    frame, _ = entity_columns(z, None, labels, PLAIN)
    assert list(zip(z.keys.to_pylist(), frame["cut at"], frame["churn"], strict=True)) == [
        (1, 2, "x"),
        (1, 3, "y"),
        (2, 6, "z"),
    ]


def test_static_columns_and_held_out_entities_are_shown() -> None:
    data, z = embedded()
    people = pl.DataFrame({"card": [1, 2, 3], "age": [30.0, None, 50.0], "sex": ["f", "m", "f"]})
    data = attach(data, people, fitting=Fitting(min_count=1))
    z = Embeddings.of(data, np.eye(len(data)), {"holdouts": [{"fraction": 0.5, "seed": 0}]})
    frame, _ = entity_columns(z, data, None, PLAIN)
    expected = {row["card"]: row for row in people.iter_rows(named=True)}
    assert frame["sex"].to_list() == [expected[key]["sex"] for key in z.keys.to_pylist()]
    assert frame["held out"].to_list() == z.held_out.tolist()


def test_the_most_frequent_value_equals_a_slow_loop() -> None:
    rng = np.random.default_rng(0)
    lengths = torch.from_numpy(rng.integers(0, 9, 50))
    codes = torch.from_numpy(rng.integers(0, 6, int(lengths.sum())))
    field = Categorical("shop", ("a", "b", "c", "d"))
    x = Sequences({"shop": codes}, lengths.cumsum(0) - lengths, lengths)[torch.from_numpy(rng.permutation(50))]
    expected = []
    for row in range(len(x)):
        counts = Counter(code for code in x[[row]].values("shop").tolist() if code > 1)
        best = min(counts, key=lambda code: (-counts[code], code), default=None)
        expected.append(None if best is None else field.values[best - 2])
    assert most_frequent(x, field).to_list() == expected
