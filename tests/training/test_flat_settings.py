"""Settings by their names alone: each goes to the one part that takes it, or is refused with all that it could mean."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import eventvec as ev
from fits import dataset, table


@pytest.fixture(scope="module")
def data() -> ev.Dataset:
    return dataset()


def test_a_name_with_settings_equals_its_tables(data: ev.Dataset) -> None:
    flat = ev.fit(data, method="coles", encoder="lstm", dim=6, margin=0.3, longest=9, width=4, epochs=1, lr=0.01)
    tables = {
        "method": {"name": "coles", "margin": 0.3, "views": {"longest": 9}},
        "encoder": {"name": "lstm", "dim": 6, "events": {"width": 4}},
        "fit": {"lr": 0.01, "epochs": 1},
    }
    nested = ev.fit(data, method=tables)
    assert flat.config == nested.config
    assert flat.config["encoder"]["events"]["width"] == 4


@pytest.mark.parametrize(
    "arguments",
    [
        {"method": {"name": "coles", "margin": 0.3}},
        {"method": "coles", "encoder": "lstm"},
        {"method": {"method": {"name": "coles"}}, "encoder": {"name": "lstm", "dim": 5}},
    ],
)
def test_natural_guesses_work(data: ev.Dataset, arguments: dict[str, Any]) -> None:
    method = arguments.pop("method")
    config = ev.fit(data, method=method, epochs=1, **arguments).config
    assert config["method"]["margin"] == (0.3 if "margin" in method else 0.5)
    assert config["encoder"]["name"] == ("lstm" if arguments else "gru")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dimm": 3}, "there is no option 'dimm'; did you mean 'dim'"),
        ({"encoder": "lstmm"}, "encoder: name 'lstmm' is not known; did you mean 'lstm'"),
        ({"dim": "wide"}, "encoder.dim must be a whole number, got 'wide'"),
        ({"margin": 3.0}, "margin must be in (0, 2]"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
    ],
)
def test_wrong_settings_are_refused(data: ev.Dataset, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ev.ConfigError) as raised:
        ev.fit(data, method="coles", **{"epochs": 1, **arguments})
    assert message in str(raised.value)


def test_a_name_that_fits_two_parts_is_refused_with_both_paths(data: ev.Dataset) -> None:
    with pytest.raises(ev.ConfigError) as raised:
        ev.fit(data, method="supervised", batch_norm=False)
    message = str(raised.value)
    assert "batch_norm may mean method.batch_norm or encoder.events.batch_norm" in message
    assert "method={'batch_norm': False}" in message


def test_settings_of_a_method_that_is_built_are_those_of_training_only(data: ev.Dataset) -> None:
    method = ev.methods.CPC(ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=4))
    with pytest.raises(ev.ConfigError, match="there is no option 'dim'"):
        ev.fit(data, method=method, dim=3)
    with pytest.raises(ev.ConfigError, match="a method that is built has its encoder already"):
        ev.fit(data, method=method, encoder="lstm")


def test_the_estimator_carries_settings(data: ev.Dataset) -> None:
    estimator = ev.EventVectorizer(key="id", time="t", encoder="lstm", dim=5, epochs=1, margin=0.4, batch_size=9)
    copy = clone(estimator).set_params(dim=6, epochs=2)
    assert (copy.get_params()["dim"], copy.get_params()["margin"], copy.epochs) == (6, 0.4, 2)
    assert estimator.get_params()["dim"] == 5
    assert "dim=5" in repr(estimator)
    config = estimator.fit(table()).run_.config
    assert (config["encoder"]["name"], config["encoder"]["dim"]) == ("lstm", 5)
    assert (config["method"]["margin"], config["fit"]["batch_size"]) == (0.4, 9)
    with pytest.raises(ev.ConfigError, match="the seed of an EventVectorizer is called random_state"):
        ev.EventVectorizer(seed=3).fit(data)


def test_a_grid_search_goes_over_settings(data: ev.Dataset) -> None:
    pipeline = make_pipeline(
        ev.EventVectorizer(method="ocp", epochs=1, beside=[], progress=False), LogisticRegression()
    )
    y = [row % 2 for row in range(len(data))]
    search = GridSearchCV(pipeline, {"eventvectorizer__dim": [3, 5]}, cv=2, error_score="raise").fit(data, y)
    assert [params["eventvectorizer__dim"] for params in search.cv_results_["params"]] == [3, 5]
    assert search.best_estimator_[0].run_.config["encoder"]["dim"] in (3, 5)
