"""The vectors of rows from all events, and without each field and period of the events."""

from __future__ import annotations

from collections.abc import Iterator

from eventvec.attribution.left_out import Ablation, parts_of
from eventvec.embedding import Progress, encode
from eventvec.encoders.interface import Encoder, readable_rows
from eventvec.schema import Schema
from eventvec.sequences import Array, Sequences


class VectorsWithout:
    """The vectors of rows from all events, and without each field and period, embedded one after the other."""

    def __init__(self, encoder: Encoder, x: Sequences, schema: Schema, progress: Progress | None) -> None:
        self.encoder, self.x = encoder, x.take(x.flat(), x.lengths)  # the columns have no other events
        self.parts = parts_of(self.x, schema)
        self.progress, self.done = progress, 0
        self.full: Array = self._encoded(self.x)
        self.emptied: list[str] = []
        self.unreadable: list[str] = []

    def each(self) -> Iterator[tuple[Ablation, Array]]:
        """Yield each part with `(n, d)` the vectors without it; those that the encoder cannot read stay as they are."""
        for part in self.parts:
            changed = part.without()
            readable = readable_rows(self.encoder, changed).cpu()
            for rows, counts in ((changed.lengths == 0, self.emptied), (~readable, self.unreadable)):
                if count := int(rows.sum()):
                    counts.append(f"{part.name} {count:,}")
            vectors = self.full.copy()
            if readable.any():
                vectors[readable.numpy()] = self._encoded(changed[readable])
            yield part, vectors

    def notes(self) -> list[str]:
        """Return sentences about rows that a part left without events, or that the encoder could not read without."""
        sentences = (
            ("have no event left without a period, and then the vector of an empty history", self.emptied),
            ("cannot be read by the encoder without a part, and count as unchanged", self.unreadable),
        )
        some = f"Some of {len(self.full):,} entities"
        return [f"{some} {verb}: {', '.join(counts)}." for verb, counts in sentences if counts]

    def _encoded(self, x: Sequences) -> Array:
        before, total, progress = self.done, len(self.x) * (1 + len(self.parts)), self.progress
        self.done += len(x)
        tick = None if progress is None else lambda done, _: progress(before + done, total)
        return encode(self.encoder, x, progress=tick).numpy()
