"""Search by words: sentences, late interaction and fusions against their slow versions."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import torch
from experiments.tpp import described
from experiments.tpp.apart import exchanged_histories
from experiments.tpp.arms import Arm, build
from experiments.tpp.benchmarks import DAY, KEY
from experiments.tpp.described import (
    EARLIER_TEMPLATES,
    FACTS,
    SHIPPED,
    all_facts,
    counterfeits_by_sentences,
    matched,
    package_sentences,
)
from experiments.tpp.descriptions import LINKS, OPENINGS, OTHER_WORDINGS, describe
from experiments.tpp.discrimination import word_vectors
from experiments.tpp.late import LateInteraction
from experiments.tpp.scores import searched
from experiments.tpp.sentences import parse
from experiments.tpp.settings import TOWERS, TPP
from experiments.tpp.words import Fusion, chosen, trials
from test_tpp_arms import small_set
from test_tpp_descriptions import histories

import backbones
from eventvec.dataset import text_column
from eventvec.describing.templates import TEMPLATES
from eventvec.encoders import SentenceEncoder

RNG = np.random.default_rng(0)


def embedded(encoder: SentenceEncoder, text: str) -> np.ndarray:
    """Return the unit vector of one sentence."""
    vector = encoder(text_column(pa.array([text])))[0].detach().numpy()
    return vector / np.linalg.norm(vector)


def slow_bm25(word_lists: list[list[str]], query: list[str]) -> list[float]:
    """Return the score of each sentence for the words of a query."""
    n, mean = len(word_lists), np.mean([len(words) for words in word_lists])
    scores = []
    for words in word_lists:
        score = 0.0
        for word in set(query):
            holding, times = sum(word in others for others in word_lists), words.count(word)
            rarity = np.log1p((n - holding + 0.5) / (holding + 0.5))
            score += rarity * times * 2.5 / (times + 1.5 * (0.25 + 0.75 * len(words) / mean))
        scores.append(float(score))
    return scores


@pytest.mark.parametrize("model", [True, False])
def test_a_query_is_matched_sentence_by_sentence(model: bool) -> None:
    encoder = SentenceEncoder(backbones.folder("bert")) if model else None
    queries = ["it begins with a. it ends with b.", "nothing happens."]
    documents = [["it begins with b.", "it ends with b."], ["nothing happens."], ["a is rare.", "b is rare.", "c."]]
    distinct = [sentence for sentences in documents for sentence in sentences]
    words = [sentence[:-1].split() for sentence in distinct]
    slow = np.zeros((2, 3))
    for row, split in enumerate((["it begins with a.", "it ends with b."], ["nothing happens."])):
        for column, sentences in enumerate(documents):
            best = []
            for asked in split:
                shared = slow_bm25(words, asked[:-1].split())
                scores = []
                for sentence in sentences:
                    score = shared[distinct.index(sentence)]
                    if encoder is not None:  # a fifth for words in common, beside the cosine
                        score = 0.2 * score / max(shared) + embedded(encoder, asked) @ embedded(encoder, sentence)
                    scores.append(score)
                best.append(max(scores))
            slow[row, column] = np.mean(best)
    assert matched(queries, documents, encoder) == pytest.approx(slow, abs=2e-3)  # vectors are kept in float16
    assert slow[1].argmax() == 1


def test_the_thirteen_later_kinds_are_those_with_rules_of_the_benchmark() -> None:
    later = {template.__name__ for template in TEMPLATES if template not in EARLIER_TEMPLATES}
    assert set(EARLIER_TEMPLATES) < set(TEMPLATES)
    assert (len(EARLIER_TEMPLATES), len(later)) == (16, 13)
    events = small_set("one", DAY, 30).events
    both = [*zip(package_sentences(events), package_sentences(events, EARLIER_TEMPLATES), strict=True)]
    assert all(set(earlier) <= set(every) for every, earlier in both)
    assert any(set(earlier) < set(every) for every, earlier in both)


def test_names_of_types_are_found_as_people_write_them() -> None:
    histories = ["0.00,Guru", "0.00,Popular Question", "0.00,Question"]
    texts = ["two gurus", "many Popular questions", "A question."]
    types = ["Guru", "Question", "Popular Question"]
    assert word_vectors(texts, histories, histories, types, free=True)[0].argmax(1).tolist() == [0, 1, 2]
    assert not word_vectors(texts, histories, histories, types)[0].any()


def test_late_interaction_is_the_mean_of_the_best_states() -> None:
    data = small_set("one", DAY)
    data.descriptions[3] = '"Guru" opens the sequence. "Caucus" ends it. It is short.'
    dataset = data.dataset()
    method = build(Arm("one", backbones.folder("bert"), lora=None, gru=5, late=True), dataset)
    assert isinstance(method.eval(), LateInteraction)
    x = dataset.sequences
    similar = method.similarity(x[torch.tensor([0, 3])], x[torch.tensor([3, 7, 5])]).detach().numpy()
    slow = np.zeros((2, 3))
    for row, query in enumerate(
        ([data.descriptions[0]], ['"Guru" opens the sequence.', '"Caucus" ends it.', "It is short."])
    ):
        for column, history in enumerate((3, 7, 5)):
            states = method.of_state(method.encoder.states(x[torch.tensor([history])])).detach().numpy()
            units = [state / np.linalg.norm(state) for state in states]
            best = []
            for sentence in query:
                vector = method.sentences(text_column(pa.array([sentence])))
                z = method.of_sentence(vector)[0].detach().numpy()
                best.append(max(z @ unit / np.linalg.norm(z) for unit in units))
            slow[row, column] = np.mean(best)
    assert similar == pytest.approx(slow, abs=1e-5)
    loss = method.loss(x[torch.tensor([3, 7, 5])], torch.Generator()).item()
    logits = 20 * method.similarity(x[torch.tensor([3, 7, 5])], x[torch.tensor([3, 7, 5])]).detach().double().numpy()
    ways = [-np.log(np.exp(way.diagonal()) / np.exp(way).sum(1)).mean() for way in (logits, logits.T)]
    assert loss == pytest.approx(np.mean(ways), abs=1e-4)


def test_other_wordings_state_the_same_facts_as_no_document_does() -> None:
    for row, (names, times) in enumerate(histories(2, 200)):
        if len(names) < 8 or times[0] == times[-1]:
            continue
        usual = describe(names, times, random.Random(row))
        others = describe(names, times, random.Random(row), OTHER_WORDINGS)
        assert parse(others) == parse(usual)
        (document,) = all_facts([(0, names, times)])
        assert {str(statement) for statement in parse(usual)} <= {str(parse(text)[0]) for text in document}
        for link in (*OPENINGS, *LINKS):
            others = others.replace(f"{link[0].upper()}{link[1:]} ", "")
        for text in document:
            assert text.lower() not in others.lower()


def test_fusions_are_means_of_ranks_or_of_z_scores() -> None:
    one, other = RNG.random((4, 6)), RNG.random((4, 6))
    found = {FACTS: {"test": one}, TPP: {"test": other}}
    ranks, standard = np.zeros((4, 6)), np.zeros((4, 6))
    for row in range(4):
        for column in range(6):
            for weight, similar in ((0.7, one), (0.3, other)):
                values = similar[row]
                ranks[row, column] += weight * 60 / (60 + 1 + (values > values[column]).sum())
                standard[row, column] += weight * (values[column] - values.mean()) / values.std()
    assert Fusion(FACTS, TPP, "ranks", 0.3)(found, "test") == pytest.approx(ranks)
    assert Fusion(FACTS, TPP, "z-scores", 0.3)(found, "test") == pytest.approx(standard)


def test_what_is_level_stays_level_in_a_fusion() -> None:
    found = {FACTS: {"test": np.full((2, 3), 0.1)}, TPP: {"test": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])}}
    assert np.isfinite(Fusion(FACTS, TPP, "z-scores", 0.3)(found, "test")).all()
    fused = Fusion(FACTS, TPP, "ranks", 0.3)(found, "test")
    assert fused[0, 1] == fused[0, 2] < fused[0, 0]


def test_the_fusion_with_the_best_mean_over_sets_is_chosen_without_the_test_part() -> None:
    exact, noise = np.eye(9), RNG.random((9, 9))
    of_set = {FACTS: noise, SHIPPED: exact, TPP: exact, TOWERS: noise}
    found = [{name: {"held out": similar} for name, similar in of_set.items()}] * 2
    best = {fusion[:2]: fusion for fusion in chosen(trials(found))}
    assert best[FACTS, TPP].weight == 0.5  # the greatest that is tried
    assert best[SHIPPED, TOWERS].weight == 0.1
    for fusion, scores in trials(found):
        assert scores == [searched(fusion(found[0], "held out"))[0].value] * 2
        assert np.mean(scores) <= np.mean([searched(best[fusion[:2]](each, "held out"))[0].value for each in found])


def test_counterfeits_are_described_by_their_own_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(described, "MINILM", backbones.folder("bert"))
    data, encoder = small_set("one", DAY), SentenceEncoder(backbones.folder("bert"))
    found, test = counterfeits_by_sentences(data), data.split.test
    queries = [data.descriptions[row] for row in test]
    facts_of = [all_facts([data.histories()[row]])[0] for row in test]
    of_package = package_sentences(data.events)
    shipped = [of_package[row] for row in test]
    drawn = {exchanged: exchanged_histories(data, exchanged) for exchanged in ("types", "gaps")}
    for copies, differ in drawn.values():
        assert differ.any()
        for place, (key, names, times) in enumerate(copies):
            original = data.events.filter(pl.col(KEY) == key)
            of_copy = pl.DataFrame({KEY: key, "time": times, "type_text": names}).cast(dict(original.schema))
            assert differ.flat[place] == (original.rows() != of_copy.rows())
            facts_of += all_facts([copies[place]])
            shipped += package_sentences(pl.concat([of_copy, data.events.filter(pl.col(KEY) != key)]))[:1]
    for name, documents in ((FACTS, facts_of), (SHIPPED, shipped)):
        expected = np.split(matched(queries, documents, encoder), [3, 12], axis=1)
        assert found[name]["test"] == pytest.approx(expected[0], abs=2e-3)
        for similar, (exchanged, (_, differ)) in zip(expected[1:], drawn.items(), strict=True):
            assert found[name][exchanged] == pytest.approx(similar.reshape(3, 3, 3), abs=2e-3)
            rows, copies = np.nonzero(~differ)
            assert np.array_equal(found[name][exchanged][:, rows, copies], found[name]["test"][:, rows])


def test_the_scores_of_the_guide_are_those_of_the_study() -> None:
    root = Path(__file__).parents[2]
    guide, study = ((root / page).read_text() for page in ("docs/how-to/words.md", "experiments/tpp/README.md"))
    scores = set(re.findall(r"−?\.\d{3} ± \.\d{3}", guide))
    assert len(scores) > 20
    assert scores <= set(re.findall(r"−?\.\d{3} ± \.\d{3}", study))
