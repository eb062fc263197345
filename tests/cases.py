"""One small method and a batch for it, under each name of `METHODS`: what the contract test is run on."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import torch
from torch import nn

import backbones
import make
from eventvec.encoders import GRU, EventEncoder, TextEncoder
from eventvec.encoders.points import Numbers, Pairs
from eventvec.encoders.segments import Segmented
from eventvec.encoders.sets import SetEncoder
from eventvec.losses.objectives import VICReg
from eventvec.methods import (
    CPC,
    RTD,
    CoLES,
    CReSP,
    CrossOrder,
    ExpCLR,
    MaskedLanguage,
    Siamese,
    Supervised,
    TargetedCReSP,
    TPPEmbedding,
    entity_contrastive,
    fclr,
    nsp,
    ocp,
    ocp_biased,
    pcl,
    sop,
)
from eventvec.sequences import Sequences
from eventvec.texts import text_column
from eventvec.views import Altered, RandomSlices, ShuffledParts
from eventvec.views.pairs import OrderPairs

LENGTHS = [6, 0, 9, 2, 7, 1, 3, 4, 12]
"""Rows that are long enough for every case, rows that are just so, and rows that are not."""


def coles() -> tuple[nn.Module, Sequences]:
    return CoLES(make.encoder("gru"), RandomSlices(count=3, shortest=3, longest=5), margin=1.0), batch()


def siamese() -> tuple[nn.Module, Sequences]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        views = Altered(RandomSlices(count=3, shortest=3, longest=5), dropout=0.3)
        return Siamese(make.encoder("gru"), views, VICReg(), projection=6), batch()


def pairs(make_method: Callable[..., nn.Module]) -> tuple[nn.Module, Sequences]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make_method(make.encoder("gru"), length=2), batch()


def crossed() -> tuple[nn.Module, Sequences]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return CrossOrder(GRU(Segmented(EventEncoder(make.schema())), dim=8), OrderPairs(2)), batch()


def masked() -> tuple[nn.Module, Sequences]:
    rows = batch()
    told = text_column(pa.array([f"event {i}" for i in range(len(rows.columns["time"]))]))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        method = MaskedLanguage(TextEncoder(backbones.folder("bert"), "note"))
    return method, Sequences({**rows.columns, "note": told}, rows.starts, rows.lengths, rows.static)


def slices(make_method: Callable[..., nn.Module]) -> tuple[nn.Module, Sequences]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make_method(make.encoder("gru"), RandomSlices(count=3, shortest=3, longest=5)), batch()


def on_states(make_method: Callable[..., nn.Module], **said: object) -> tuple[nn.Module, Sequences]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make_method(make.encoder("lstm"), **said), batch()


def cresp(make_method: Callable[..., nn.Module], count: int, layers: int) -> tuple[nn.Module, Sequences]:
    rows = batch()
    x, y = (torch.randn(rows.columns["time"].shape, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = SetEncoder(Pairs(Numbers(1, 6)), dim=8, layers=layers, heads=2, pair="gated")
        method = make_method(encoder, ShuffledParts(count), projection=6)
    return method, Sequences({**rows.columns, "x": x, "y": y}, rows.starts, rows.lengths, rows.static)


def tpp() -> tuple[nn.Module, Sequences]:
    rows = batch()
    told = text_column(pa.array([f"history {i}" * (i != 4) for i in range(len(LENGTHS))]))
    method = TPPEmbedding(backbones.encoder(make.schema(), lora=2, unit=1e8), "note")
    return method, Sequences(rows.columns, rows.starts, rows.lengths, {**rows.static, "note": told})


def expclr() -> tuple[nn.Module, Sequences]:
    return ExpCLR(make.encoder("gru"), make.schema(), ["level", "profile"]), batch()


def supervised() -> tuple[nn.Module, Sequences]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Supervised(make.encoder("gru"), make.schema(), "kind"), batch()


def batch() -> Sequences:
    return make.sequences(LENGTHS)


DRAW_NOTHING = ("expclr", "supervised", "tpp_embedding")
"""Methods whose loss takes whole rows and draws nothing."""

CASES: dict[str, Callable[[], tuple[nn.Module, Sequences]]] = {
    "coles": coles,
    "cpc": lambda: on_states(CPC, horizons=3, negatives=4),
    "cresp": lambda: cresp(TargetedCReSP, count=1, layers=1),
    "cresp_untargeted": lambda: cresp(CReSP, count=2, layers=1),
    "cross_order": crossed,
    "entity_contrastive": lambda: pairs(entity_contrastive),
    "expclr": expclr,
    "fclr": lambda: cresp(fclr, count=2, layers=0),
    "masked_language": masked,
    "nsp": lambda: slices(nsp),
    "ocp": lambda: pairs(ocp),
    "ocp_biased": lambda: pairs(ocp_biased),
    "pcl": lambda: pairs(pcl),
    "rtd": lambda: on_states(RTD, share=0.4),
    "siamese": siamese,
    "sop": lambda: slices(sop),
    "supervised": supervised,
    "tpp_embedding": tpp,
}
