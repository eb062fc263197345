"""Static columns as inputs: embeddings of codes, scaled numbers with an indicator, and columns that are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import make
from eventvec.encoders.static_inputs import StaticInputs
from eventvec.errors import ConfigError, DataError
from eventvec.schema import Text


def test_each_row_has_the_embeddings_of_its_codes_and_its_scaled_numbers_by_a_loop() -> None:
    x, schema = make.sequences([3] * 12), make.schema()
    inputs = StaticInputs(schema, ["level", "kind"])
    (table,) = inputs.embeddings
    assert inputs.dim == table.weight.shape[1] + 2
    kind, level = x.static["kind"], x.static["level"]
    assert bool(level.isnan().any())
    assert set(kind.tolist()) >= {0, 1, 2}
    for row, values in enumerate(inputs(x)):
        number = float(level[row])
        missing = number != number
        scaled = [0.0, 1.0] if missing else [(number - 1.0) / 2.0, 0.0]  # mean 1, standard deviation 2
        torch.testing.assert_close(values, torch.cat([table.weight[int(kind[row])], torch.tensor(scaled)]))


def test_missing_and_unknown_codes_add_nothing_at_first() -> None:
    x = make.sequences([3] * 12)
    vectors = StaticInputs(make.schema(), ["kind"])(x).detach()
    unseen = x.static["kind"] < 2
    assert bool(unseen.any())
    assert float(vectors[unseen].abs().max()) == 0
    assert float(vectors[~unseen].abs().amin(1).max()) > 0


def test_columns_that_are_no_inputs_are_refused() -> None:
    schema = replace(make.schema(), static=(*make.schema().static, Text("about")))
    for name, kind in (("profile", "vector"), ("about", "text")):
        message = f"static_inputs must be categorical or numeric columns, got '{name}', which is {kind}"
        with pytest.raises(ConfigError, match=message):
            StaticInputs(schema, [name])
    with pytest.raises(ConfigError, match="there is no static column 'levl'; did you mean 'level'"):
        StaticInputs(schema, ["levl"])
    x = make.sequences([3, 4])
    with pytest.raises(DataError, match="the data have no static column 'level'"):
        StaticInputs(schema, ["level"])(replace(x, static={}))
