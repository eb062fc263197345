"""What methods declare, and the defaults for what they do not declare."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from experiments.cresp.processes import Sinusoids, sinusoids
from torch import Tensor, nn

import make
from eventvec.encoders.points import Numbers, PointEncoder
from eventvec.encoders.sets import SetEncoder
from eventvec.methods import CPC, METHODS, CReSP, Order, Supervised, TargetedCReSP
from eventvec.methods.cresp_targeted import POINTS
from eventvec.methods.declarations import Declared, declared, static_notes, suggested, usable_rows
from eventvec.schema import Text
from eventvec.sequences import Sequences
from eventvec.views import OrderPairs


class Part(nn.Module):
    """A module whose `usable` marks rows of at least a length."""

    def __init__(self, shortest: int) -> None:
        super().__init__()
        self.shortest = shortest

    def usable(self, x: Sequences) -> Tensor:
        return x.lengths >= self.shortest


@pytest.mark.parametrize(
    ("of_method", "of_encoder", "usable"),
    [
        (2, 3, [False, False, True]),
        (3, 2, [False, False, True]),
        (2, None, [False, True, True]),
        (None, 2, [False, True, True]),
        (None, None, [True, True, True]),
    ],
)
def test_usable_rows_are_those_of_the_method_and_of_its_encoder(of_method, of_encoder, usable):
    method, encoder = (nn.Module() if shortest is None else Part(shortest) for shortest in (of_method, of_encoder))
    method.encoder = encoder
    assert usable_rows(method, make.sequences([1, 2, 3])).tolist() == usable
    assert usable_rows(method, make.sequences([])).tolist() == []


def test_a_row_with_a_missing_point_is_usable_by_the_method_only():
    x = Sequences(
        {"x": torch.rand(4), "y": torch.tensor([0.5, math.nan, 0.5, 0.5])}, torch.tensor([0, 2]), torch.tensor([2, 2])
    )
    method = Order(SetEncoder(PointEncoder(), dim=8), OrderPairs())
    assert method.usable(x).tolist() == [True, True]
    assert usable_rows(method, x).tolist() == [False, True]


@pytest.mark.parametrize("method", [CReSP, TargetedCReSP])
def test_rows_of_a_process_are_usable_without_events(method):
    x = sinusoids(3).sequences
    x.static["phase"][1] = math.nan
    views = Sinusoids(count=2 if method is CReSP else 1)
    assert usable_rows(method(SetEncoder(PointEncoder(Numbers(1, 4)), dim=8), views), x).tolist() == [True, False, True]


def test_defaults_of_a_method_that_declares_nothing():
    x = make.sequences([3, 4])
    assert suggested(None, x) == suggested(nn.Identity, x) == {"method": {}, "encoder": {"name": "gru"}, "fit": {}}
    assert declared(CPC(make.encoder("gru"))).static_columns == ()


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        (
            "coles",
            {
                "method": {"views": {"name": "random_slices", "shortest": 5, "longest": 80, "count": 4}},
                "fit": {"batch_size": 8},
            },
        ),
        ("sop", {"method": {"views": {"name": "random_slices", "shortest": 10, "longest": 80}}}),
        ("entity_contrastive", {"method": {"length": 4}}),
        ("cresp", {"encoder": {"name": "set", "events": POINTS}}),
        ("cresp_untargeted", {"encoder": {"name": "set"}}),
        ("fclr", {"encoder": {"name": "set", "layers": 0}}),
        ("expclr", {"encoder": {"name": "tcn"}}),
        (
            "cross_order",
            {
                "method": {"pairs": {"name": "order_pairs", "length": 4}},
                "encoder": {"name": "gru", "events": {"name": "segmented"}},
            },
        ),
        ("masked_language", {"encoder": {"name": "text"}}),
        ("tpp_embedding", {"encoder": {"name": "language"}}),
        ("supervised", {}),
    ],
)
def test_suggestions_follow_from_the_method_and_the_lengths_of_rows(name, suggestion):
    lengths = torch.full((30,), 40)
    x = Sequences({}, torch.zeros_like(lengths), lengths)
    assert suggested(METHODS[name], x) == {"method": {}, "encoder": {"name": "gru"}, "fit": {}, **suggestion}


def test_only_methods_that_declare_it_have_defaults_of_training_and_inputs() -> None:
    schema, x = make.schema(), make.sequences([3] * 400)
    method = Supervised(make.encoder("gru"), schema, "kind", static_inputs=["level"])
    labelled = int((x.static["kind"] >= 2).sum())
    assert method.fit_defaults(x) == {"validation": round(max(0.15, 50 / labelled), 6), "keep": "best"}
    assert method.fit_defaults(x[:20]) == {"validation": 0.0, "keep": "best"}
    assert (declared(method).static_inputs, declared(method).static_columns) == (("level",), ("kind", "level"))
    assert declared(nn.Identity()) == Declared()


def test_a_note_says_which_static_columns_are_inputs() -> None:
    schema = replace(make.schema(), static=(*make.schema().static, Text("about")))
    others = [field.name for field in make.schema().static if field.name not in ("kind", "level")]
    method = Supervised(make.encoder("gru"), schema, "kind", static_inputs=["level"])
    (note,) = static_notes(method, schema)
    unread = ", ".join(f"'{name}'" for name in (*others, "about"))
    assert note.startswith(f"static columns: 'level' inputs of the model, 'kind' learned from, {unread} not read, ")
    used = replace(schema, static=tuple(field for field in schema.static if field.name in ("kind", "level")))
    assert static_notes(method, used) == ()
