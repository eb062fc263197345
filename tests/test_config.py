"""Configurations: files, changes, building, describing, and every error message."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest
import torch

import make
from eventvec.config import arguments, build, build_encoder, build_method, check, complete, describe
from eventvec.encoders import GRU, EventEncoder, Transformer
from eventvec.encoders.interface import EventEncoding
from eventvec.encoders.recurrent import ReadOut
from eventvec.errors import ConfigError, listed
from eventvec.losses.negatives import HardNegatives
from eventvec.methods import CoLES, Order
from eventvec.parts import ENCODER_NAMES, METHOD_NAMES, NESTED
from eventvec.tables import Fitting
from eventvec.toml_tables import change, check_tables, read_config
from eventvec.views import VIEWS, BiasedOrderPairs, RandomSlices, RejectionSlices, Views

SMALL = {"name": "gru", "dim": 8}


def refused(message: str, *changes: str) -> None:
    """Check that a configuration with some changes is refused with exactly this message."""
    with pytest.raises(ConfigError) as raised:
        build_method(change({"method": {"name": "coles"}, "encoder": SMALL}, changes), make.schema())
    assert str(raised.value) == message


# Files and changes


def write(folder: Path, text: str) -> Path:
    path = folder / "run.toml"
    path.write_text(text)
    return path


def test_a_file_is_read_and_changed(tmp_path):
    path = write(
        tmp_path, '[method]\nname = "coles"\nviews = { name = "random_slices", count = 3 }\n[fit]\nepochs = 2\n'
    )
    changes = ["method.views.count = 4", "fit.lr=1e-3", "encoder.name=gru", 'data.categorical=["a", "b"]']
    assert read_config(path, changes) == {
        "method": {"name": "coles", "views": {"name": "random_slices", "count": 4}},
        "fit": {"epochs": 2, "lr": 0.001},
        "encoder": {"name": "gru"},
        "data": {"categorical": ["a", "b"]},
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("3.0", 3.0),
        ("true", True),
        ("coles", "coles"),
        ('"3"', "3"),
        ("[1, 2]", [1, 2]),
        ("", ""),
        ("a=b", "a=b"),
        ("8\nother = 3", "8\nother = 3"),
        ("/tmp/x.parquet", "/tmp/x.parquet"),
    ],
)
def test_a_changed_value_is_read_as_toml_or_else_as_text(text, value):
    read = change({}, [f"fit.it={text}"])["fit"]["it"]
    assert read == value
    assert type(read) is type(value)


def test_changes_are_made_to_a_copy():
    tables = {"method": {"views": {"count": 3}}}
    assert change(tables, ["method.views.count=4", "method.views.count=5"]) == {"method": {"views": {"count": 5}}}
    assert tables == {"method": {"views": {"count": 3}}}


@pytest.mark.parametrize("wrong", ["fit", "fit=3", "fit.=3", "fit.epochs", "optimizer.lr=3", "=3", ".=", "epochs=3"])
def test_a_change_of_another_form_is_refused(wrong):
    with pytest.raises(ConfigError) as raised:
        change({}, [wrong])
    assert str(raised.value) == (
        f"--set {wrong!r} must be table.option=value, where table is one of data, encoder, method, fit"
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (f"method.v={'[' * 500}{']' * 500}", "--set method.v: tables and lists are nested in more than 32 levels"),
        (f"fit.epochs={'9' * 5000}", "--set fit.epochs: a whole number has more than 64 bits"),
        (f"fit.epochs=0x{'f' * 5000}", "--set: fit.epochs is a whole number of more than 64 bits"),
        (f"method{'.a' * 3000}=1", "--set: method has tables or lists that are nested in more than 32 levels"),
    ],
)
def test_a_change_to_a_value_that_is_too_deep_or_too_large_is_refused(wrong, message):
    with pytest.raises(ConfigError) as raised:
        change({}, [wrong])
    assert str(raised.value) == message


def test_tables_of_python_are_as_limited_as_those_of_a_file():
    nested: dict = {}
    nested["fit"] = {"again": nested}
    with pytest.raises(ConfigError, match=r"^fit has tables or lists that are nested in more than 32 levels$"):
        check_tables(nested)
    with pytest.raises(ConfigError, match=r"^fit.seed is a whole number of more than 64 bits$"):
        check_tables({"fit": {"seed": -(10**5000)}})


def test_a_change_below_a_plain_value_is_refused():
    with pytest.raises(
        ConfigError, match=r"--set 'method.margin.x=3' sets an option of margin, but margin is 0.5, not"
    ):
        change({"method": {"margin": 0.5}}, ["method.margin.x=3"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[methd]\nname = 1", r"\[methd\] is not a table of a configuration; did you mean 'method'\? accepted: data, "),
        ("fit = 3", r"run.toml: fit must be a table of options, headed \[fit\], got 3"),
        ("[fit\n", "run.toml is not a TOML file: Expected"),
        ("[fit]\n[fit]\n", "run.toml is not a TOML file: Cannot declare"),
        (f"[method]\nv = {'[' * 500}{']' * 500}", "run.toml is not a TOML file: .*nested in more than 32 levels"),
        (f"[method]\nv = {'[' * 99_999}", "run.toml is not a TOML file: .*nested in more than 32 levels"),
        (
            f"[method{'.a' * 3000}]\nb = 1",
            "run.toml: method has tables or lists that are nested in more than 32 levels",
        ),
        (f"[method{'.a' * 40}]\nb = 1", "method has tables or lists that are nested in more than 32 levels"),
        (f"[fit]\nepochs = {'9' * 5000}", "run.toml is not a TOML file: a whole number has more than 64 bits"),
        ("[fit]\nepochs = 9223372036854775808", "run.toml: fit.epochs is a whole number of more than 64 bits"),
        (f"[fit]\nepochs = 0x{'f' * 5000}", "run.toml: fit.epochs is a whole number of more than 64 bits"),
    ],
)
def test_a_file_without_a_configuration_is_refused(tmp_path, text, message):
    with pytest.raises(ConfigError, match=message):
        read_config(write(tmp_path, text))


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read the configuration .*none.toml: No such file"):
        read_config(tmp_path / "none.toml")
    os.mkfifo(tmp_path / "pipe.toml")
    for path in (tmp_path, tmp_path / "pipe.toml", "/dev/null"):
        with pytest.raises(ConfigError, match=r"is a folder, a pipe or a device; name a TOML file"):
            read_config(path)
    for name in ("n" * 300, "a\0b"):
        with pytest.raises(ConfigError, match=name[0]):
            read_config(tmp_path / name)
    (tmp_path / "a.parquet").write_bytes(b"PAR1\xff\xfe")
    with pytest.raises(ConfigError, match=r"a.parquet is not a TOML file"):
        read_config(tmp_path / "a.parquet")


# Building


def test_tables_become_arguments():
    config = {
        "method": {
            "name": "coles",
            "margin": 1,
            "views": {"name": "rejection_slices", "trials": 7},
            "negatives": {"name": "hard_negatives", "count": 2},
        },
        "encoder": {"name": "transformer", "dim": 16, "heads": 2, "events": {"time": ["gap", "hour"], "width": 4}},
    }
    method = build_method(config, make.schema())
    assert isinstance(method, CoLES)
    assert (method.margin, method.views, method.negatives) == (1.0, RejectionSlices(7), HardNegatives(2))
    assert isinstance(method.encoder, Transformer)
    assert (method.encoder.dim, method.encoder.events.time, method.encoder.events.width) == (16, ("gap", "hour"), 4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("name=colse", "method: name 'colse' is not known; did you mean 'coles'? METHODS"),
        ("margn=1", "method has no option 'margn'; did you mean 'margin'? accepted: margin, negatives, views"),
        ("encoder=3", "method has no option 'encoder'; accepted: margin, negatives, views"),
        ("margin=wide", "method.margin must be a number, got 'wide'"),
        ("margin=true", "method.margin must be a number, got True"),
        ("margin=0", "method: margin must be in (0, 2], got 0.0"),
        ("margin=nan", "method: margin must be in (0, 2], got nan"),
        ("name=order", "method: order needs pairs (how windows are paired and labelled): --set method.pairs=…"),
        (
            "views.name=random_slice",
            "method.views: name 'random_slice' is not known; did you mean 'random_slices' or 'random_samples'? "
            "accepted: VIEWS",
        ),
        ("views.name=order_pairs", "method.views is OrderPairs(length=1, skip=0, within=None, count=1): SLICES"),
        ("views.count=3", "method.views is {'count': 3}; add name = one of: VIEWS"),
        ("margin={count=3}", "method.margin must be a number, got {'count': 3}"),
        ("views={name='random_slices', cont=3}", "method.views has no option 'cont'; did you mean 'count'? OPTIONS"),
        (
            "views={name='random_slices', count=1}",
            "method: count of views must be at least 2 to compare views of a row, got 1",
        ),
    ],
)
def test_a_method_table_that_is_wrong_is_refused(wrong, message):
    message = message.replace("OPTIONS", "accepted: count, longest, shortest")
    message = message.replace("METHODS", f"accepted: {listed(sorted(METHOD_NAMES))}")
    kinds = [kind.__name__ for kind in get_args(Views)]
    slices = f"input should be {' or '.join(f'an instance of {kind}' for kind in kinds)}"
    message = message.replace("VIEWS", ", ".join(sorted(n for n, part in NESTED.items() if part in get_args(Views))))
    refused(message.replace("SLICES", slices), f"method.{wrong}")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("1.5", "method.length must be a whole number, got 1.5"),
        ("three", "method.length must be a whole number, got 'three'"),
        ("0", "method: length must be at least 1, got 0"),
    ],
)
def test_a_length_that_is_wrong_is_refused(wrong, message):
    refused(message, "method.name=ocp", f"method.length={wrong}")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("name=gruu", ": name 'gruu' is not known; did you mean 'gru'? ENCODERS"),
        ("name=order", ": name 'order' is not known; ENCODERS"),
        ("dim=wide", ".dim must be a whole number, got 'wide'"),
        ("dim=8.0", ".dim must be a whole number, got 8.0"),
        ("dim=0", ": dim must be at least 1, got 0"),
        ("cell=lstm", " has no option 'cell'; accepted: dim, events, layers, read_out"),
        ("events=3", ".events is 3: input should be an instance of EventEncoding"),
        (
            "events.tim=[]",
            ".events has no option 'tim'; did you mean 'time'? accepted: batch_norm, bins, mixing, texts, time, "
            "width, widths",
        ),
        (
            "events.schema=3",
            ".events has no option 'schema'; accepted: batch_norm, bins, mixing, texts, time, width, widths",
        ),
        ("events.time=gap", ".events.time is 'gap': 'str' instances are not allowed as a Sequence value"),
        ("events.time=[1]", ".events.time is [1]: input should be a valid string"),
        ("events.batch_norm=1", ".events.batch_norm must be true or false, got 1"),
        ("events.width=0", ".events: width must be at least 1 and mixing at least 0, got width 0, mixing 0"),
        ("events.time=['hours']", ".events: time feature 'hours' is not known; did you mean 'hour'? TIMES"),
    ],
)
def test_an_encoder_table_that_is_wrong_is_refused(wrong, message):
    message = message.replace("ENCODERS", f"accepted: {', '.join(sorted(ENCODER_NAMES))}")
    refused("encoder" + message.replace("TIMES", "accepted: gap, hour, weekday, yearday"), f"encoder.{wrong}")


def test_a_cell_that_is_wrong_is_refused():
    refused("encoder.cell is 'rnn': input should be 'gru' or 'lstm'", "encoder.name=recurrent", "encoder.cell=rnn")


def test_tables_without_a_name_or_absent_are_refused():
    with pytest.raises(ConfigError, match="method: name '' is not known; accepted: acnp, "):
        build_method({"encoder": SMALL}, make.schema())
    with pytest.raises(ConfigError, match="encoder: name '' is not known; accepted: cross_attention, gru"):
        build_method({"method": {"name": "coles"}, "encoder": {"dim": 8}}, make.schema())
    with pytest.raises(ConfigError, match=r"""fit: name "\['x'\]" is not known"""):
        build({"name": ["x"]}, VIEWS, "fit")


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [(1, float, 1.0), (1.5, float | None, 1.5), (None, int | None, None), (["a"], tuple[str, ...], ("a",))],
)
def test_values_that_a_type_accepts(value, kind, expected):
    assert check(value, kind, "here") == expected
    assert type(check(value, kind, "here")) is type(expected)


@pytest.mark.parametrize(("value", "kind"), [(1, str), ("1", int), (1.0, int), (0, bool), (1, bool), ([1], int)])
def test_values_that_a_type_refuses(value, kind):
    with pytest.raises(ConfigError, match="here must be"):
        check(value, kind, "here")


def test_arguments_of_classes_and_of_functions():
    assert arguments(HardNegatives) == {"count": int}
    assert arguments(GRU) == {"events": EventEncoding, "dim": int, "layers": int, "read_out": Sequence[ReadOut]}


# Describing


def test_defaults_are_completed_by_the_type_of_an_option_and_not_by_its_name():
    tables = {"method": {"name": "order", "pairs": {"length": 3}}, "encoder": {**SMALL, "events": {"time": []}}}
    completed = complete(tables)
    assert completed["method"] == {"name": "order", "pairs": {"length": 3}}  # `pairs` is also the name of an encoder
    assert completed["encoder"]["events"] == {"time": [], "width": 32, "batch_norm": True, "bins": False, "mixing": 0}
    with pytest.raises(ConfigError, match=r"method.pairs is {'length': 3}; add name = one of: biased_order_pairs, "):
        build_method(tables, make.schema())


def test_a_method_put_together_in_python_is_described():
    events = EventEncoder(make.schema(), time=("gap", "hour"), batch_norm=False)
    encoder = Transformer(events, dim=16, layers=1, heads=4, dropout=0.0, longest=20)
    assert describe(CoLES(encoder, RandomSlices(3), margin=0.7, negatives=HardNegatives(2))) == {
        "method": {
            "name": "coles",
            "views": {"name": "random_slices", "count": 3, "shortest": 15, "longest": 150},
            "margin": 0.7,
            "negatives": {"name": "hard_negatives", "count": 2},
        },
        "encoder": {
            "name": "transformer", "dim": 16, "layers": 1, "heads": 4, "dropout": 0.0, "longest": 20,
            "events": {"time": ["gap", "hour"], "width": 32, "batch_norm": False, "bins": False, "mixing": 0},
        },
    }  # fmt: skip


@pytest.mark.parametrize("name", make.ENCODERS)
def test_every_encoder_is_built_again_with_the_same_weights(name):
    encoder = make.encoder(name, dim=8, layers=2, width=3)
    table = describe(Order(encoder, BiasedOrderPairs(4)))
    pairs = {"name": "biased_order_pairs", "length": 4, "skip": 0, "count": 1}
    assert table["method"] == {"name": "order", "pairs": pairs}
    again = build_encoder(table["encoder"], make.schema())
    again.load_state_dict(encoder.state_dict())
    x = make.sequences([5, 0, 9])
    assert torch.equal(again.eval()(x), encoder(x))


def test_a_part_without_a_name_is_refused():
    encoder = make.encoder("gru")
    encoder.events = torch.nn.Identity()
    message = "Identity has no name in configurations, so a model folder cannot hold it; give it one: ev"
    with pytest.raises(ConfigError, match=message):
        describe(CoLES(encoder))


def test_each_encoder_and_method_has_a_name_in_configurations():
    assert {type(each) for each in (make.encoder(name) for name in make.ENCODERS)} <= set(ENCODER_NAMES.values())
    assert {CoLES, Order} <= set(METHOD_NAMES.values())


def test_an_unknown_option_of_a_nested_dataclass_is_refused():
    assert check({"min_count": 2}, Fitting, "data.fitting") == Fitting(min_count=2)
    with pytest.raises(ConfigError, match=r"^data.fitting has no option 'min_cuont'; did you mean 'min_count'"):
        check({"min_cuont": 2}, Fitting, "data.fitting")


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            {"method": {"name": "expclr"}, "encoder": {"name": "gru"}},
            "method: expclr needs features (names of numeric, vector or categorical columns of the static table, "
            "--static): --set method.features=…",
        ),
        (
            {"method": {"name": "tpp_embedding"}, "encoder": {"name": "language"}},
            "encoder: language needs backbone (a folder in the layout of Hugging Face, the name of one in the folder "
            "that EVENTVEC_MODELS names, or an installed package that contains one): --set encoder.backbone=…; and "
            "text (name of the categorical column with the texts of events): --set encoder.text=…",
        ),
        (
            {"method": {"name": "masked_language"}, "encoder": {"name": "text", "backbone": "bert"}},
            "encoder: text needs text (column of free texts of the events, --texts): --set encoder.text=…",
        ),
    ],
)
def test_an_option_that_is_missing_is_described_with_its_place(tables, message):
    with pytest.raises(ConfigError) as raised:
        build_method(tables, make.schema())
    assert str(raised.value) == message
