"""The layers of a transformer beside torch's own, on rows padded to the longest and on eight groups of similar length.

All start from encoded events and end with the output at each row's start token. *padded* and *groups* call
`torch.nn.TransformerEncoder` with a mask of the padding, and with dropout of attention weights where it has one.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.measure import Row, alternate, options, ratio, show
from eventvec.encoders.attention import attend
from eventvec.sequences import Sequences

SHORTEST, LONGEST, GROUPS, CPU = 10, 300, 8, torch.device("cpu")


class Case:
    """The layers of `Transformer`, and rows of random encoded events with lengths that are uniform in their logs."""

    def __init__(self, dim: int, rows: int, training: bool, device: torch.device = CPU) -> None:
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(dim, 4, 4 * dim, 0.1, activation="gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, nn.LayerNorm(dim), enable_nested_tensor=False).train(training)
        low, high = torch.tensor([SHORTEST, LONGEST]).log()
        lengths = (low + (high - low) * torch.rand(rows)).exp().long()
        self.x = Sequences({}, lengths.cumsum(0) - lengths, lengths).to(device)
        self.tokens, self.start, self.training = torch.randn(self.x.total, dim), torch.randn(dim), training
        self.tokens, self.start = self.tokens.to(device), self.start.to(device)
        self.blocks.to(device)
        self.groups = [rows.to(device) for rows in lengths.argsort().chunk(GROUPS) if len(rows)]

    def padded(self) -> None:
        """Run torch's layers on all rows."""
        self._finish(lambda: self._padded(torch.arange(len(self.x), device=self.tokens.device)))

    def by_groups(self) -> None:
        """Run torch's layers on groups of rows of similar length."""
        self._finish(lambda: torch.cat([self._padded(rows) for rows in self.groups]))

    def ours(self) -> None:
        """Run the layers as the encoder does."""
        self._finish(lambda: attend(self.blocks, self.start, self.x, self.tokens))

    def _padded(self, rows: Tensor) -> Tensor:
        x = self.x[rows]
        padded = torch.cat([self.start.expand(len(x), 1, -1), x.pad(self.tokens[x.flat()])], 1)
        out: Tensor = self.blocks(padded, src_key_padding_mask=nn.functional.pad(~x.mask(), (1, 0), value=False))
        return out[:, 0]

    def _finish(self, run: Callable[[], Tensor]) -> None:
        with torch.set_grad_enabled(self.training):
            out = run()
        if self.training:
            out.sum().backward()


def rows(small: bool) -> list[Row]:
    """Return the ratios of torch's seconds to ours."""
    table: list[Row] = []
    for training in (True, False):
        for dim in (32,) if small else (64, 128):
            case = Case(dim, 8 if small else 128, training)
            functions = {"padded": case.padded, "groups": case.by_groups, "ours": case.ours}
            seconds = alternate(functions, 1 if small else 5)
            row: Row = {"what": "training" if training else "embedding", "dim": dim}
            for name in ("padded", "groups"):
                middle, least, most = ratio(seconds[name], seconds["ours"])
                row |= {f"{name} / ours": middle, f"{name}, range": f"{least:.2f}-{most:.2f}"}
            table.append(row | {"ours, ms": 1e3 * sorted(seconds["ours"])[len(seconds["ours"]) // 2]})
    return table


def main() -> None:
    """Run the benchmark."""
    parsed = options(__doc__, "attention").parse_args()
    torch.set_num_threads(1)
    settings = {"small": parsed.small, "threads": 1}
    show("attention", rows(parsed.small), settings, parsed.json)


if __name__ == "__main__":
    main()
