"""TPP-Embedding: a history is close to its description in words and far from other descriptions (Liu and Quan 2024)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, cast, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec import distributed, losses
from eventvec.dataset import static_texts, static_values
from eventvec.encoders.interface import Encoder, capabilities
from eventvec.encoders.language import TIME, LanguageEncoder, TextTower
from eventvec.encoders.sentences import SentenceEncoder, SentenceTower
from eventvec.errors import ConfigError
from eventvec.methods.declarations import suggests, usable_rows
from eventvec.methods.label_losses import has_label, static_column
from eventvec.methods.retrieval import mean_reciprocal_rank
from eventvec.options import above_zero
from eventvec.schema import KNOWN, Categorical
from eventvec.sequences import Sequences
from eventvec.views import Counterfeits
from eventvec.views.sizes import validation_share

Objective: TypeAlias = Literal["ranking", "symmetric", "mse"]


@suggests(lambda x: {"encoder": {"name": "language"}})
class TPPEmbedding(nn.Module):
    """An encoder of histories and one of descriptions, trained by multiple negatives ranking (Sections 4.1, 4.2).

    Each description should find its own history among the histories of the batch. `encoder` embeds histories and `text`
    embeds descriptions, in one space, where they are compared by cosine. Multiple negatives ranking is
    `losses.info_nce` with temperature ``1 / scale``.

    In the paper, both are one language backbone, `LanguageEncoder`. Ours besides it, for millions of histories on a
    CPU: any other encoder of histories, such as `GRU`, with a `text_tower` beside it, whose vectors a linear map puts
    into the space of the histories. A frozen tower encodes each description once.

    `negatives` are ours too: counterfeits of a history, in which the types or the intervals between events are
    exchanged, so a description has to be found by the order or the times of the events. One with the events of the
    history itself does not count; with a language encoder, one of which it reads the same tokens.

    Args:
        encoder: Language encoder, whose trainable part is trained, or another encoder with a `text_tower`.
        description: Name of a column of texts of the static table, `--static`.
        scale: Factor of cosines before the softmax, above 0; 20 in the public code, absent from the paper's equation.
        objective: `ranking`, in which each description looks for its history (Equation 1); `symmetric`, the mean of it
            and of the ranking in which each history looks for its description, which neither the paper nor its code
            has; or `mse`, the mean of ``(1 - cos)²`` over matched pairs, the paper's ablation (Table 11), in which
            nothing keeps all vectors from becoming equal.
        negatives: Sampler of counterfeits of each history; none if not given.
        domain: Categorical static column with the domain of each row. Histories are then negatives only for
            descriptions of their own domain: our reading of batches of one domain, with the same comparisons although a
            batch is of all domains. Rows without a domain are not usable.
        text_tower: Sentence encoder of the descriptions, frozen or adapted; by default the language encoder reads them.

    Raises:
        ConfigError: If an option does not fit the encoder or the objective, is unknown or out of range.

    Example:
        >>> encoder = ev.encoders.LanguageEncoder("stories15M", data.schema, text="badge")  # doctest: +SKIP
        >>> method = ev.methods.TPPEmbedding(encoder, description="summary")  # doctest: +SKIP
        >>> ev.fit(data, method=method, epochs=25, batch_size=8, lr=4e-4).stopped  # doctest: +SKIP
        'epochs'
    """

    scored_by = "mrr"

    def __init__(
        self,
        encoder: Encoder,
        description: str,
        scale: float = 20.0,
        objective: Objective = "ranking",
        negatives: Counterfeits | None = None,
        domain: str | None = None,
        text_tower: SentenceEncoder | None = None,
    ) -> None:
        super().__init__()
        above_zero("scale", scale)
        if objective not in get_args(Objective):
            raise ConfigError(f"objective must be ranking, symmetric or mse, got {objective!r}")
        for option, value in (("negatives", negatives), ("domain", domain)):
            if objective == "mse" and value is not None:
                raise ConfigError(f"{option} needs the objective ranking or symmetric; mse compares matched pairs only")
        if not isinstance(negatives, Counterfeits | None):
            raise ConfigError(f"negatives must be views.Counterfeits(...), got {type(negatives).__name__}")
        if text_tower is None and not isinstance(encoder, LanguageEncoder):
            raise ConfigError(
                f"text_tower must be given for {type(encoder).__name__}, which reads no descriptions: "
                "encoders.SentenceEncoder(...), in tables method.text_tower.backbone; `language` needs none"
            )
        if not isinstance(text_tower, SentenceEncoder | None):
            raise ConfigError(f"text_tower must be encoders.SentenceEncoder(...), got {type(text_tower).__name__}")
        self.encoder, self.description, self.domain, self.text_tower = encoder, description, domain, text_tower
        self.scale, self.objective, self.negatives = scale, objective, negatives
        self.projection = None if text_tower is None else nn.Linear(text_tower.dim, encoder.dim)
        self.domain_field = None if domain is None else _domain_field(encoder, domain)

    @property
    def static_columns(self) -> tuple[str, ...]:
        """The description, and the domain if there is one."""
        return (self.description,) if self.domain is None else (self.description, self.domain)

    @property
    def text(self) -> TextTower | SentenceTower:
        """The encoder of descriptions, which shares the weights of `encoder` or of `text_tower`."""
        if self.text_tower is None or self.projection is None:
            return cast(LanguageEncoder, self.encoder).text_tower(self.description)
        return SentenceTower(self.text_tower, self.projection, self.description)

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean cross-entropy of each description's history in the batch, or the mean of ``(1 - cos)²``."""
        description, history = self.text(batch), self.encoder(batch)
        if self.objective == "mse":
            return (1 - F.cosine_similarity(description, history)).square().mean()
        counterfeits, compared = None, self.same_domain(batch)
        if self.negatives is not None:
            counterfeits, differ = self.counterfeits(batch, rng)
            compared = torch.cat([compared, differ], 1)
        return losses.info_nce(
            description,
            history,
            temperature=1 / self.scale,
            symmetric=self.objective == "symmetric",
            negatives=counterfeits,
            compared=compared,
        )

    forward = loss

    @property
    def compares_rows(self) -> bool:
        """Whether descriptions look for their histories among those of the batch."""
        return self.objective != "mse"

    def same_domain(self, batch: Sequences) -> Tensor:
        """Return `(n, n)` bool: pairs of rows of one domain; all pairs if there are no domains."""
        if self.domain is None:
            return torch.ones(len(batch), len(batch), dtype=torch.bool, device=batch.device)
        code = cast(Tensor, static_values(batch, self.domain))
        return code[:, None] == code

    def counterfeits(self, batch: Sequences, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return `(n, count, dim)` embeddings of each row's counterfeits, and `(n, count)` bool: those that differ."""
        if self.negatives is None:
            raise ConfigError("negatives must be a sampler of counterfeits, such as views.Counterfeits(), got none")
        views, source = self.negatives(batch, rng)
        shape = (len(batch), self.negatives.count)
        if not isinstance(self.encoder, LanguageEncoder):
            differ = ~_equal_events(views, batch[source])
            return self.encoder(views).unflatten(0, shape), differ.unflatten(0, shape)
        tokens = self.encoder.tokens(views)
        differ = ~_equal_tokens(tokens, self.encoder.tokens(batch)[source])
        return distributed.share(self.encoder.read, tokens).unflatten(0, shape), differ.unflatten(0, shape)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with a description, at least one event and, if there are domains, a known one."""
        texts = x.static.get(self.description)
        if not isinstance(texts, Sequences):
            raise ConfigError(f"description must name a static column of texts, got {self.description!r}")
        usable = (texts.lengths > 0) & (x.lengths > 0)
        return usable if self.domain_field is None else usable & has_label(x, self.domain_field)

    def fit_defaults(self, x: Sequences) -> dict[str, Any]:
        """Return the share of pairs for validation, as for labels, and that the epoch with the best score is kept."""
        return {"validation": validation_share(int(usable_rows(self, x).sum())), "keep": "best"}

    def prepare(self, x: Sequences) -> None:
        """Let a frozen tower encode the descriptions of the rows to train on, once and in the same blocks each time."""
        if self.text_tower is not None and self.text_tower.lora is None:
            self.text_tower(static_texts(x, self.description))

    def validation_score(self, batches: Iterable[Sequences]) -> float:
        """Return the mean reciprocal rank at which descriptions find their histories, in the rows of all batches.

        Rows of every domain are searched together, as in the paper's table of several domains.
        """
        pairs = [(self.text(batch), self.encoder(batch)) for batch in batches]
        descriptions, histories = (torch.cat(vectors) for vectors in zip(*pairs, strict=True))
        return mean_reciprocal_rank(descriptions, histories)


def _domain_field(encoder: Encoder, name: str) -> Categorical:
    own = capabilities(encoder)
    schema = own.schema or capabilities(own.events).schema
    if schema is None:
        raise ConfigError(f"domain needs an encoder that has the schema of the data, got {type(encoder).__name__}")
    field: Categorical = static_column(schema, "domain", name, Categorical)
    return field


def _equal_tokens(tokens: Sequences, others: Sequences) -> Tensor:
    """Return `(n,)` bool: rows with the same tokens at the same times, up to a millionth of a unit, as in `others`."""
    equal = tokens.lengths == others.lengths
    places = equal.nonzero().squeeze(1)
    one, other = tokens[places], others[places]
    token = one.values("token")
    differ = token != other.values("token")
    differ |= ((one.values("since") - other.values("since")).abs() > 1e-6) & (token == TIME)
    counts = torch.zeros_like(places).index_add(0, one.rows(), differ.long())
    return equal.index_copy(0, places, counts == 0)


def _equal_events(x: Sequences, others: Sequences) -> Tensor:
    """Return `(n,)` bool: rows with the same events, up to rounding, as those of the same lengths in `others`."""
    differ = torch.zeros(x.total, dtype=torch.bool, device=x.device)
    for name in x.columns.keys() - {"gap", KNOWN}:  # the gap follows from the times
        one, other = (_numbers(rows, name) for rows in (x, others))
        if not one.is_floating_point():
            differ |= (one != other).any(1)
            continue
        spread = (other - other.nan_to_num().mean(0)).abs().nan_to_num()
        rounding = 1e-9 * float(spread.amax()) if len(other) else 0.0
        differ |= ~one.isclose(other, rtol=0, atol=rounding, equal_nan=True).all(1)
    counts = torch.zeros_like(x.lengths).index_add(0, x.rows(), differ.long())
    return counts == 0


def _numbers(x: Sequences, name: str) -> Tensor:
    """Return `(total, k)` the values of a column; of nested rows, which of them they are."""
    column = x.columns[name]
    values = torch.stack([column.starts, column.lengths], 1) if isinstance(column, Sequences) else column
    return values[x.flat()].flatten(1) if values.dim() > 1 else values[x.flat()].unsqueeze(1)
