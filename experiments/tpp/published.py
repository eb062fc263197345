"""The mean reciprocal ranks and Recall@5 of Liu and Quan 2024, Tables 6 to 12, on Stack Overflow and Earthquake."""

from __future__ import annotations

from collections.abc import Mapping

BADGES, EARTHQUAKES, MIXED = "stackoverflow_badges", "usgs_earthquakes", "mixed"
Score = tuple[float, float]

TUNED: Mapping[tuple[str, str], Score] = {
    (BADGES, "serialised"): (0.501, 0.695), (EARTHQUAKES, "serialised"): (0.676, 0.895),
    (BADGES, "llama"): (0.741, 0.880), (EARTHQUAKES, "llama"): (0.760, 0.946),
    (MIXED, "serialised"): (0.634, 0.795), (MIXED, "llama"): (0.772, 0.914),
}  # fmt: skip
"""Tables 6 and 7: MiniLM-L12 on serialised histories, and TPP-Llama."""
UNTUNED: Mapping[tuple[str, str], Score] = {
    (BADGES, "serialised"): (0.091, 0.123), (EARTHQUAKES, "serialised"): (0.037, 0.043),
    (BADGES, "llama"): (0.022, 0.021), (EARTHQUAKES, "llama"): (0.022, 0.020),
    (MIXED, "serialised"): (0.154, 0.208), (MIXED, "llama"): (0.025, 0.030),
}  # fmt: skip
"""Table 12."""
ABLATIONS: Mapping[tuple[str, str], Score] = {
    (BADGES, "all"): (0.729, 0.865), (EARTHQUAKES, "all"): (0.759, 0.953),
    (BADGES, "reads=time"): (0.037, 0.040), (EARTHQUAKES, "reads=time"): (0.179, 0.281),
    (BADGES, "reads=text"): (0.726, 0.870), (EARTHQUAKES, "reads=text"): (0.675, 0.890),
    (BADGES, "hidden=time"): (0.718, 0.862), (EARTHQUAKES, "hidden=time"): (0.754, 0.939),
    (BADGES, "hidden=time_and_type"): (0.727, 0.875), (EARTHQUAKES, "hidden=time_and_type"): (0.766, 0.953),
    (BADGES, "pooling=max"): (0.712, 0.857), (EARTHQUAKES, "pooling=max"): (0.627, 0.853),
    (BADGES, "pooling=last"): (0.728, 0.848), (EARTHQUAKES, "pooling=last"): (0.772, 0.960),
    (BADGES, "objective=mse"): (0.020, 0.016), (EARTHQUAKES, "objective=mse"): (0.020, 0.015),
}  # fmt: skip
"""Tables 8 to 11, TPP-Llama-Chat."""
