"""The published numbers of Liu and Quan 2024: quality (Tables 3 and 4), MRR and Recall@5 (Tables 6 to 12)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

BADGES, EARTHQUAKES, MIXED = "stackoverflow_badges", "usgs_earthquakes", "mixed"
Score = tuple[float, float]

FOLDERS = ("stack-overflow", "chicago-crime", "nyc-taxi", "us-earthquake", "amazon-review", MIXED)
"""The sets in the order of Table 12."""
MODELS = ("MiniLM-L12", "MPNet-Base", "BGE-Large", "MxbAI-Large", "mE5-Large", "TPP-Llama", "TPP-Llama-Chat")


def _scores(*rows: str) -> Mapping[tuple[str, str], Score]:
    """Return the score of each set and model, from a row of text per model."""
    pairs = [pair.split("/") for row in rows for pair in row.split()]
    keys = [(data, model) for model, data in product(MODELS, FOLDERS)]
    return {key: (float(mrr), float(recall)) for key, (mrr, recall) in zip(keys, pairs, strict=True)}


TUNED = _scores(
    ".501/.695 .808/.931 .159/.239 .676/.895 .459/.573 .634/.795",
    ".620/.775 .924/.980 .246/.364 .733/.923 .665/.756 .748/.889",
    ".632/.786 .922/.985 .286/.415 .736/.928 .656/.746 .744/.888",
    ".627/.782 .924/.982 .271/.426 .717/.914 .650/.747 .744/.876",
    ".658/.804 .941/.987 .261/.389 .748/.921 .617/.716 .749/.888",
    ".741/.880 .958/.992 .468/.680 .760/.946 .641/.763 .772/.914",
    ".729/.865 .961/.994 .475/.691 .759/.953 .646/.767 .770/.919",
)
"""Tables 6, 7, 13 and 14."""
UNTUNED = _scores(
    ".091/.123 .071/.111 .028/.024 .037/.043 .142/.200 .154/.208",
    ".068/.087 .027/.020 .022/.017 .031/.027 .068/.071 .102/.127",
    ".122/.162 .126/.158 .042/.051 .039/.040 .215/.293 .196/.247",
    ".085/.102 .091/.134 .039/.037 .038/.043 .174/.227 .170/.221",
    ".065/.078 .078/.087 .028/.024 .037/.040 .142/.187 .145/.191",
    ".022/.021 .019/.020 .020/.014 .022/.020 .033/.027 .025/.030",
    ".020/.015 .018/.012 .019/.014 .023/.020 .033/.031 .021/.017",
)
"""Table 12."""
ABLATIONS: Mapping[tuple[str, str], Score] = {
    ("stack-overflow", "all"): (0.729, 0.865), ("us-earthquake", "all"): (0.759, 0.953),
    ("stack-overflow", "reads=time"): (0.037, 0.040), ("us-earthquake", "reads=time"): (0.179, 0.281),
    ("stack-overflow", "reads=text"): (0.726, 0.870), ("us-earthquake", "reads=text"): (0.675, 0.890),
    ("stack-overflow", "hidden=time"): (0.718, 0.862), ("us-earthquake", "hidden=time"): (0.754, 0.939),
    ("stack-overflow", "hidden=time_and_type"): (0.727, 0.875),
    ("us-earthquake", "hidden=time_and_type"): (0.766, 0.953),
    ("stack-overflow", "pooling=max"): (0.712, 0.857), ("us-earthquake", "pooling=max"): (0.627, 0.853),
    ("stack-overflow", "pooling=last"): (0.728, 0.848), ("us-earthquake", "pooling=last"): (0.772, 0.960),
    ("stack-overflow", "objective=mse"): (0.020, 0.016), ("us-earthquake", "objective=mse"): (0.020, 0.015),
}  # fmt: skip
"""Tables 8 to 11, TPP-Llama-Chat."""
OURS = {BADGES: "stack-overflow", EARTHQUAKES: "us-earthquake", MIXED: MIXED}
"""The published set that each of ours stands beside."""

JUDGES = ("GPT-4o", "GPT-4o-mini")
CRITERIA = ("accuracy", "coverage", "fidelity", "clarity", "conciseness")


def _quality(rows: str) -> Mapping[tuple[str, str], float]:
    """Return the score of each single set and criterion, from the rows of a table."""
    return dict(zip(product(FOLDERS[:-1], CRITERIA), map(float, rows.split()), strict=True))


QUALITY = {
    "GPT-4o": _quality("""4.10 4.05 4.25 4.94 4.56  4.01 4.00 4.18 4.98 4.67  4.44 4.03 4.46 4.89 4.36
        4.36 4.31 4.42 4.96 4.95  4.66 4.33 4.74 4.99 4.82"""),
    "GPT-4o-mini": _quality("""5.00 5.00 5.00 5.00 5.00  5.00 4.87 4.96 5.00 4.86  5.00 4.99 4.99 5.00 4.99
        4.99 4.99 4.85 5.00 4.93  5.00 5.00 4.98 5.00 5.00"""),
}
"""Tables 3 and 4: the mean score from 1 to 5 of the paper's descriptions, which GPT-4o-mini wrote, by two judges."""
