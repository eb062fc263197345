"""Selection by order on made notes: their distribution, and that the number of pairs decides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from experiments.order import number_of_pairs as study
from experiments.order.feature_comparison import ALL
from experiments.order.picture import number_of_pairs as picture
from experiments.order.sparse_selection import l1_to_count
from scipy import sparse
from scipy.stats import binom
from sklearn.feature_extraction.text import TfidfTransformer

HISTORIES = study.WordHistories(np.random.default_rng(7).uniform(*study.FREQUENCY, study.BACKGROUND))


def test_notes_meet_the_assumptions() -> None:
    rng = np.random.default_rng(0)
    begins = HISTORIES.begins(20_000, rng)
    assert (begins < study.LENGTH).mean() == pytest.approx(0.5, abs=0.005)
    counts = np.bincount(begins[begins < study.LENGTH])
    assert (counts / counts.sum()).tolist() == pytest.approx([0.1] * 10, abs=0.005)
    begun = begins <= 4
    words = HISTORIES.words(begun, rng).toarray()
    assert (words[:, :30] != begun).mean() == pytest.approx(study.FLIP, abs=0.005)
    assert words[:, 30:].mean(0).tolist() == pytest.approx(HISTORIES.frequency.tolist(), abs=0.02)


def test_labels_are_those_of_the_stage() -> None:
    notes = HISTORIES.notes(np.random.default_rng(0))
    expected = [binom.sf(study.STAGE - 1, study.CONCEPTS, study.EVER * (t + 1) / study.LENGTH) for t in range(10)]
    by_step = notes.label.reshape(study.ENTITIES, study.LENGTH)
    assert by_step.mean(0).tolist() == pytest.approx(expected, abs=0.15)
    assert (np.diff(by_step, axis=1) >= 0).all()
    assert notes.entity.tolist() == [entity for entity in range(study.ENTITIES) for _ in range(study.LENGTH)]


def test_words_of_concepts_tell_the_order_and_others_do_not() -> None:
    first, second, label = HISTORIES.pairs(40_000, np.random.default_rng(0))
    change = np.asarray((sparse.diags(2 * label - 1) @ (second - first)).mean(0)).ravel()
    rate = study.EVER / study.LENGTH * (1 - 2 * study.FLIP)  # a concept begins between two given notes, and its word
    assert change[:30].tolist() == pytest.approx([rate] * 30, abs=0.017)  # 5 standard errors
    assert change[30:].tolist() == pytest.approx([0] * 400, abs=0.017)
    assert label.mean() == pytest.approx(0.5, abs=0.01)


def test_many_pairs_find_the_words_of_concepts_and_few_do_not() -> None:
    first, second, label = HISTORIES.pairs(16_000, np.random.default_rng(1))
    weighting = TfidfTransformer().fit(first)
    x1, x2 = weighting.transform(first), weighting.transform(second)
    few, many = (l1_to_count(x1[:m], x2[:m], label[:m]) for m in (1000, 16_000))
    assert (few.features < study.CONCEPTS).sum() <= 15  # 3.5 by chance
    concepts = many.features < study.CONCEPTS
    assert concepts.sum() >= 24
    assert (many.weights[concepts] > 0).all()  # they are turned on
    assert abs((many.weights[~concepts] > 0).mean() - 0.5) < 0.35


@pytest.mark.slow
def test_with_many_pairs_selection_is_ahead_of_all_words_at_few_labels() -> None:
    grid = tuple((l1, 10.0**power) for l1 in (True, False) for power in range(-1, 3))
    draw = study.draw_scores(100, (1000, 8000), (1 / 4,), grid=grid, subsets=1)
    auc = {name: scores.mean() for (name, _), scores in draw.auc.items()}
    assert draw.selected_signs[8000] > draw.selected_signs[1000] + 8
    assert auc[8000] > auc[ALL] + 0.05  # .115; the mean over the six draws of the study is .085 ± .028
    assert auc[8000] > auc[1000] + 0.05
    assert auc[study.ORACLE] > auc[8000]


def test_a_row_counts_clear_draws_and_the_picture_has_three_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws made up here stand for those of the study, of which the small mode computes two."""
    folds = np.array([0.1, 0.11, 0.09, 0.1, 0.12])

    def drawn(sign: int, sizes: Sequence[int], fractions: Sequence[float]) -> study.Draw:
        level = {(name, part): np.full(5, 0.7) for name in (ALL, study.ORACLE, study.RANDOM) for part in fractions}
        ahead = {(m, part): 0.7 + sign * folds for m in sizes for part in fractions}
        return study.Draw({**level, **ahead}, dict.fromkeys(sizes, 9.0))

    monkeypatch.setattr(study, "draw_scores", lambda seed, sizes, fractions, **_: drawn(1 - seed, sizes, fractions))
    rows = study.pairs(True)
    assert [(row["pairs"], row["fraction"]) for row in rows] == [(300, 1 / 16), (600, 1 / 16)]
    row = study._row([drawn(sign, (1000,), (1,)) for sign in (1, 1, -1)], 1000, 1)
    assert (row["draws ahead"], row["draws behind"], row["words found"]) == (2, 1, 9.0)
    assert row["OCP - all"] == pytest.approx(folds.mean() / 3)
    text = picture(rows)
    assert (text.count("<polyline"), text.count("<polygon")) == (7, 1)
