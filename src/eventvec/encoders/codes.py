"""What codes occur in a history, in what order and with which numbers, as directions of a matrix of terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import Self

import torch
from torch import Tensor, nn

from eventvec.encoders.aggregates import by_blocks
from eventvec.encoders.code_terms import Term, bounds, code_text
from eventvec.encoders.compressed import leading, leading_of_rows
from eventvec.encoders.running import at
from eventvec.errors import ConfigError, DataError
from eventvec.options import each_at_least
from eventvec.schema import FIRST, MISSING, UNKNOWN, Categorical, Schema, check_schema
from eventvec.sequences import Sequences

WIDEST = 2048
"""The largest number of codes of a column that form terms."""
BINS = 6
"""The number of bins of the numbers with a code, with about as many events each."""
ROWS = 50_000
"""The largest number of rows that a fit reads."""
SAMPLE = 2**20
"""The largest number of events from which the edges of bins are computed."""
RAREST = 3
"""The least number of rows that have a kept term."""
TOGETHER = 2**20
"""The number of keys that are looked up at once, or those of one kind."""
BLOCK = 4096
"""The number of states that are read at once."""
CODE, PAIR, NUMBER = "code", "pair", "number"
"""The kinds of terms: codes or elements of lists, codes of two consecutive events, codes with a number."""
NO_TERM = 2**62
"""The key in the places that no kept term takes."""


class Codes(nn.Module):
    """An encoder without learned weights: latent semantic analysis of the codes of a row's events.

    A row is a bag of terms, as a document is one of words (Deerwester et al. 1990). The kinds of terms are:

    - for each categorical column, its codes, and its pairs of codes of consecutive events;
    - for each categorical and each numeric column, the code with the sextile of the number among those with this code;
    - for each list column, the elements of all events.

    Missing codes and missing numbers form no terms. Of a column with more than 2,048 codes, the most frequent values
    have terms of their own, and all others count as unknown; the buckets of a hashed column are folded into as many.

    A term weighs `log(1 + count)·log(1 + n / rows with it)`, where n is the number of training rows. The weights of
    each kind are scaled to length 1 and projected onto the leading right singular directions of the matrix of training
    rows. All components are divided by the largest standard deviation among them, and the entry of each direction with
    the largest size is positive. A row without kept terms gives zeros, as an empty one does.

    `fit` chooses terms, sextiles, weights and directions by training rows, once. A term must occur in three of them. If
    there are more than `terms`, each kind has an equal share, or as many as it has if these are fewer, and those that
    most rows have are kept.

    The encoder continues exactly from a stored state: the counts of the kept terms and the last code of each column.
    They are whole numbers in float32, so counts are exact up to 2^24. Most are 0, and stores keep only the others.

    Relations: `RunningHandcrafted` has counts of the most frequent codes, times and numbers.

    Args:
        schema: The meaning of the columns.
        components: The number of directions.
        terms: The largest number of terms.

    Raises:
        ConfigError: If a number is below 1, or the schema has neither a categorical nor a list column.

    Example:
        >>> shops = Categorical("shop", ("tea", "oil"))
        >>> encoder = Codes(Schema("card", "day", "integer", categorical=(shops,)), components=2)
        >>> columns = {"shop": torch.tensor([2, 2, 3, 3, 2, 2, 2, 3, 3, 2])}
        >>> x = Sequences(columns, torch.tensor([0, 3, 5, 8]), torch.tensor([3, 2, 3, 2]))
        >>> encoder.fit(x)(x).shape
        torch.Size([4, 2])
    """

    sparse = True
    keys: Tensor
    edges: Tensor
    idf: Tensor
    directions: Tensor

    def __init__(self, schema: Schema, components: int = 64, terms: int = 2048) -> None:
        super().__init__()
        check_schema(schema)
        each_at_least(1, components=components, terms=terms)
        if not schema.categorical and not schema.bags:
            raise ConfigError(
                "codes needs a categorical column or a list column of codes, and the data have neither; leave it out"
            )
        self.components, self.terms = components, terms
        self.categorical, self.numeric = schema.categorical, schema.numeric
        self.bags, self.sizes = schema.bags, tuple(_sizes(schema))
        self.dim, self.stored_dim = components, terms + len(self.categorical)
        self.register_buffer("keys", torch.full((terms,), NO_TERM))
        codes = sum(map(_codes, self.categorical))
        self.register_buffer("edges", torch.full((len(self.numeric), codes, BINS - 1), torch.nan))  # NaN until `fit`
        self.register_buffer("idf", torch.full((terms,), torch.nan))
        self.register_buffer("directions", torch.full((terms, components), torch.nan))

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)` float32, one vector per row."""
        return by_blocks(x, 2 * self.terms, self.dim, lambda rows, _: self.read(self._state(rows, None)))

    def state(self, x: Sequences, initial: Tensor | None = None) -> Tensor:
        """Return `(n, terms + columns)` float32 the state after each row, from states before it, or empty rows'."""

        def state(rows: Sequences, block: slice) -> Tensor:
            return self._state(rows, None if initial is None else initial[block].to(rows.device))

        return by_blocks(x, 2 * self.terms, self.stored_dim, state)

    def read(self, state: Tensor) -> Tensor:
        """Return `(n, dim)` float32 the vectors of states."""
        directions = self.directions.to(state.device)
        parts = [self.weights(part) @ directions for part in state.split(BLOCK)]
        return torch.cat(parts)

    @torch.no_grad()
    def fit(self, x: Sequences) -> Self:
        """Return the encoder itself, after terms and directions were chosen by rows.

        Of more than 50,000 rows, as many are read, at even distances; block after block, in float64.

        Raises:
            DataError: If there are fewer than two rows.
        """
        count = min(len(x), ROWS)
        if count < 2:
            raise DataError(f"terms and directions need at least 2 rows, got {len(x)}")
        x = x.to("cpu") if x.device.type == "mps" else x
        x = x[torch.arange(count, device=x.device) * len(x) // count]
        self.edges.copy_(self._edges(x))
        frequencies = self._frequencies(x)
        kept = self._chosen(frequencies)
        self.keys.fill_(NO_TERM)[: len(kept)] = kept
        self.idf.fill_(0)[: len(kept)] = (count / frequencies[kept]).log1p()
        self.directions.copy_(self._directions(x, len(kept)))
        return self

    def kept_terms(self) -> list[Term]:
        """Return what the first places of a state count; the others of the `terms` places count nothing.

        `Term.name` names a term, and `Term.words` says its count.

        Raises:
            ConfigError: If `fit` was not called.
        """
        self._check_fitted()
        kinds, firsts = [*self._kinds()], torch.tensor(self._firsts())
        keys, edges = self.keys.cpu(), self.edges.cpu().split([*map(_codes, self.categorical)], 1)
        kept = keys[keys < NO_TERM]
        kind = torch.searchsorted(firsts, kept, right=True) - 1
        terms = list[Term]()
        for place, key in zip(kind.tolist(), (kept - firsts[kind]).tolist(), strict=True):
            column, of, other = kinds[place]
            codes = _codes(column)
            text = partial(code_text, column, codes=codes)
            if of == PAIR:
                terms.append(Term(column.name, text(key // codes), text(key % codes)))
            elif of == NUMBER:
                limits = edges[self.categorical.index(column)][other, key // BINS].tolist()
                low, high = bounds(limits, key % BINS)
                terms.append(Term(column.name, text(key // BINS), None, self.numeric[other].name, low, high))
            else:
                terms.append(Term(column.name, text(key)))
        return terms

    def _kinds(self) -> Iterator[tuple[Categorical, str, int]]:
        """Yield the column of each kind of terms, what they are, and the place of the number, as `_keys` does."""
        for column in self.categorical:
            yield from ((column, CODE, -1), (column, PAIR, -1))
            yield from ((column, NUMBER, place) for place in range(len(self.numeric)))
        yield from ((column, CODE, -1) for column in self.bags)

    def _check_fitted(self) -> None:
        if bool(self.idf.isnan().any()):
            raise ConfigError("the encoder Codes has no terms and directions yet; call its fit(x) with training rows")

    def _state(self, x: Sequences, before: Tensor | None) -> Tensor:
        """Return `(n, stored_dim)` float32, whole numbers."""
        if before is None:
            before = torch.zeros(len(x), self.stored_dim, device=x.device)
        counts, last = before[:, : self.terms].clone(), before[:, self.terms :]
        known = self.keys.to(x.device)
        for rows, keys in _together(self._keys(x, last)):
            place = torch.searchsorted(known, keys).clamp(max=self.terms - 1)
            kept = known[place] == keys
            cells = rows[kept] * self.terms + place[kept]
            counts.view(-1).index_add_(0, cells, torch.ones_like(cells, dtype=counts.dtype))
        ends = x.starts + x.lengths - 1
        codes = [_narrow(at(x.columns[column.name], ends), column) for column in self.categorical]  # type: ignore[arg-type]
        new = torch.stack(codes, 1).float() if codes else last
        return torch.cat([counts, torch.where(x.lengths.unsqueeze(1) > 0, new, last)], 1)

    def _keys(self, x: Sequences, last: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield `(m,)` the rows and `(m,)` the keys of the terms of each kind; `last` are the codes before the rows."""
        rows, head, firsts = x.rows(), x.steps() == 0, iter(self._firsts())
        numbers = [x.values(number.name).float() for number in self.numeric]
        limits = self.edges.to(x.device).split([*map(_codes, self.categorical)], 1)
        for i, column in enumerate(self.categorical):
            code = _narrow(x.values(column.name), column)
            present = code != MISSING
            yield rows[present], next(firsts) + code[present]
            previous = torch.where(head, last[:, i].long()[rows], code.roll(1))
            pair = present & (previous != MISSING)
            yield rows[pair], next(firsts) + previous[pair] * _codes(column) + code[pair]
            for values, edges in zip(numbers, limits[i], strict=True):
                both = present & ~values.isnan()
                bins = (values[both].unsqueeze(1) >= edges[code[both]]).sum(1)
                yield rows[both], next(firsts) + code[both] * BINS + bins
        for column in self.bags:
            bags = x.columns[column.name][x.flat()]
            assert isinstance(bags, Sequences)
            code = _narrow(bags.values("code"), column)
            present = code != MISSING
            yield rows[bags.rows()][present], next(firsts) + code[present]

    def weights(self, state: Tensor) -> Tensor:
        """Return `(n, terms)` float32 the weights of terms, of length 1 for each kind."""
        idf, keys = self.idf.to(state.device), self.keys.to(state.device)
        self._check_fitted()
        ends = torch.tensor([*accumulate(self.sizes)], device=state.device)
        kind = torch.searchsorted(ends, keys, right=True).clamp(max=len(self.sizes) - 1)
        weights = state[:, : self.terms].log1p() * idf
        squares = weights.new_zeros(len(self.sizes), len(state)).index_add_(0, kind, weights.square().T)
        return weights * squares.clamp(min=torch.finfo(torch.float32).tiny).rsqrt().T[:, kind]

    def _edges(self, x: Sequences) -> Tensor:
        """Return `(numbers, codes, BINS - 1)` float32 what separates the bins of numbers with each code."""
        events = _at_even_distances(x)
        edges = x.starts.new_zeros(self.edges.shape, dtype=torch.float32)
        for number, of_number in zip(self.numeric, edges, strict=True):
            parts = of_number.split([*map(_codes, self.categorical)])
            for column, of_codes in zip(self.categorical, parts, strict=True):
                code, values = (x.columns[each.name][events] for each in (column, number))
                assert isinstance(code, Tensor)
                assert isinstance(values, Tensor)
                of_codes.copy_(_quantiles(_narrow(code, column), values.float(), len(of_codes)))
        return edges

    def _frequencies(self, x: Sequences) -> Tensor:
        """Return `(keys,)` int32 the number of rows with each term that there could be."""
        total = sum(self.sizes)
        frequencies = torch.zeros(total, dtype=torch.int32, device=x.device)
        for block in x.blocks():
            rows = x[block]
            for row, keys in self._keys(rows, torch.zeros(len(rows), len(self.categorical), device=x.device)):
                once = (row * total + keys).unique() % total
                frequencies.index_add_(0, once, torch.ones_like(once, dtype=torch.int32))
        return frequencies

    def _chosen(self, frequencies: Tensor) -> Tensor:
        """Return the keys of the terms that are kept, ascending."""
        order = []
        for part, first in zip(frequencies.split(self.sizes), self._firsts(), strict=True):
            frequent = (part >= RAREST).nonzero()[:, 0]
            order.append(first + frequent[part[frequent].argsort(descending=True, stable=True)])
        shares = _shares([len(keys) for keys in order], self.terms)
        return torch.cat([keys[:share] for keys, share in zip(order, shares, strict=True)]).sort().values

    def _firsts(self) -> list[int]:
        """Return the first key of each kind."""
        return [*accumulate(self.sizes[:-1], initial=0)]

    def _directions(self, x: Sequences, kept: int) -> Tensor:
        """Return `(terms, components)` float64 the scaled directions, then zeros."""
        blocks = (self.weights(self._state(x[block], None)) for block in x.blocks(per_row=2 * self.terms))
        weights = (block[:, :kept].cpu().double() for block in blocks)
        total = torch.zeros(kept, dtype=torch.float64)
        if len(x) < kept:
            rows = torch.cat([*weights])
            total += rows.sum(0)
            squares, directions = leading_of_rows(rows, self.components)
        else:
            products = torch.zeros(kept, kept, dtype=torch.float64)
            for block in weights:
                products += block.T @ block
                total += block.sum(0)
            squares, directions = leading(products, self.components)
        chosen = squares > squares[:1].clamp(min=0) * kept * torch.finfo(torch.float64).eps
        squares, directions = squares[chosen] / len(x), directions[:, chosen]
        result = torch.zeros(self.terms, self.components, dtype=torch.float64)
        variance = (squares - (total / len(x) @ directions).square()).amax() if kept else torch.zeros(())
        if variance > torch.finfo(torch.float32).eps:  # otherwise all rows are alike
            signs = directions.gather(0, directions.abs().argmax(0, keepdim=True)).sign()
            result[:kept, : directions.shape[1]] = directions * signs * variance.rsqrt()
        return result


def _together(parts: Iterator[tuple[Tensor, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the rows and keys of consecutive kinds together, as many as fit into memory."""
    rows, keys, count = list[Tensor](), list[Tensor](), 0
    for each_rows, each_keys in parts:
        if rows and count + len(each_keys) > TOGETHER:
            yield torch.cat(rows), torch.cat(keys)
            rows, keys, count = [], [], 0
        rows.append(each_rows)
        keys.append(each_keys)
        count += len(each_keys)
    if rows:
        yield torch.cat(rows), torch.cat(keys)


def _sizes(schema: Schema) -> Iterator[int]:
    """Yield the number of terms that there could be of each kind, in the order of `Codes._keys`."""
    for column in schema.categorical:
        yield from (_codes(column), _codes(column) ** 2)
        yield from (_codes(column) * BINS for _ in schema.numeric)
    yield from map(_codes, schema.bags)


def _codes(column: Categorical) -> int:
    """Return the number of codes of a column that form terms."""
    return min(column.size, WIDEST)


def _narrow(codes: Tensor, column: Categorical) -> Tensor:
    """Return codes below `WIDEST`: rare values are unknown, and buckets are folded."""
    codes, size = codes.long(), _codes(column)
    if column.buckets:
        return torch.where(codes < FIRST, codes, FIRST + (codes - FIRST) % (size - FIRST))
    return codes.masked_fill(codes >= size, UNKNOWN)


def _shares(available: Sequence[int], total: int) -> list[int]:
    """Return how many of a total each kind gets: equal shares, but no more than are available."""
    shares = [0] * len(available)
    for rank, kind in enumerate(sorted(range(len(available)), key=available.__getitem__)):
        shares[kind] = min(available[kind], total // (len(available) - rank))
        total -= shares[kind]
    return shares


def _at_even_distances(x: Sequences) -> Tensor:
    """Return the positions of at most `SAMPLE` events of rows, at even distances."""
    count = min(x.total, SAMPLE)
    event = torch.arange(count, device=x.device) * x.total // max(count, 1)
    ends = x.lengths.cumsum(0)
    row = torch.searchsorted(ends, event, right=True)
    return x.starts[row] + event - (ends - x.lengths)[row]


def _quantiles(group: Tensor, values: Tensor, groups: int) -> Tensor:
    """Return `(groups, BINS - 1)` float32 the values that separate bins of about as many values of each group."""
    there = ~values.isnan()
    values, order = values[there].sort()
    group, order = group[there][order].sort(stable=True)
    counts = group.bincount(minlength=groups).unsqueeze(1)
    places = counts.cumsum(0) - counts + torch.arange(1, BINS, device=values.device) * counts // BINS
    limit = torch.finfo(torch.float32).max
    return at(values[order], places).clamp(-limit, limit)
