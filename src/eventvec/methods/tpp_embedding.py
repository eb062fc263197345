"""TPP-Embedding: a history is close to its description in words and far from other descriptions (Liu and Quan 2024)."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec import losses
from eventvec.encoders.language import LanguageEncoder, TextTower
from eventvec.errors import ConfigError
from eventvec.methods.declarations import Suggestion
from eventvec.sequences import Sequences

Objective: TypeAlias = Literal["ranking", "symmetric", "mse"]


class TPPEmbedding(nn.Module):
    """One language backbone for events and for descriptions, trained by multiple negatives ranking (Sections 4.1, 4.2).

    Each description should find its own history among the histories of the batch. `encoder` embeds histories and `text`
    embeds descriptions, in one space, where they are compared by cosine. Multiple negatives ranking is
    `losses.info_nce` with temperature ``1 / scale``.

    Relations: `CoLES` compares views of a history and needs no descriptions.

    Args:
        encoder: Language encoder, whose trainable part is trained.
        description: Static column of texts.
        scale: Factor of cosines before the softmax, above 0; 20 in the public code, absent from the paper's equation.
        objective: `ranking`, in which each description looks for its history (Equation 1); `symmetric`, the mean of it
            and of the ranking in which each history looks for its description, which neither the paper nor its code
            has; or `mse`, the mean of ``(1 - cos)²`` over matched pairs, the paper's ablation (Table 11), in which
            nothing keeps all vectors from becoming equal.

    Raises:
        ConfigError: If the scale is not above 0 and finite, the objective is not known, or the encoder has no tower for
            texts.

    Example:
        >>> import eventvec as ev
        >>> encoder = ev.encoders.LanguageEncoder("stories15M", data.schema, text="badge")  # doctest: +SKIP
        >>> method = ev.methods.TPPEmbedding(encoder, description="summary")  # doctest: +SKIP
        >>> ev.fit(method, data, epochs=25, batch_size=8, lr=4e-4).stopped  # doctest: +SKIP
        'epochs'
    """

    def __init__(
        self, encoder: LanguageEncoder, description: str, scale: float = 20.0, objective: Objective = "ranking"
    ) -> None:
        super().__init__()
        if not 0 < scale < float("inf"):
            raise ConfigError(f"scale must be above 0 and finite, got {scale}")
        if objective not in get_args(Objective):
            raise ConfigError(f"objective must be ranking, symmetric or mse, got {objective!r}")
        if not isinstance(encoder, LanguageEncoder):
            raise ConfigError(f"encoder must be `language`, which reads descriptions, got {type(encoder).__name__}")
        self.encoder, self.description, self.scale, self.objective = encoder, description, scale, objective

    @property
    def static_columns(self) -> tuple[str, ...]:
        """The description."""
        return (self.description,)

    @property
    def text(self) -> TextTower:
        """The encoder of descriptions, which shares the weights of `encoder`."""
        return self.encoder.text_tower(self.description)

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean cross-entropy of each description's history among the histories of the batch.

        With the objective `mse`, the mean of ``(1 - cos)²``.
        """
        description, history = self.text(batch), self.encoder(batch)
        if self.objective == "mse":
            return (1 - F.cosine_similarity(description, history)).square().mean()
        both = self.objective == "symmetric"
        return losses.info_nce(description, history, temperature=1 / self.scale, symmetric=both)

    forward = loss

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with a description and at least one event.

        Raises:
            ConfigError: If the rows have no such static column of texts.
        """
        texts = x.static.get(self.description)
        if not isinstance(texts, Sequences):
            raise ConfigError(f"description must name a static column of texts, got {self.description!r}")
        return (texts.lengths > 0) & (x.lengths > 0)

    @staticmethod
    def suggested(x: Sequences) -> Suggestion:
        """Return the language encoder."""
        return {"encoder": {"name": "language"}}
