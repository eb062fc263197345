"""Small data with descriptions, and the slow versions of what TPP-Embedding computes from them."""

from __future__ import annotations

import math
from dataclasses import replace

import pyarrow as pa
import torch
import torch.nn.functional as F
from torch import Tensor

import make
from eventvec.dataset import Dataset, text_column
from eventvec.embedding import encode
from eventvec.methods.retrieval import mean_reciprocal_rank
from eventvec.methods.tpp_embedding import TPPEmbedding
from eventvec.sequences import Sequences


def described(lengths: list[int], texts: list[str]) -> Dataset:
    data = make.dataset(lengths)
    x = data.sequences
    return replace(data, sequences=replace(x, static={**x.static, "note": text_column(pa.array(texts))}))


def problem(n: int, seed: int) -> Dataset:
    """Return histories of three of eight codes, and descriptions that name these codes in another order."""
    codes = torch.randint(0, 8, (n, 3), generator=torch.Generator().manual_seed(seed))
    data = described([3] * n, [" ".join(f"v{code}" for code in row) for row in codes.flip(1).tolist()])
    x = data.sequences
    column = torch.zeros_like(x.columns["code"]).index_copy(0, x.flat(), (2 + codes).flatten().int())
    sequences = Sequences({**x.columns, "code": column}, x.starts, x.lengths, x.static)
    return replace(data, sequences=sequences, schema=make.schema(8))


def slow_loss(query: Tensor, key: Tensor, scale: float) -> float:
    loss = 0.0
    for i, one in enumerate(query):
        scores = [scale * float(F.cosine_similarity(one, other, dim=0)) for other in key]
        loss -= math.log(math.exp(scores[i]) / sum(math.exp(score) for score in scores))
    return loss / len(query)


def score(trained: TPPEmbedding, data: Dataset) -> float:
    return mean_reciprocal_rank(encode(trained.text, data.sequences), encode(trained.encoder, data.sequences))
