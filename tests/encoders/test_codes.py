"""Components of codes against plain counting, and continued from states; what cannot be fitted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import make
from eventvec.encoders import Codes, codes
from eventvec.encoders.code_terms import Term as Named
from eventvec.errors import ConfigError, DataError
from eventvec.schema import Categorical, Numeric, Schema
from eventvec.sequences import Sequences

SCHEMA = Schema(
    "id", "at", "timestamp",
    categorical=(Categorical("code", ("a", "b", "c", "d")), Categorical("shop", ("x", "y", "z"))),
    numeric=(Numeric("amount"), Numeric("price")),
    bags=(Categorical("tags", ("p", "q", "r")),),
)  # fmt: skip
LENGTHS = [int(length) for length in np.random.default_rng(1).integers(0, 15, 60)]
Term = tuple[Hashable, ...]


def histories(lengths: list[int] = LENGTHS, seed: int = 0) -> Sequences:
    """Return rows with missing codes, missing numbers and lists of up to three elements, and unused events."""
    x, rng = make.sequences(lengths, seed), np.random.default_rng(seed)
    total = len(x.columns["time"])
    sizes = torch.from_numpy(rng.integers(0, 4, total))
    tags = {"code": torch.from_numpy(rng.integers(0, 5, int(sizes.sum())).astype(np.int32))}
    price = torch.from_numpy(rng.integers(0, 3, total).astype(np.float32))  # few numbers, many of them equal
    added = {
        "shop": torch.from_numpy(rng.integers(0, 5, total).astype(np.int32)),
        "price": price.where(price > 0, torch.nan),
        "tags": Sequences(tags, sizes.cumsum(0) - sizes, sizes),
    }
    return replace(x, columns={**x.columns, **added})


def edges(x: Sequences, column: str, number: str) -> dict[int, list[float]]:
    """Return the five numbers between sextiles for each code."""
    pairs = [*zip(x.values(column).tolist(), x.values(number).tolist(), strict=True)]
    limits = {}
    for code in {code for code, _ in pairs}:
        values = sorted(value for each, value in pairs if each == code and not math.isnan(value))
        limits[code] = [values[k * len(values) // 6] for k in range(1, 6)]
    return limits


def bags(x: Sequences, limits: dict[tuple[str, str], dict[int, list[float]]]) -> list[Counter[Term]]:
    """Return how often each row has each term, whose first entry names its kind."""
    counted = []
    for row in range(len(x)):
        one = x[[row]]
        terms: Counter[Term] = Counter()
        for name in ("code", "shop"):
            values = one.values(name).tolist()
            terms.update(("1", name, code) for code in values if code)
            terms.update(("2", name, *pair) for pair in pairwise(values) if all(pair))
            for number in ("amount", "price"):
                for code, value in zip(values, one.values(number).tolist(), strict=True):
                    if code and not math.isnan(value):
                        terms["b" + number, name, code, sum(value >= edge for edge in limits[name, number][code])] += 1
        nested = one.columns["tags"][one.flat()]
        terms.update(("t", "tags", code) for code in nested.values("code").tolist() if code)
        counted.append(terms)
    return counted


def slow(x: Sequences, training: Sequences, components: int) -> np.ndarray:
    """Return the vectors of rows by a dense matrix of all terms that three training rows have, and its SVD."""
    pairs = [(column, number) for column in ("code", "shop") for number in ("amount", "price")]
    limits = {pair: edges(training, *pair) for pair in pairs}
    seen = bags(training, limits)
    frequency = Counter(term for terms in seen for term in terms)
    kept = [term for term, count in frequency.items() if count >= 3]
    kinds = {term: term[:2] for term in kept}

    def matrix(rows: list[Counter[Term]]) -> np.ndarray:
        values = np.zeros((len(rows), len(kept)))
        for row, terms in enumerate(rows):
            for place, term in enumerate(kept):
                values[row, place] = math.log(1 + terms[term]) * math.log(1 + len(seen) / frequency[term])
        for kind in set(kinds.values()):
            columns = [place for place, term in enumerate(kept) if kinds[term] == kind]
            norms = np.linalg.norm(values[:, columns], axis=1, keepdims=True)
            values[:, columns] = np.divide(values[:, columns], norms, where=norms > 0, out=values[:, columns])
        return values

    directions = np.linalg.svd(matrix(seen))[2][:components].T
    directions *= np.sign(directions[np.abs(directions).argmax(0), np.arange(components)])
    return matrix(bags(x, limits)) @ directions / (matrix(seen) @ directions).std(0).max()


def test_vectors_are_those_of_counted_terms() -> None:
    training, others = histories(), histories([3, 0, 9, 1], seed=5)
    encoder = Codes(SCHEMA, components=4).fit(training)
    for x in (training, others):
        np.testing.assert_allclose(encoder(x).numpy(), slow(x, training, 4), atol=2e-4)
    assert encoder(training).std(0, correction=0).max().item() == pytest.approx(1, abs=1e-3)


def test_two_shops_by_hand() -> None:
    schema = Schema("id", "at", "integer", categorical=(Categorical("shop", ("x", "y")),))
    shop = torch.tensor([2, 2, 3, 0, 3, 2, 2])
    x = Sequences({"shop": shop}, torch.tensor([0, 4]), torch.tensor([4, 3]))
    encoder = Codes(schema, components=1).fit(x[[0, 1, 0, 1, 0, 1]])
    state = encoder.state(x)
    # There are four codes, of which x is 2 and y is 3, and then 16 pairs; a missing code is in none.
    counts = {2: [2, 2], 3: [1, 1], 4 + 4 * 2 + 2: [1, 1], 4 + 4 * 2 + 3: [1, 0], 4 + 4 * 3 + 2: [0, 1]}
    assert {int(key): state[:, i].tolist() for i, key in enumerate(encoder.keys) if key < codes.NO_TERM} == counts
    assert state[:, -1].tolist() == [0, 2]
    torch.testing.assert_close(encoder.idf[:5].exp(), torch.tensor([2.0, 2, 2, 3, 3]))  # 1 + 6 / 6 and 1 + 6 / 3


def called(counts: Counter[Term], limits: dict[tuple[str, str], dict[int, list[float]]]) -> Counter[str]:
    """Return how often a row has each term, by its name."""
    words = {"code": ["", "(unknown)", "a", "b", "c", "d"], "shop": ["", "(unknown)", "x", "y", "z"],
             "tags": ["", "(unknown)", "p", "q", "r"]}  # fmt: skip
    names: Counter[str] = Counter()
    for (kind, column, *places), count in counts.items():
        texts = words[column]
        name = f"{column}: {texts[places[0]]}"
        if kind == "2":
            name += f" then {texts[places[1]]}"
        elif kind.startswith("b"):
            edge, place = limits[column, kind[1:]][places[0]], places[1]
            low, high = (f"{limit:.4g}" for limit in (edge[max(place - 1, 0)], edge[min(place, 4)]))
            within = f"below {high}" if place == 0 else f"from {low}" if place == 5 else f"{low} to below {high}"
            name += f" with {kind[1:]} {within}"
        names[name] += count
    return names


@pytest.mark.parametrize("most", [2048, 40])
def test_terms_are_called_what_they_count(most: int) -> None:
    training, x = histories(), histories([3, 0, 9, 14], seed=5)
    encoder = Codes(SCHEMA, components=4, terms=most).fit(training)
    kept, state = encoder.kept_terms(), encoder.state(x)
    limits = {(column, number): edges(training, column, number) for column in ("code", "shop")
              for number in ("amount", "price")}  # fmt: skip
    assert len(kept) <= most
    assert len(kept) == int((encoder.keys < codes.NO_TERM).sum()) == len({term.name for term in kept})
    in_rows = [called(counts, limits) for counts in bags(x, limits)]
    for row, counts in enumerate(in_rows):
        assert {term.name: counts[term.name] for term in kept} == dict(
            zip([term.name for term in kept], state[row, : len(kept)].tolist(), strict=True)
        )
    if most == 2048:  # all terms of three rows of training
        frequency = Counter(name for counts in bags(training, limits) for name in called(counts, limits))
        assert {name for name, count in frequency.items() if count >= 3} == {term.name for term in kept}
    assert all(term.column == term.name.split(":")[0] for term in kept)


def test_terms_in_words() -> None:
    low = Named("shop", "tea", number="paid", low=3.1, high=4.7)
    assert [low.words(count) for count in (0, 1, 12)] == [
        "shop tea with paid 3.1 to below 4.7, never", "shop tea with paid 3.1 to below 4.7, once",
        "shop tea with paid 3.1 to below 4.7, 12 times",
    ]  # fmt: skip
    assert Named("shop", "tea", "oil").words(2) == "shop oil right after tea, twice"
    assert Named("tags", "red").words(3) == "tags red 3 times"


def test_wide_columns_have_terms_of_rare_values_and_folded_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "WIDEST", 5)  # so the codes 5 and more are unknown, or folded into 2, 3 and 4
    shop = torch.tensor([1, 5, 2, 4] * 3)
    x = Sequences({"shop": shop}, torch.tensor([0, 4, 8]), torch.full((3,), 4))

    def names(column: Categorical) -> list[str]:
        encoder = Codes(Schema("id", "at", "integer", categorical=(column,)), 1, terms=9).fit(x)
        return [term.name.removeprefix("shop: ") for term in encoder.kept_terms()]

    rare, first, second = "(unknown or rare)", "buckets 0, 3 and 2 more", "buckets 2, 5 and 1 more"
    assert names(Categorical("shop", tuple("abcdefghij"))) == [
        rare, "a", "c", f"{rare} then {rare}", f"{rare} then a", "a then c",
    ]  # fmt: skip
    assert names(Categorical("shop", (), buckets=10)) == [
        "(unknown)", first, second, f"(unknown) then {first}", f"{first} then {first}", f"{first} then {second}",
    ]  # fmt: skip
    assert names(Categorical("shop", (), buckets=3))[1] == "bucket 0"


FITTED = Codes(SCHEMA, components=4, terms=40).fit(histories())


@given(st.integers(0, 10**6), st.lists(st.integers(0, 8), min_size=1, max_size=5))
def test_a_continued_state_is_that_of_the_whole_history(seed: int, lengths: list[int]) -> None:
    x = histories(lengths, seed)
    every = torch.arange(len(x))
    cut = (torch.from_numpy(np.random.default_rng(seed).random(len(x))) * (x.lengths + 1)).long()
    begun = FITTED.state(x.slice(every, torch.zeros_like(cut), cut))
    state = FITTED.state(x.slice(every, cut, x.lengths - cut), begun)
    assert torch.equal(state, FITTED.state(x))
    assert state.shape == (len(x), FITTED.stored_dim)
    assert torch.equal(state, state.round())
    torch.testing.assert_close(FITTED.read(state), FITTED(x))


def test_the_size_of_a_block_has_no_influence(monkeypatch: pytest.MonkeyPatch) -> None:
    x = histories()
    whole = Codes(SCHEMA, components=4).fit(x)
    expected = whole(x)
    monkeypatch.setattr("eventvec.sequences.BLOCK", 30)
    monkeypatch.setattr(codes, "BLOCK", 7)
    parts = Codes(SCHEMA, components=4).fit(x)
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(parts.state_dict()[name], value, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(whole(x), expected)


def test_other_rows_do_not_leak() -> None:
    x, z = histories(), FITTED(histories())
    row = max(range(len(x)), key=LENGTHS.__getitem__)
    changed = dict(x.columns)
    outside = torch.ones(len(x.columns["code"]), dtype=torch.bool)
    outside[x.starts[row] : x.starts[row] + x.lengths[row]] = False
    changed["code"] = torch.where(outside, 5 - x.columns["code"], x.columns["code"])
    again = FITTED(replace(x, columns=changed))
    assert torch.equal(again[row], z[row])
    assert not torch.allclose(again, z)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(FITTED(x[order]), z[order])


def test_rows_without_kept_terms_are_zeros() -> None:
    x = histories([4, 0])
    nothing = {name: torch.zeros_like(x.columns[name]) for name in ("code", "shop")}
    empty = torch.zeros(len(x.columns["time"]), dtype=torch.int64)
    tags = Sequences({"code": torch.zeros(0, dtype=torch.int32)}, empty, empty)
    z = FITTED(replace(x, columns={**x.columns, **nothing, "tags": tags}))
    assert z.tolist() == [[0] * 4] * 2
    assert len(FITTED(x[[]])) == 0


def test_kinds_share_the_terms() -> None:
    assert codes._shares([1, 100, 10], 30) == [1, 19, 10]
    assert codes._shares([5, 5, 5], 8) == [2, 3, 3]
    assert codes._shares([1, 2], 30) == [1, 2]
    kept = FITTED.keys[FITTED.keys < codes.NO_TERM]
    kinds = torch.bucketize(kept, torch.tensor(FITTED.sizes).cumsum(0), right=True).bincount()
    assert kinds.sum() == 40
    assert kinds[[1, 2, 3, 5, 6, 7]].min() >= 4
    assert kept.tolist() == sorted(set(kept.tolist()))


def test_the_terms_of_the_most_rows_are_kept() -> None:
    schema = Schema("id", "at", "integer", categorical=(Categorical("shop", tuple("abcdef")),))
    shop = torch.tensor([2, 3, 4, 2, 3, 4, 2, 3, 5, 5, 5, 3, 6, 6])  # rows with 2: 3, 3: 4, 4: 2, 5: 1 and 6: 1
    x = Sequences({"shop": shop}, torch.tensor([0, 3, 6, 11]), torch.tensor([3, 3, 5, 3]))
    assert Codes(schema, 1, terms=3).fit(x).keys.tolist() == [2, 3, 8 + 8 * 2 + 3]
    assert Codes(schema, 1, terms=2).fit(x).keys.tolist() == [3, 8 + 8 * 2 + 3]


@pytest.mark.parametrize(("buckets", "expected"), [(0, [0, 1, 2, 3, 4, 1, 1]), (10, [0, 1, 2, 3, 4, 2, 3])])
def test_codes_of_wide_columns_are_unknown_or_folded(
    buckets: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codes, "WIDEST", 5)
    column = Categorical("shop", () if buckets else tuple("abcdefghij"), buckets=buckets)
    x = Sequences({"shop": torch.arange(7)}, torch.arange(7), torch.ones(7, dtype=torch.int64))
    encoder = Codes(Schema("id", "at", "integer", categorical=(column,)), 1, terms=4)
    assert encoder.state(x)[:, -1].tolist() == expected
    assert encoder.sizes == (5, 25)


def test_a_fit_reads_rows_at_even_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    x = histories()
    expected = Codes(SCHEMA, 2).fit(x[torch.arange(0, 60, 3)])
    monkeypatch.setattr(codes, "ROWS", 20)
    again = Codes(SCHEMA, 2).fit(x)
    for name, value in expected.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name


def test_edges_are_those_of_events_at_even_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    x = histories()
    monkeypatch.setattr(codes, "SAMPLE", 50)
    events = [i * x.total // 50 for i in range(50)]
    assert codes._at_even_distances(x).tolist() == x.flat()[events].tolist()


def test_rows_that_are_alike_and_few_rows() -> None:
    x = histories([5, 5])
    assert Codes(SCHEMA, 3).fit(x)(x).tolist() == [[0] * 3] * 2  # no term of three rows
    alike = Codes(SCHEMA, 3).fit(x[[0, 0, 0, 0]])
    assert alike(x).tolist() == [[0] * 3] * 2
    none = histories([0, 0, 0])
    assert Codes(SCHEMA, 3).fit(none)(none).tolist() == [[0] * 3] * 3
    assert all(each.isfinite().all() for each in alike.state_dict().values())


def test_more_components_than_directions_and_stored_weights() -> None:
    x = histories()
    encoder = Codes(SCHEMA, 100, terms=50).fit(x)
    assert (encoder(x)[:, 50:] == 0).all()
    other = Codes(SCHEMA, 100, terms=50)
    other.load_state_dict(encoder.state_dict())
    assert torch.equal(other(x), encoder(x))


def test_what_is_refused() -> None:
    with pytest.raises(ConfigError, match="codes needs a categorical column or a list column"):
        Codes(Schema("id", "at", "integer", numeric=(Numeric("v"),)))
    with pytest.raises(ConfigError, match="components must be at least 1"):
        Codes(SCHEMA, 0)
    for call in (lambda: Codes(SCHEMA)(histories()), Codes(SCHEMA).kept_terms):
        with pytest.raises(ConfigError, match="the encoder Codes has no terms and directions yet"):
            call()
    with pytest.raises(DataError, match="need at least 2 rows, got 1"):
        Codes(SCHEMA).fit(histories([3]))
