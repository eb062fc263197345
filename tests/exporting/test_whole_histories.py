"""Encoders without states in ONNX: transformers, sets and convolutions, with the embeddings that torch computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import polars as pl
import pytest
import torch
from benchmarks.without_torch import inputs
from torch import nn

import eventvec as ev
import make
import updates
from eventvec.encoders import (
    EventEncoder,
    PaperTransformer,
    ResidualNetwork,
    SetEncoder,
    TemporalConvolution,
    Transformer,
)
from eventvec.methods import Supervised

LENGTHS = [1, 2, 3, 5, 9, 17, 40]


def randomised(encoder: nn.Module) -> nn.Module:
    """Return the encoder in evaluation mode, with random weights and running statistics."""
    rng = torch.Generator().manual_seed(0)
    for weight in encoder.parameters():
        nn.init.normal_(weight, std=0.4, generator=rng)
    for module in encoder.modules():
        if isinstance(module, nn.BatchNorm1d):
            nn.init.uniform_(module.running_var, 0.5, 2.0, generator=rng)
            nn.init.normal_(module.running_mean, generator=rng)
    return encoder.eval()


def check(run: ev.Model, x: ev.Sequences, folder: Path, **options: bool) -> None:
    """Check rows together, and each alone, whose padding is different."""
    about = ev.to_onnx(run, folder / "encoder.onnx", **options)
    assert (about["stored_dim"], about["dim"]) == (0, run.encoder.dim)
    session = onnxruntime.InferenceSession(folder / "encoder.onnx")
    assert not {"state", "seen", "last_time"} & {each.name for each in session.get_inputs()}
    assert [each.name for each in session.get_outputs()] == ["embedding"]
    with torch.inference_mode():
        expected = run.encoder(x).numpy()
    embedding = session.run(None, inputs(session, x))[0]
    assert embedding.dtype == np.float32
    assert np.abs(embedding - expected).max() <= 1e-5 * max(1, np.abs(expected).max())
    for row in range(len(x)):
        alone = session.run(None, inputs(session, x[torch.tensor([row])]))[0]
        assert np.abs(alone - expected[[row]]).max() <= 1e-5 * max(1, np.abs(expected).max())


ENCODERS: list[tuple[type[Any], dict[str, Any]]] = [
    (Transformer, {"dim": 8, "layers": 1, "heads": 2}),
    (Transformer, {"dim": 12, "layers": 3, "heads": 1, "longest": 4}),
    (PaperTransformer, {"dim": 6, "layers": 1, "heads": 3, "width": 5}),
    (PaperTransformer, {"dim": 8, "layers": 3, "heads": 2, "width": 16, "longest": 1}),
    (SetEncoder, {"dim": 8, "layers": 0}),
    (SetEncoder, {"dim": 8, "layers": 2, "heads": 2}),
    (SetEncoder, {"dim": 6, "layers": 1, "heads": 1, "pair": "gated"}),
    (TemporalConvolution, {"dim": 5, "layers": 1, "width": 4, "kernel": 1}),
    (TemporalConvolution, {"dim": 5, "layers": 4, "width": 6, "kernel": 3}),
    (TemporalConvolution, {"dim": 5, "layers": 2, "width": 6, "kernel": 7}),
    (ResidualNetwork, {"dim": 5, "width": 3, "kernel": 3}),
    (ResidualNetwork, {"dim": 5, "width": 2, "kernel": 5}),
]


@pytest.mark.parametrize(("kind", "options"), ENCODERS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_encoders(kind: type[Any], options: dict[str, Any], tmp_path: Path) -> None:
    data = ev.read(histories(LENGTHS), schema=make.schema())
    encoder = randomised(kind(EventEncoder(data.schema, make.ALL_TIMES), **options))
    run = updates.with_method(updates.untrained(), updates.Method(encoder))
    x, all_rows = data.sequences, torch.arange(len(data))
    check(run, x, tmp_path)
    check(run, x.slice(all_rows, 0 * all_rows, x.lengths * (all_rows % 3 > 0)), tmp_path)  # some without events
    check(run, x.slice(all_rows[:2], all_rows[:2] * 0, all_rows[:2] * 0), tmp_path)


def histories(lengths: list[int]) -> pl.DataFrame:
    """Return a table of entities with so many events each."""
    events = updates.table(1, sum(lengths))
    return events.with_columns(
        id=pl.Series(np.random.default_rng(0).permutation(np.repeat(range(len(lengths)), lengths)))
    )


def test_bins_mixing_and_list_columns(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    events = pl.DataFrame(
        {
            "id": rng.integers(0, 9, 80),
            "at": rng.integers(0, 50, 80),
            "amount": rng.normal(size=80),
            "goods": [[int(v) for v in rng.integers(0, 6, rng.integers(0, 4))] for _ in range(80)],
        }
    )
    data = ev.read(events, key="id", time="at", numeric=["amount"], summed=["goods"])
    encoder = randomised(SetEncoder(EventEncoder(data.schema, bins=True, mixing=6), dim=8, heads=2))
    check(
        updates.with_method(updates.untrained(), updates.Method(encoder), schema=data.schema), data.sequences, tmp_path
    )


@pytest.mark.parametrize("kind", ["integer", "float", "timestamp"])
def test_the_parts_beside_an_encoder_without_states(kind: str, tmp_path: Path) -> None:
    events = histories(LENGTHS)
    if kind != "timestamp":
        events = events.with_columns(pl.col("at").dt.epoch("s").cast(pl.Int64 if kind == "integer" else pl.Float64))
    schema = make.schema(kind=kind)
    data = ev.read(events, schema=schema)
    encoder = randomised(TemporalConvolution(EventEncoder(schema), dim=5, layers=2, width=4))
    run = updates.with_method(updates.untrained(), updates.Method(encoder), schema=schema)
    run = updates.with_beside(run, ["timing", "aggregates"], data.sequences)
    check(run, data.sequences, tmp_path)


@pytest.mark.parametrize("read_out", [("last",), ("mean", "max")], ids=str)
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_files_without_states(cell: str, read_out: tuple[str, ...], tmp_path: Path) -> None:
    """They give what a file with states gives, by fewer operators."""
    data = ev.read(histories(LENGTHS), schema=make.schema())
    encoder = randomised(make.encoder(cell, layers=2, read_out=read_out))
    run = updates.with_method(updates.untrained(), updates.Method(encoder))
    run = updates.with_beside(run, ["timing", "aggregates"], data.sequences)
    check(run, data.sequences, tmp_path, states=False)
    sizes = [len(onnx.load(tmp_path / "encoder.onnx").graph.node)]
    ev.to_onnx(run, tmp_path / "encoder.onnx")
    sizes.append(len(onnx.load(tmp_path / "encoder.onnx").graph.node))
    assert sizes[0] < sizes[1]


def test_a_trained_run_embeds_and_predicts(tmp_path: Path) -> None:
    """From the table, as `run.embed` and `predict` read it."""
    data = ev.read(histories(LENGTHS), schema=make.schema())
    run = updates.untrained("transformer", layers=2)
    method = Supervised(run.method.encoder, run.schema, "kind")
    run = updates.with_method(run, method.eval(), info={**run.info, "temperatures": {"kind": 2.0}})
    ev.to_onnx(run, tmp_path / "run.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "run.onnx")
    embedding, probabilities = session.run(["embedding", "prediction.kind"], inputs(session, data.sequences))
    predicted = ev.predict(run, data)
    assert np.abs(embedding - run.embed(data).values).max() <= 1e-5
    for place, name in enumerate(("k0", "k1", "k2")):
        np.testing.assert_allclose(probabilities[:, place], predicted.column(f"p_{name}").to_numpy(), atol=1e-6)


def test_the_last_layer_of_a_transformer_computes_one_output(tmp_path: Path) -> None:
    """The hidden layer of the only layer has one step, whatever the number of events."""
    ev.to_onnx(updates.untrained("transformer", layers=1), tmp_path / "encoder.onnx")
    model = onnx.load(tmp_path / "encoder.onnx")
    (hidden,) = (node.input[0] for node in model.graph.node if node.op_type == "Erf")
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info(hidden))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    data = ev.read(histories(LENGTHS), schema=make.schema())
    assert session.run([hidden], inputs(session, data.sequences))[0].shape == (len(data), 1, 4 * 8)
