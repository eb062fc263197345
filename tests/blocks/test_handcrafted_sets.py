"""The moment of prediction of a data set, and hand-crafted features as of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import eventvec as ev
import make
from eventvec.blocks.handcrafted_sets import handcrafted_features
from eventvec.embedding import with_moment
from eventvec.encoders import Handcrafted
from eventvec.encoders.handcrafted import MOMENT

EVENTS = pl.DataFrame({"card": [1, 1, 1, 2, 3, 3], "day": [1, 4, 9, 3, 2, 7]})
CUTOFFS = pl.DataFrame({"card": [3, 1, 2], "decided": [5, 8, 6]})


def read(**options: Any) -> ev.Dataset:
    return ev.read(EVENTS, key="card", time="day", numeric=[], **options)


def moments(data: ev.Dataset, moment: Any = None) -> list[float]:
    static = with_moment(data, moment).sequences.static[MOMENT]
    assert isinstance(static, torch.Tensor)
    result: list[float] = static.tolist()
    return result


def test_the_moment_is_the_last_event_of_the_data_unless_they_were_cut() -> None:
    assert moments(read()) == [9, 9, 9]
    assert moments(read(until=8)) == [8, 8, 8]
    assert moments(ev.until(read(), 8)) == [8, 8, 8]
    assert moments(read()[[]]) == []


def test_the_moment_is_each_entitys_cutoff(tmp_path: Path) -> None:
    CUTOFFS.write_parquet(tmp_path / "cutoffs.parquet")
    cut = read(cutoffs=tmp_path / "cutoffs.parquet", cutoff_column="decided")
    assert moments(cut) == [8, 6, 5]
    assert moments(cut[[2, 0]]) == [5, 8]
    assert moments(ev.until(cut, 7)) == [7, 6, 5]
    in_memory = read(cutoffs=CUTOFFS, cutoff_column="decided")
    assert moments(in_memory) == [8, 6, 5]


def test_a_moment_may_be_given_in_any_form_of_a_time() -> None:
    for moment in (12, np.int64(12), "12"):
        assert moments(read(), moment) == [12, 12, 12]
    calendar = ev.read(EVENTS.with_columns(pl.date(2020, 1, "day").alias("day")), key="card", time="day", numeric=[])
    expected = [int(datetime(2020, 2, 1, tzinfo=UTC).timestamp()) * 10**6] * 3
    for day in ("2020-02-01", date(2020, 2, 1), datetime(2020, 2, 1, tzinfo=UTC)):
        assert moments(calendar, day) == expected
    floats = ev.read(EVENTS.cast({"day": pl.Float64}), key="card", time="day", numeric=[])
    assert moments(floats, 9.5) == [9.5, 9.5, 9.5]
    for each in (np.array([9, 3, 7]), torch.tensor([9, 3, 7], dtype=torch.int32)):
        assert moments(floats, each) == [9.0, 3.0, 7.0]


@pytest.mark.parametrize(
    ("moment", "error", "message"),
    [
        (8, ev.DataError, "1 of 3 entities have events after the moment of prediction; cut .* until= or cutoffs="),
        (np.array([9, 2, 6]), ev.DataError, "2 of 3 entities have events after"),
        (
            np.array([9, 9]),
            ev.ConfigError,
            r"must be 3 numbers .* each entity, got int64 of shape \(2,\)",
        ),
        (np.array([True] * 3), ev.ConfigError, r"must be 3 numbers .* got bool"),
        (np.array(["2020-01-01"] * 3, "M8[us]"), ev.ConfigError, r"must be 3 numbers .* got datetime64\[us\]"),
        (np.array([9, np.nan, 9]), ev.ConfigError, "must be finite, got nan"),
        ("soon", ev.ConfigError, "'soon' cannot be compared with column 'day', which holds integer values"),
    ],
)
def test_other_moments_are_refused(moment: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        with_moment(read(), moment)


def test_data_that_are_no_dataset_are_refused() -> None:
    with pytest.raises(ev.ConfigError, match="the data must be a Dataset"):
        with_moment(EVENTS)  # type: ignore[arg-type]


def test_features_of_a_data_set_are_those_of_the_encoder_at_that_moment() -> None:
    data = make.dataset([3, 0, 7])
    z, names = handcrafted_features(data, "2500-01-01")
    moment = int(datetime(2500, 1, 1, tzinfo=UTC).timestamp()) * 10**6
    encoder = Handcrafted(data.schema, moment)
    assert names == encoder.names
    assert z.dtype == np.float32
    np.testing.assert_allclose(z, encoder(data.sequences).numpy(), rtol=1e-6, atol=1e-6)


def test_masked_moments_rows_and_vectors_are_refused() -> None:
    data = ev.read(EVENTS, key="card", time="day", numeric=[])
    masked = np.ma.masked_array([9, 9, 9], mask=[0, 1, 0])
    message = r"must have no masked values, got \d; fill them, or leave their rows out"
    with pytest.raises(ev.DataError, match=f"the moments of prediction {message}"):
        with_moment(data, masked)
    with pytest.raises(ev.DataError, match=f"rows {message}"):
        data[np.ma.masked_array([0, 1], mask=[0, 1])]
    with pytest.raises(ev.DataError, match=f"embeddings {message}"):
        ev.Embeddings.of(data, np.ma.masked_array(np.ones((3, 2)), mask=True))
    assert data[np.ma.masked_array([0, 1])].keys.to_pylist() == [1, 2]


def test_a_static_column_of_the_users_stays() -> None:
    data = make.dataset([3, 2])
    x = replace(data.sequences, static={"moment": torch.tensor([1, 2])})
    assert set(with_moment(replace(data, sequences=x)).sequences.static) == {"moment", MOMENT}
