"""Encoders: features of events, states that can be continued, and embeddings that depend on their row only."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import make
from eventvec.encoders import ENCODERS, GRU, EventEncoder, Recurrent, Transformer
from eventvec.encoders.event_encoder import Mixing
from eventvec.errors import ConfigError
from eventvec.schema import FIRST, MISSING, UNKNOWN, Numeric
from eventvec.sequences import Sequences, stack

MIXED = [3, 0, 7, 1, 12, 4]
CELLS = ("gru", "lstm")


def events_at(*times: dt.datetime) -> Sequences:
    """Return one row of events at these times."""
    origin = dt.datetime(1970, 1, 1)
    column = torch.tensor([(time - origin) // dt.timedelta(microseconds=1) for time in times])
    return Sequences({"time": column, "code": torch.full_like(column, MISSING)}, *one_row(len(times)))


def one_row(length: int) -> tuple[Tensor, Tensor]:
    return torch.tensor([0]), torch.tensor([length])


def phase(feature: str, *times: dt.datetime) -> Tensor:
    """Return the position in the period, from 0 to 1, that the event encoder's features give for each time."""
    schema = replace(make.schema(), categorical=(), numeric=())
    sine, cosine = EventEncoder(schema, time=(feature,))(events_at(*times)).double().unbind(1)
    return torch.atan2(sine, cosine) / (2 * math.pi) % 1


# Events


def test_numbers_are_normalised_over_events_without_padding():
    x, schema = make.sequences(MIXED), replace(make.schema(), categorical=())
    encoder = EventEncoder(schema).train()
    for weight in (encoder.norm.weight, encoder.norm.bias):
        nn.init.normal_(weight)
    scaled = []
    for name, mean, std in (("gap", 1.0, 1.5), ("amount", 0.5, 2.0)):
        raw = x.columns[name][x.flat()].numpy().astype(np.float64)
        scaled.append((np.sign(raw) * np.log1p(np.abs(raw)) - mean) / std)
    numbers = np.stack(scaled, 1)
    missing = np.isnan(numbers)
    numbers[missing] = 0
    mean, var = numbers.mean(0), numbers.var(0)
    weight, bias = encoder.norm.weight.detach().numpy(), encoder.norm.bias.detach().numpy()
    expected = np.concatenate([(numbers - mean) / np.sqrt(var + 1e-5) * weight + bias, missing], 1)
    np.testing.assert_allclose(encoder(x).detach().numpy(), expected, atol=2e-6)
    np.testing.assert_allclose(encoder.norm.running_mean.numpy(), 0.1 * mean, rtol=1e-5)
    unbiased = numbers.var(0, ddof=1)
    np.testing.assert_allclose(encoder.norm.running_var.numpy(), 0.9 + 0.1 * unbiased, rtol=1e-5)
    by_running_statistics = (numbers - 0.1 * mean) / np.sqrt(0.9 + 0.1 * unbiased + 1e-5) * weight + bias
    np.testing.assert_allclose(encoder.eval()(x).detach().numpy()[:, :2], by_running_statistics, atol=2e-6)


def test_batch_statistics_do_not_depend_on_padding():
    x = make.sequences(MIXED)
    padded = stack(x, make.sequences([0, 0])[[0, 1]])
    first, second = EventEncoder(make.schema()).train(), EventEncoder(make.schema()).train()
    second.load_state_dict(first.state_dict())
    assert torch.allclose(first(x), second(padded), atol=1e-6)
    assert torch.equal(first.norm.running_var, second.norm.running_var)


@pytest.mark.parametrize("events", [0, 1])
def test_fewer_than_two_events_are_normalised_by_running_statistics(events):
    encoder = EventEncoder(make.schema(), make.ALL_TIMES).train()
    before = encoder.norm.running_mean.clone()
    out = encoder(make.sequences([events]))
    assert out.shape == (events, encoder.dim)
    assert bool(out.isfinite().all())
    assert torch.equal(encoder.norm.running_mean, before)


def test_without_batch_norm_a_number_is_scaled_by_the_schema_alone():
    number = Numeric("amount", log=True, mean=1.0, std=2.0)
    encoder = EventEncoder(replace(make.schema(), categorical=(), numeric=(number,)), time=(), batch_norm=False)
    x = Sequences({"amount": torch.tensor([math.e - 1, 1 - math.e**3, 0.0, float("nan")])}, *one_row(4))
    torch.testing.assert_close(encoder(x), torch.tensor([[0.0, 0.0], [-2.0, 0.0], [-0.5, 0.0], [0.0, 1.0]]))


@pytest.mark.parametrize("logs", [(True, True), (False, True), (False, False)])
def test_numbers_are_scaled_as_one_after_the_other(logs):
    fields = [Numeric(f"n{i}", log, 0.3 * i - 1, 0.7 + i) for i, log in enumerate(logs)]
    encoder = EventEncoder(replace(make.schema(), categorical=(), numeric=tuple(fields)), time=(), batch_norm=False)
    numbers = torch.randn(9, 2) * 10
    numbers[2, 1] = torch.nan
    columns = {field.name: column for field, column in zip(fields, numbers.unbind(1), strict=True)}
    expected = torch.stack([field.scale(columns[field.name]) for field in fields], 1)
    z = encoder(Sequences(columns, torch.tensor([0]), torch.tensor([9])))
    assert torch.equal(z[:, :2], expected.nan_to_num())
    assert torch.equal(z[:, 2:], expected.isnan().float())


def test_the_bin_of_a_number_has_an_embedding():
    number = Numeric("amount", log=False, edges=(0.0, 10.0))
    encoder = EventEncoder(replace(make.schema(), categorical=(), numeric=(number,)), time=(), bins=True)
    x = Sequences({"amount": torch.tensor([-1.0, 0.0, 9.0, 10.0, float("nan")])}, *one_row(5))
    assert torch.equal(encoder(x)[:, 2:], encoder.binned[0].weight[[1, 2, 2, 3, 0]])


@pytest.mark.parametrize("bins", [False, True])
def test_mixed_columns_depend_on_their_event_only(bins: bool):
    encoder = EventEncoder(make.schema(), make.ALL_TIMES, bins=bins, mixing=5).eval()
    x = make.sequences([3, 4])
    before = encoder(x)
    assert (encoder.dim, before.shape) == (5, (7, 5))
    changed = {**x.columns, "amount": x.columns["amount"].clone()}
    place = int(x.flat()[2])
    changed["amount"][place] = x.columns["amount"].nan_to_num()[place] + 1
    after = encoder(replace(x, columns=changed))
    assert [index for index in range(7) if not torch.equal(before[index], after[index])] == [2]


def test_a_mixing_network_is_residual():
    network = Mixing(3, 2).double()
    h = network.first(values := torch.randn(4, 3, dtype=torch.float64))
    norm, wide, _, narrow = network.block
    centred = (h - h.mean(1, keepdim=True)) / (h.var(1, correction=0, keepdim=True) + norm.eps).sqrt()
    torch.testing.assert_close(network(values), h + narrow(wide(centred).clamp(min=0)))
    with pytest.raises(ConfigError, match="mixing at least 0, got width 32, mixing -1"):
        EventEncoder(make.schema(), mixing=-1)


def test_unknown_and_missing_codes_have_vectors_that_start_at_zero():
    encoder = EventEncoder(replace(make.schema(), numeric=()), time=())
    x = Sequences({"code": torch.tensor([UNKNOWN, MISSING, FIRST, FIRST + 3], dtype=torch.int32)}, *one_row(4))
    out = encoder(x)
    assert out.shape == (4, min(32, math.ceil(1.6 * 6**0.56)))
    assert out[:2].abs().max() == 0
    assert out[2:].abs().min(1).values.min() > 0
    out[:2].sum().backward()
    assert encoder.embeddings[0].weight.grad[[UNKNOWN, MISSING]].abs().min() > 0  # they are trained
    with pytest.raises(IndexError):
        encoder(Sequences({"code": torch.tensor([FIRST + 4])}, *one_row(1)))


def test_width_limits_the_embedding():
    assert EventEncoder(replace(make.schema(), numeric=()), time=(), width=3).dim == 3
    assert EventEncoder(make.schema(codes=1000), time=make.ALL_TIMES).dim == 32 + 2 * 2 + 3 * 2


def test_widths_are_those_of_their_columns_whatever_the_number_of_codes():
    schema = replace(make.schema(codes=6), numeric=())
    encoder = EventEncoder(schema, time=(), width=3, widths={"code": 9})
    assert encoder(make.sequences([2])).shape == (2, 9)
    for widths, message in (
        ({"cod": 2}, "widths names 'cod', which is no categorical column; did you mean 'code'"),
        ({"code": 0}, "widths must be at least 1, got 0 for 'code'"),
    ):
        with pytest.raises(ConfigError, match=message):
            EventEncoder(schema, widths=widths)


def test_hours_repeat_after_a_day_and_weekdays_after_a_week():
    midnight, morning = dt.datetime(2024, 2, 28), dt.datetime(2024, 2, 28, 6)
    hours = phase("hour", midnight, midnight + dt.timedelta(1), morning, morning.replace(year=1931))
    assert hours.tolist() == pytest.approx([0, 0, 0.25, 0.25], abs=1e-6)
    encoder = EventEncoder(replace(make.schema(), categorical=(), numeric=()), time=("hour", "weekday"))
    first, second = encoder(events_at(morning, morning + dt.timedelta(7)))
    torch.testing.assert_close(first, second)


@pytest.mark.parametrize("day", ["1970-01-01", "1969-12-31", "1899-07-04", "2024-02-29", "2026-01-04", "2026-01-05"])
def test_weekdays_of_known_dates(day):
    midnight = dt.datetime.fromisoformat(day)
    noon = midnight.replace(hour=12)
    assert float(phase("weekday", midnight)) * 7 == pytest.approx(midnight.weekday(), abs=1e-5)
    assert float(phase("weekday", noon)) * 7 == pytest.approx(midnight.weekday() + 0.5, abs=1e-5)


def test_days_of_the_year_repeat_after_a_year():
    days = phase("yearday", dt.datetime(2003, 5, 1), dt.datetime(2019, 5, 1), dt.datetime(1955, 5, 1))
    assert float((days - days[0]).abs().max()) < 1.5 / 365
    later = phase("yearday", dt.datetime(2003, 8, 1))
    assert float(later - days[0]) == pytest.approx(92 / 365.2425, abs=1e-4)


def test_invalid_options_of_an_event_encoder_are_refused():
    with pytest.raises(ConfigError, match=r"time feature 'hours' is not known; did you mean 'hour'\?"):
        EventEncoder(make.schema(), time=("hours",))
    with pytest.raises(
        ConfigError, match="time feature 'weekday' needs dates or timestamps, got times of kind integer"
    ):
        EventEncoder(make.schema(kind="integer"), time=("weekday",))
    with pytest.raises(ConfigError, match="events have no features; name a categorical"):
        EventEncoder(replace(make.schema(), categorical=(), numeric=()), time=())


# Recurrent


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", CELLS)
def test_continuing_from_a_stored_state_equals_the_full_pass(cell, layers):
    x, encoder = make.sequences(MIXED), make.encoder(cell, layers=layers)
    with torch.no_grad():
        full = encoder.state(x)
        assert full.shape == (len(x), layers * (1 if cell == "gru" else 2) * encoder.dim)
        torch.testing.assert_close(encoder.read(full), encoder(x))
        for split in range(13):
            before = x.lengths.clamp(max=split)
            rows = torch.arange(len(x))
            stored = encoder.state(x.slice(rows, torch.zeros_like(before), before)).clone()
            continued = encoder.state(x.slice(rows, before, x.lengths - before), stored)
            torch.testing.assert_close(continued, full, rtol=0, atol=1e-6)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", CELLS)
def test_an_empty_row_gives_the_learned_start_state(cell, layers):
    encoder = make.encoder(cell, layers=layers)
    x = make.sequences([0, 5, 0])
    assert torch.equal(encoder.state(x)[0], encoder.start)
    assert torch.equal(encoder(x)[2], encoder.read(encoder.start[None])[0])
    encoder(x)[2].sum().backward()
    assert encoder.start.grad.abs().sum() == encoder.dim  # the start of the last layer's h


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", CELLS)
def test_the_mean_and_the_maximum_of_states_are_read_beside_the_last(cell, layers):
    x, encoder = make.sequences(MIXED), make.encoder(cell, layers=layers, read_out=("max", "last", "mean"))
    states, start = encoder.states(x), encoder._starts(encoder.start[None])[-1][0][0]
    assert (encoder.dim, states.shape) == (24, (x.total, 8))
    for row, embedding in enumerate(encoder(x)):
        of_row = states[x.rows() == row]
        parts = [of_row.amax(0), of_row[-1], of_row.mean(0)] if len(of_row) else [start] * 3
        torch.testing.assert_close(embedding, torch.cat(parts), rtol=0, atol=1e-6)


@pytest.mark.parametrize("read_out", [("last", "mean", "max"), ("max",), ("mean", "last")])
def test_an_embedding_read_from_all_states_is_continued_exactly(read_out):
    x, encoder = make.sequences(MIXED), make.encoder("gru", layers=2, read_out=read_out)
    rows, nothing = torch.arange(len(x)), torch.zeros(len(x), dtype=torch.long)
    with torch.no_grad():
        for split in range(13):
            before = x.lengths.clamp(max=split)
            stored = encoder.state(x.slice(rows, nothing, before))
            continued = encoder.state(x.slice(rows, before, x.lengths - before), stored)
            torch.testing.assert_close(encoder.read(continued), encoder(x), rtol=0, atol=1e-6)


def test_a_read_out_of_all_states_learns_as_a_loop_over_rows_does():
    x, encoder = make.sequences([3, 0, 5]), make.encoder("gru", read_out=("last", "mean", "max")).train()
    weights = torch.randn(3, 24)
    (encoder(x) * weights).sum().backward()
    fast = {name: weight.grad.clone() for name, weight in encoder.named_parameters() if weight.grad is not None}
    encoder.zero_grad(set_to_none=True)
    states, start = encoder.states(x), encoder.start
    slow = [torch.cat([row[-1], row.mean(0), row.amax(0)]) for row in states.split([3, 5])]
    (torch.stack([slow[0], start.repeat(3), slow[1]]) * weights).sum().backward()
    for name, weight in encoder.named_parameters():
        torch.testing.assert_close(fast[name], weight.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cell", CELLS)
def test_states_are_the_embeddings_of_each_prefix(cell):
    x, encoder = make.sequences([4, 0, 3]), make.encoder(cell, layers=2)
    prefixes = x.slice(x.rows(), torch.zeros(x.total, dtype=torch.long), x.steps() + 1)
    torch.testing.assert_close(encoder.states(x), encoder(prefixes), rtol=0, atol=1e-6)
    torch.testing.assert_close(encoder.states(x, encoder.events(x)), encoder.states(x))


def test_each_event_of_a_window_is_encoded_once_and_in_float32():
    """Windows may overlap: an event counts once per window, also in the statistics of batch normalisation."""
    x, encoder = make.sequences([9, 0, 7]), make.encoder("gru").train()
    views = x.slice(torch.tensor([0, 0, 2, 1]), torch.tensor([0, 3, 2, 0]), torch.tensor([6, 6, 5, 0]))
    reference, calls = make.encoder("gru").train(), []
    reference.events(views)
    encoder.events.register_forward_hook(lambda module, args, out: calls.append((args[0], out)))
    with torch.autocast("cpu", torch.bfloat16):
        encoder(views)
    [(packed, out)] = calls
    assert sorted(packed.flat().tolist()) == sorted(views.flat().tolist())
    assert (packed.longest, out.dtype) == (1, torch.float32)
    torch.testing.assert_close(encoder.events.norm.running_mean, reference.events.norm.running_mean)
    torch.testing.assert_close(encoder.events.norm.running_var, reference.events.norm.running_var)


def test_layers_equal_those_of_torch():
    x, encoder = make.sequences([6]), make.encoder("lstm", layers=2)
    lstm = nn.LSTM(encoder.events.dim, encoder.dim, num_layers=2)
    for layer, cell in enumerate(encoder.cells):
        for name, weight in cell.named_parameters():
            getattr(lstm, name.replace("_l0", f"_l{layer}")).data.copy_(weight)
    h, c = encoder.start.view(2, 2, -1).transpose(0, 1).contiguous()
    out, _ = lstm(encoder.events(x), (h, c))
    torch.testing.assert_close(encoder.states(x), out, rtol=0, atol=1e-6)


def test_invalid_options_of_a_recurrent_encoder_are_refused():
    events = EventEncoder(make.schema())
    with pytest.raises(ConfigError, match="dim must be at least 1, got 0"):
        Recurrent(events, dim=0)
    with pytest.raises(ConfigError, match="layers must be at least 1, got 0"):
        GRU(events, layers=0)
    with pytest.raises(ConfigError, match="cell 'rnn' is not known"):
        Recurrent(events, "rnn")
    for read_out in ((), ("first",), ("last", "last")):
        with pytest.raises(ConfigError, match="read_out must be one or more of last, mean, max, each once"):
            Recurrent(events, read_out=read_out)


# Transformer


def test_the_order_of_events_matters_to_a_transformer():
    x = make.sequences([5], spare=0)
    encoder = make.encoder("transformer", time=())
    swapped = x.take(torch.tensor([1, 0, 2, 3, 4]), x.lengths)
    assert not torch.allclose(encoder(x), encoder(swapped), atol=1e-3)


def test_a_transformer_reads_the_latest_events_only():
    x, encoder = make.sequences([9, 6, 3]), make.encoder("transformer")
    lengths = x.lengths.clamp(max=6)
    latest = x.slice(torch.arange(3), x.lengths - lengths, lengths)
    assert torch.equal(encoder(x), encoder(latest))
    torch.testing.assert_close(encoder(make.elsewhere(latest)), encoder(x), rtol=0, atol=1e-6)


def test_positions_count_from_the_last_event():
    encoder = make.encoder("transformer")
    positions = encoder._positions(torch.tensor([[0], [3]]))
    frequencies = [10_000 ** (-i / 4) for i in range(4)]
    expected = [[wave(age * f) for wave in (math.sin, math.cos) for f in frequencies] for age in (0, 3)]
    torch.testing.assert_close(positions, torch.tensor(expected))


def test_an_empty_row_gives_the_start_token_alone():
    encoder = make.encoder("transformer")
    alone = encoder.blocks(encoder.start.view(1, 1, -1))[0, 0]
    for x in (make.sequences([0]), make.sequences([4, 0])):
        torch.testing.assert_close(encoder(x)[-1], alone, rtol=0, atol=1e-6)


@pytest.mark.parametrize("wrong", [{"dim": 6, "heads": 2}, {"heads": 0}, {"layers": 0}, {"longest": 0}, {"dropout": 1}])
def test_options_of_a_transformer_out_of_range_are_refused(wrong):
    with pytest.raises(ConfigError, match=rf"{next(iter(wrong))} must be (at least 1|in \[0, 1\)|a multiple of twice)"):
        Transformer(EventEncoder(make.schema()), **wrong)


# Every encoder


def test_every_encoder_is_tested_here():
    elsewhere = {"cross_attention", "kernel_mean", "language", "text"}  # test_at_places, test_language and test_text
    assert set(ENCODERS) == {*make.ENCODERS, *elsewhere}


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("name", make.ENCODERS)
def test_an_embedding_depends_on_its_row_only(name, gradient):
    x, encoder = make.sequences(MIXED), make.encoder(name)
    with torch.set_grad_enabled(gradient):
        z = encoder(x)
        assert z.shape == (len(x), encoder.dim)
        assert z.dtype == torch.float32
        assert float(torch.cdist(z.detach(), z.detach()).fill_diagonal_(9).min()) > 1e-3
        alone = torch.cat([encoder(x[[row]]) for row in range(len(x))])
        order = torch.tensor([4, 1, 5, 0, 3, 2])
        torch.testing.assert_close(alone, z, rtol=0, atol=1e-5)
        torch.testing.assert_close(encoder(x[order]), z[order], rtol=0, atol=1e-5)
        torch.testing.assert_close(encoder(stack(x, make.sequences([30], seed=9)))[:-1], z, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", make.ENCODERS)
def test_events_outside_a_window_have_no_influence(name):
    x, encoder = make.sequences(MIXED), make.encoder(name)
    cut = x.slice(torch.tensor([4, 2, 0, 4]), torch.tensor([3, 0, 1, 10]), torch.tensor([5, 4, 2, 2]))
    assert torch.equal(encoder(cut), encoder(make.elsewhere(cut)))
    other_columns = make.sequences(MIXED, seed=5).columns
    assert not torch.allclose(encoder(cut), encoder(replace(cut, columns=other_columns)), atol=1e-3)


@pytest.mark.parametrize("name", make.ENCODERS)
def test_no_rows_give_no_embeddings(name):
    encoder = make.encoder(name).train()
    z = encoder(make.sequences([3, 4])[:0])
    assert z.shape == (0, encoder.dim)
    z.sum().backward()
