"""What the sentences of a description say: a parser of their wordings.

It knows the wordings and their meaning from the README alone ("What the words mean"), and shares no code with the
describer, so that a defect of one does not hide in the other.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from eventvec.errors import DataError

X, Y = '"(?P<x>[^"]+)"', '"(?P<y>[^"]+)"'
WHEN = (
    "(?:(?P<early>early on|near the beginning|in the early part)"
    "|(?P<middle>midway through|around the middle|in the middle part)"
    "|(?P<late>late in the sequence|towards the end|in the late part))"
)
OPENING = re.compile("(?:overall|in general|in addition|besides|moreover|also), ", re.IGNORECASE)
MEANINGS: dict[str, tuple[str, ...]] = {
    "majority": (
        f"most of the events are {X}", f"{X} makes up the majority of the sequence",
        f"the sequence consists mainly of {X}",
    ),
    "leading": (
        f"{X} is the most common type, though short of a majority",
        f"{X} is clearly ahead of every other type, without being the majority",
        f"no other type comes close to {X}, which is not the majority either",
    ),
    "only_these": (
        f"nearly all events are either {X} or {Y}", f"{X} and {Y} account for almost the whole sequence",
        f"hardly anything other than {X} and {Y} occurs",
    ),
    "no_leader": (
        "no type dominates the sequence", "the events are spread over many types, none of which dominates",
        "no kind of event stands out by its frequency",
    ),
    "diverse": (
        "the events are of many different types", "the sequence has a wide variety of types",
        "there is great diversity among the events",
    ),
    "narrow": (
        "only a small range of types appears", "the events are of few different types",
        "the sequence has little variety",
    ),
    "before": (
        f"{X} tends to come before {Y}", f"{Y} tends to come after {X}",
        f"events of the type {X} mostly precede those of the type {Y}", f"{Y} generally appears later than {X}",
    ),
    "begins": (f"the sequence begins with {X}", f"{X} opens the sequence", f"it all starts with {X}"),
    "ends": (f"the sequence ends with {X}", f"{X} closes the sequence", f"it all finishes with {X}"),
    "same_ends": (
        "the sequence ends with the same type that it began with", "beginning and end are of the same type",
        "it finishes as it started, with the same type of event",
    ),
    "different_ends": (
        "the sequence ends with another type than it began with", "beginning and end are of different types",
        "it finishes with a type other than that at the start",
    ),
    "follows": (
        f"{X} is often directly followed by {Y}", f"{Y} frequently comes right after {X}",
        f"right after {X} there is usually {Y}",
    ),
    "runs": (
        f"{X} tends to repeat right away", f"{X} usually occurs in unbroken runs",
        f'right after {X} there is usually "(?P=x)" again',
    ),
    "repeats": (
        "the same type usually occurs again right away", "neighbouring events are mostly of the same type",
        "types tend to repeat directly",
    ),
    "alternates": (
        "the type usually changes from event to event", "neighbouring events are mostly of different types",
        "types seldom repeat directly",
    ),
    "placed": (
        f"{X} occurs mainly {WHEN}", f"{X} appears predominantly {WHEN}", f"most events of the type {X} fall {WHEN}",
        f"{WHEN}, {X} has most of its events",
    ),
    "even": (
        "the events are fairly evenly spaced", "the time between events varies little",
        "events come at a steady pace",
    ),
    "uneven": (
        "the time between events varies widely", "the events are spaced very unevenly",
        "very short and very long gaps both occur",
    ),
    "gaps_grow": (
        "the gaps between events tend to grow", "events come at longer intervals as time goes on",
        "the pace slows down over time",
    ),
    "gaps_shrink": (
        "the gaps between events tend to shrink", "events come at shorter intervals as time goes on",
        "the pace quickens over time",
    ),
    "pause": (
        f"there is a long pause {WHEN}", f"{WHEN}, a long stretch passes without events",
        f"activity halts for long {WHEN}",
    ),
    "no_pause": ("there is no long pause", "activity never halts for long", "no long stretch passes without events"),
    "mostly": (
        f"most of the events take place {WHEN}", f"{WHEN}, activity is at its highest by far",
        f"the bulk of the activity comes {WHEN}",
    ),
    "thin": (f"hardly anything happens {WHEN}", f"there is little activity {WHEN}", f"{WHEN}, events are scarce"),
    "spread": (
        "the events are spread over the whole period", "activity is distributed fairly evenly over the period",
        "no part of the period lacks its share of events",
    ),
    "regular": (
        f"{X} recurs at regular intervals", f"events of the type {X} are regularly spaced",
        f"{X} returns in a steady rhythm",
    ),
    "burst": (
        f"there is a burst of activity {WHEN}", f"many events fall close together {WHEN}",
        f"{WHEN}, a dense cluster of events occurs",
    ),
    "burst_of": (
        f"a burst of activity consists mainly of {X}", f"there is a dense cluster of events dominated by {X}",
        f"many events fall close together, mostly {X}",
    ),
    "no_cluster": (
        "no cluster of events stands out", "the events do not cluster in time", "there are no bursts of activity",
    ),
    "clustered": (
        f"{X} is confined almost entirely to a short period", f"events of the type {X} lie close together in time",
        f"{X} comes in a tight cluster",
    ),
    "cluster_at": (
        f"{X} is clustered {WHEN}", f"there is a cluster of {X} {WHEN}",
        f"{WHEN}, events of the type {X} lie close together",
    ),
    "scattered": (
        f"{X} is scattered over the sequence", f"events of the type {X} do not cluster", f"{X} is spread out in time",
    ),
    "together": (
        f"{X} and {Y} tend to occur at the same time", f"{X} usually coincides with {Y}",
        f"events of the types {X} and {Y} come together",
    ),
    "more": (
        f"{X} becomes more frequent over time", f"the frequency of {X} rises", f"there is more of {X} as time goes on",
    ),
    "less": (
        f"{X} becomes less frequent over time", f"the frequency of {X} falls", f"there is less of {X} as time goes on",
    ),
    "stops": (
        f"{X} is absent from the later part", f"{X} disappears as time goes on",
        f"events of the type {X} cease before the later part",
    ),
    "sets_in": (
        f"{X} is absent from the earlier part", f"{X} emerges only as time goes on",
        f"events of the type {X} set in only in the later part",
    ),
    "throughout": (
        f"{X} occurs throughout the sequence", f"{X} is present from beginning to end",
        f"events of the type {X} continue all the way through",
    ),
    "gives_way": (f"{X} gives way to {Y}", f"the focus shifts from {X} to {Y}", f"{Y} takes over from {X}"),
    "busier": (
        "activity increases over time", "the later part is busier than the earlier part",
        "events become more frequent as time goes on",
    ),
    "calmer": (
        "activity decreases over time", "the earlier part is busier than the later part",
        "events become less frequent as time goes on",
    ),
    "widens": (
        "the variety of types grows over time", "the events become more diverse",
        "more types are involved later than earlier",
    ),
    "narrows": (
        "the variety of types shrinks over time", "the events become less diverse",
        "fewer types are involved later than earlier",
    ),
    "newcomers": (
        "some types do not appear until late", "new types still appear towards the end",
        "a share of the types arrive only late",
    ),
    "all_early": (
        "every type makes its appearance early", "all types are present early on",
        "no new type appears after the early part",
    ),
}  # fmt: skip
"""The sentences of each kind, in lower case and without the full stop, as regular expressions."""
PATTERNS = [(kind, re.compile(wording)) for kind, wordings in MEANINGS.items() for wording in wordings]


class Statement(NamedTuple):
    """What a sentence says.

    Args:
        kind: A key of `MEANINGS`.
        x: The type that it is about, or nothing.
        y: The other type, or nothing.
        part: 0, 1 or 2 for early, middle and late; None without a part.
    """

    kind: str
    x: str = ""
    y: str = ""
    part: int | None = None


def parse(description: str) -> list[Statement]:
    """Return what each sentence of a description says.

    Raises:
        DataError: If a sentence cannot be read.

    Example:
        >>> parse('Overall, "Guru" gives way to "Caucus". There is a long pause midway through.')
        [Statement(kind='gives_way', x='Guru', y='Caucus', part=None), Statement(kind='pause', x='', y='', part=1)]
    """
    sentences = re.findall(r'(?:"[^"]*"|[^".])+\.', description)
    if not sentences or "".join(sentences) != description:
        raise DataError(f"the description is no sequence of sentences that end in full stops: {description[:80]!r}")
    return [_statement(sentence.strip()[:-1]) for sentence in sentences]


@lru_cache(maxsize=2**14)
def _statement(text: str) -> Statement:
    text = OPENING.sub("", text, count=1) if OPENING.match(text) else text
    text = text[:1].lower() + text[1:]
    for kind, pattern in PATTERNS:
        if match := pattern.fullmatch(text):
            groups = match.groupdict()
            parts = [place for place, part in enumerate(("early", "middle", "late")) if groups.get(part)]
            return Statement(kind, groups.get("x", ""), groups.get("y", ""), parts[0] if parts else None)
    raise DataError(f"the sentence {text!r} cannot be read; the README lists the wordings that can")
