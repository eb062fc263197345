"""A small method and a batch for it for each name of `METHODS`; the contract test runs on these."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import torch
from torch import nn

import backbones
import make
from eventvec.dataset import text_column
from eventvec.encoders import GRU, EventEncoder
from eventvec.encoders.at_places import CrossAttention, KernelMean
from eventvec.encoders.points import Numbers, PointEncoder
from eventvec.encoders.segments import Segmented
from eventvec.encoders.sets import SetEncoder
from eventvec.losses import VICReg
from eventvec.methods import (
    CPC,
    RTD,
    CoLES,
    CReSP,
    CrossOrder,
    ExpCLR,
    ExpertTriplets,
    MaskedLanguage,
    MetaCDE,
    NextEvent,
    Siamese,
    Supervised,
    TargetedCReSP,
    TPPEmbedding,
    TS2Vec,
    acnp,
    acnp_cross,
    cnp,
    coles_paper,
    entity_contrastive,
    fclr,
    nsp,
    ocp,
    ocp_biased,
    pcl,
    sop,
)
from eventvec.sequences import Sequences
from eventvec.views import Altered, OrderPairs, RandomSlices, ShuffledParts

LENGTHS = [6, 0, 9, 2, 7, 1, 3, 4, 12]
"""Lengths of rows: some are long enough for every case, some just long enough for one, some too short."""


def coles() -> tuple[nn.Module, Sequences]:
    return CoLES(make.encoder("gru"), RandomSlices(count=3, shortest=3, longest=5), margin=1.0), batch()


def siamese() -> tuple[nn.Module, Sequences]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        views = Altered(RandomSlices(count=3, shortest=3, longest=5), dropout=0.3)
        return Siamese(make.encoder("gru"), views, VICReg(), projection=6), batch()


def windows(build: Callable[..., nn.Module]) -> tuple[nn.Module, Sequences]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build(make.encoder("gru"), length=2), batch()


def cross_order() -> tuple[nn.Module, Sequences]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return CrossOrder(GRU(Segmented(EventEncoder(make.schema())), dim=8), OrderPairs(2)), batch()


def masked_language() -> tuple[nn.Module, Sequences]:
    rows = batch()
    notes = text_column(pa.array([f"event {i}" for i in range(len(rows.columns["time"]))]))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        method = MaskedLanguage(backbones.text_encoder().train())
    return method, Sequences({**rows.columns, "note": notes}, rows.starts, rows.lengths, rows.static)


def slices(build: Callable[..., nn.Module]) -> tuple[nn.Module, Sequences]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build(make.encoder("gru"), RandomSlices(count=3, shortest=3, longest=5)), batch()


def states(build: Callable[..., nn.Module], **options: object) -> tuple[nn.Module, Sequences]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build(make.encoder("lstm"), **options), batch()


def next_event() -> tuple[nn.Module, Sequences]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return NextEvent(make.encoder("gru"), make.schema(), RandomSlices(count=1, shortest=3, longest=5)), batch()


def cresp(build: Callable[..., nn.Module], count: int, layers: int) -> tuple[nn.Module, Sequences]:
    points = looks()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = SetEncoder(PointEncoder(Numbers(1, 6)), dim=8, layers=layers, heads=2, pair="gated")
        method = build(encoder, ShuffledParts(count), projection=6)
    return method, points


def neural_process(
    build: Callable[..., nn.Module], kind: type[SetEncoder | CrossAttention], layers: int
) -> tuple[nn.Module, Sequences]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build(kind(PointEncoder(), dim=8, layers=layers, heads=2)), looks()


def metacde() -> tuple[nn.Module, Sequences]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return MetaCDE(KernelMean(PointEncoder(Numbers(1, 6))), projection=6), looks()


def looks() -> Sequences:
    """Return the batch with a covariate x and an observation y."""
    rows = batch()
    x, y = (torch.randn(rows.columns["time"].shape, generator=torch.Generator().manual_seed(seed)) for seed in (1, 2))
    return Sequences({**rows.columns, "x": x, "y": y}, rows.starts, rows.lengths, rows.static)


def tpp_embedding() -> tuple[nn.Module, Sequences]:
    rows = batch()
    notes = text_column(pa.array([f"history {i}" * (i != 4) for i in range(len(LENGTHS))]))
    method = TPPEmbedding(backbones.encoder(make.schema(), lora=2, unit=1e8), "note")
    return method, Sequences(rows.columns, rows.starts, rows.lengths, {**rows.static, "note": notes})


def expclr() -> tuple[nn.Module, Sequences]:
    return ExpCLR(make.encoder("gru"), make.schema(), ["level", "profile"]), batch()


def expert_triplets() -> tuple[nn.Module, Sequences]:
    return ExpertTriplets(make.encoder("gru"), make.schema(), ["level", "profile"]), batch()


def supervised() -> tuple[nn.Module, Sequences]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Supervised(make.encoder("gru"), make.schema(), "kind"), batch()


def batch() -> Sequences:
    return make.sequences(LENGTHS)


DRAW_NOTHING = ("expclr", "supervised", "tpp_embedding")
"""Methods whose loss reads whole rows and draws nothing."""

CASES: dict[str, Callable[[], tuple[nn.Module, Sequences]]] = {
    "acnp": lambda: neural_process(acnp, SetEncoder, layers=1),
    "acnp_cross": lambda: neural_process(acnp_cross, CrossAttention, layers=1),
    "cnp": lambda: neural_process(cnp, SetEncoder, layers=0),
    "coles": coles,
    "coles_paper": lambda: (coles_paper(make.encoder("gru"), RandomSlices(count=3, shortest=3, longest=5)), batch()),
    "cpc": lambda: states(CPC, horizons=3, negatives=4),
    "cresp": lambda: cresp(TargetedCReSP, count=1, layers=1),
    "cresp_untargeted": lambda: cresp(CReSP, count=2, layers=1),
    "cross_order": cross_order,
    "entity_contrastive": lambda: windows(entity_contrastive),
    "expclr": expclr,
    "expert_triplets": expert_triplets,
    "fclr": lambda: cresp(fclr, count=2, layers=0),
    "masked_language": masked_language,
    "metacde": metacde,
    "next_event": next_event,
    "nsp": lambda: slices(nsp),
    "ocp": lambda: windows(ocp),
    "ocp_biased": lambda: windows(ocp_biased),
    "pcl": lambda: windows(pcl),
    "rtd": lambda: states(RTD, share=0.4),
    "siamese": siamese,
    "sop": lambda: slices(sop),
    "supervised": supervised,
    "ts2vec": lambda: (TS2Vec(make.encoder("tcn")), batch()),
    "tpp_embedding": tpp_embedding,
}
