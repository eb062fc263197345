"""How fast histories are embedded for a search by description: language models that read them as text, and a GRU.

The peer is sentence-transformers with the same weights (all-MiniLM-L6-v2), which reads a history as lines of time and
type. All begin with the histories in memory and end with vectors.
"""

from __future__ import annotations

import torch
from experiments.tpp.arms import MINILM, build
from experiments.tpp.benchmarks import benchmark
from experiments.tpp.settings import SERIALISED, TOWERS, TPP, tuned

import eventvec as ev
from benchmarks.measure import alternate, options, ratio, show, threads
from eventvec.encoders.backbones import backbone_folder

SET = "stackoverflow_badges"
PEER = "sentence-transformers, first 256 tokens"


def main() -> None:
    """Run the benchmark."""
    parsed = options(__doc__, "towers").parse_args()
    from sentence_transformers import SentenceTransformer

    of = benchmark(SET, sequences=16 if parsed.small else 128, longest=64)
    data, arms = of.dataset(), tuned(SET)
    peer = SentenceTransformer(str(backbone_folder(MINILM)), device="cpu", local_files_only=True)
    methods = {name: build(arms[name], data).eval() for name in (SERIALISED, TPP, TOWERS)}
    functions = {PEER: lambda: peer.encode(of.serialised(), show_progress_bar=False)}
    functions |= {
        name: lambda method=method: ev.encode(method.encoder, data.sequences) for name, method in methods.items()
    }
    with threads(1), torch.inference_mode():
        seconds = alternate(functions, 1 if parsed.small else 3)
    rows = []
    for name, times in seconds.items():
        quotient, least, most = ratio(seconds[PEER], times)
        rows.append({
            "encoder": name, "histories/s": len(of) / sorted(times)[len(times) // 2],
            "times as fast as the peer": quotient, "least": least, "most": most,
        })  # fmt: skip
    show("towers", rows, {"histories": len(of), "events": data.sequences.total, "small": parsed.small}, parsed.json)


if __name__ == "__main__":
    main()
