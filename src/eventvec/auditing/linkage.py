"""Whether two parts of one history can be matched across files, under different keys, by their vectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from eventvec.auditing.findings import Row, judged, unanswered
from eventvec.dataset import last_times
from eventvec.embedding import encode
from eventvec.encoders import Aggregates, Encoder
from eventvec.encoders.handcrafted import MOMENT
from eventvec.encoders.interface import capabilities
from eventvec.schema import Schema
from eventvec.sequences import Array, Sequences
from eventvec.statistics import Estimate
from eventvec.statistics.areas import of_matches, projections
from eventvec.statistics.corrections import together
from eventvec.statistics.estimates import decimal
from eventvec.statistics.intervals import NORMAL
from eventvec.views.cuts import restart_gap

ENTITIES = 2000
"""The largest number of entities that are matched, of members and of others each."""
FEWEST = 30
"""The smallest number of entities, of members and of others each, from which an answer is given."""
NEAREST = 10
"""The number of candidates for each match whose share of hits is given beside that of the nearest one."""
EVENTS = 4
"""The smallest number of events of a history that is cut into halves."""


def halves(x: Sequences) -> tuple[Sequences, Sequences]:
    """Return the first and the second half of each row, as if each had been read from a file of its own."""
    rows, first = torch.arange(len(x)), x.lengths // 2
    return x.slice(rows, torch.zeros_like(first), first), restart_gap(x.slice(rows, first, x.lengths - first))


def similarities(encoder: Encoder, x: Sequences) -> Array:
    """Return `(n, n)` the cosine of the vector of each first half (rows) and of each second half (columns).

    Each number of the vectors is centred and scaled within its half first, as whoever has both files could do.
    """
    parts = halves(x)
    if capabilities(encoder).reads_moment:  # each half is read as of its own end
        first, second = (replace(part, static={**part.static, MOMENT: last_times(part)}) for part in parts)
        parts = first, second
    of_first, of_second = (_standardised(encode(encoder, part).numpy()) for part in parts)
    return of_first @ of_second.T


def linkage_finding(encoder: Encoder, x: Sequences, schema: Schema, *, seed: int, level: float) -> Row:
    """Return whether the halves of histories can be matched better than by chance, and than by simple features."""
    long = np.flatnonzero(x.lengths.numpy() >= EVENTS)
    if len(long) < FEWEST:
        why = f"{len(long):,} entities have at least {EVENTS} events, and {FEWEST} are needed"
        return unanswered("linkage", "halves of histories", f"Linkage is unknown: {why}.")
    chosen = np.sort(np.random.default_rng(seed).permutation(long)[:ENTITIES])
    x = x[torch.from_numpy(chosen)]
    learned, simple = similarities(encoder, x), similarities(Aggregates(schema), x)
    n, width, of_simple = len(x), together(1, level), of_matches(simple).value
    score, projected = of_matches(learned).widened(width), projections(learned) - projections(simple)
    lead = Estimate.around(projected.mean() / 2, NORMAL * projected.std(ddof=1) / np.sqrt(n)).widened(width)
    top, top_simple = (share_among(each, 1) for each in (learned, simple))
    ten, ten_simple = (share_among(each, NEAREST) for each in (learned, simple))
    how = (
        f"of {n:,} entities, the second half of the history is the nearest to the first in {top:.1%} (chance "
        f"{1 / n:.1%}, aggregates of the same halves {top_simple:.1%}) and among the nearest {NEAREST} in {ten:.1%} "
        f"(chance {min(NEAREST / n, 1):.1%}, aggregates {ten_simple:.1%}); it is nearer than that of a random other "
        f"one with probability {score}"
    )
    beyond, start = lead.place == "ahead", "Two parts of one history"
    extra = f"{'more' if beyond else 'not shown to be more'} than aggregates allow ({decimal(of_simple)})"
    claims = (f"{start} can be linked", f"{start} could not be linked")
    others, name = {"aggregates": of_simple}, "halves of histories"
    return judged("linkage", name, claims, how, score, others, beyond=beyond, more=f" That is {extra}.")


def share_among(similarity: Array, count: int) -> float:
    """Return the share of rows whose number on the diagonal is among the `count` largest; half of equal ones win."""
    own = np.diagonal(similarity)[:, None]
    before = (similarity > own).sum(1) + 0.5 * ((similarity == own).sum(1) - 1)
    return float((before < count).mean())


def _standardised(vectors: Array) -> Array:
    """Return vectors of length 1, after each number was centred and scaled."""
    vectors = vectors.astype(np.float64)
    spread = vectors.std(0)
    scaled = (vectors - vectors.mean(0)) / np.where(spread > 1e-9, spread, 1.0)
    return np.asarray(scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-12))
