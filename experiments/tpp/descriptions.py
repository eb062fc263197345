"""Descriptions of event sequences: two to five sentences about order, timing, clustering and trends.

They follow the prompt of Liu and Quan 2024 (Figure 2): objective, from the history alone, without numbers or
timestamps. A description states a few of the facts that hold, drawn at random, and leaves out the others.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from eventvec.errors import DataError
from experiments.tpp.facts import Fact, facts

FEWEST, MOST = 2, 5
NAMED = 2
"""The most sentences of a description that name a type, because names alone can identify a history."""
LINKED = 0.3
"""The share of sentences that begin with a linking word."""
OPENINGS, LINKS = ("overall,", "in general,"), ("also,", "in addition,", "besides,", "moreover,")
"""Linking words of the first sentence, and of the others."""
PARTS = {
    "early": ("early on", "near the beginning", "in the early part"),
    "middle": ("midway through", "around the middle", "in the middle part"),
    "late": ("late in the sequence", "towards the end", "in the late part"),
}
WORDINGS: dict[str, tuple[str, ...]] = {
    # dominance
    "majority": (
        "most of the events are {x}",
        "{x} makes up the majority of the sequence",
        "the sequence consists mainly of {x}",
    ),
    "leading": (
        "{x} is the most common type, though short of a majority",
        "{x} is clearly ahead of every other type, without being the majority",
        "no other type comes close to {x}, which is not the majority either",
    ),
    "only_these": (
        "nearly all events are either {x} or {y}",
        "{x} and {y} account for almost the whole sequence",
        "hardly anything other than {x} and {y} occurs",
    ),
    "no_leader": (
        "no type dominates the sequence",
        "the events are spread over many types, none of which dominates",
        "no kind of event stands out by its frequency",
    ),
    "diverse": (
        "the events are of many different types",
        "the sequence has a wide variety of types",
        "there is great diversity among the events",
    ),
    "narrow": (
        "only a small range of types appears",
        "the events are of few different types",
        "the sequence has little variety",
    ),
    # order
    "before": (
        "{x} tends to come before {y}",
        "{y} tends to come after {x}",
        "events of the type {x} mostly precede those of the type {y}",
        "{y} generally appears later than {x}",
    ),
    "begins": ("the sequence begins with {x}", "{x} opens the sequence", "it all starts with {x}"),
    "ends": ("the sequence ends with {x}", "{x} closes the sequence", "it all finishes with {x}"),
    "same_ends": (
        "the sequence ends with the same type that it began with",
        "beginning and end are of the same type",
        "it finishes as it started, with the same type of event",
    ),
    "different_ends": (
        "the sequence ends with another type than it began with",
        "beginning and end are of different types",
        "it finishes with a type other than that at the start",
    ),
    "follows": (
        "{x} is often directly followed by {y}",
        "{y} frequently comes right after {x}",
        "right after {x} there is usually {y}",
    ),
    "runs": (
        "{x} tends to repeat right away",
        "{x} usually occurs in unbroken runs",
        "right after {x} there is usually {x} again",
    ),
    "repeats": (
        "the same type usually occurs again right away",
        "neighbouring events are mostly of the same type",
        "types tend to repeat directly",
    ),
    "alternates": (
        "the type usually changes from event to event",
        "neighbouring events are mostly of different types",
        "types seldom repeat directly",
    ),
    "placed": (
        "{x} occurs mainly {part}",
        "most events of the type {x} fall {part}",
        "{x} appears predominantly {part}",
        "{part}, {x} has most of its events",
    ),
    # timing
    "even": (
        "the events are fairly evenly spaced",
        "the time between events varies little",
        "events come at a steady pace",
    ),
    "uneven": (
        "the time between events varies widely",
        "the events are spaced very unevenly",
        "very short and very long gaps both occur",
    ),
    "gaps_grow": (
        "the gaps between events tend to grow",
        "events come at longer intervals as time goes on",
        "the pace slows down over time",
    ),
    "gaps_shrink": (
        "the gaps between events tend to shrink",
        "events come at shorter intervals as time goes on",
        "the pace quickens over time",
    ),
    "pause": (
        "there is a long pause {part}",
        "{part}, a long stretch passes without events",
        "activity halts for long {part}",
    ),
    "no_pause": (
        "there is no long pause",
        "activity never halts for long",
        "no long stretch passes without events",
    ),
    "mostly": (
        "most of the events take place {part}",
        "{part}, activity is at its highest by far",
        "the bulk of the activity comes {part}",
    ),
    "thin": ("hardly anything happens {part}", "there is little activity {part}", "{part}, events are scarce"),
    "spread": (
        "the events are spread over the whole period",
        "activity is distributed fairly evenly over the period",
        "no part of the period lacks its share of events",
    ),
    "regular": (
        "{x} recurs at regular intervals",
        "events of the type {x} are regularly spaced",
        "{x} returns in a steady rhythm",
    ),
    # clustering
    "burst": (
        "there is a burst of activity {part}",
        "many events fall close together {part}",
        "{part}, a dense cluster of events occurs",
    ),
    "burst_of": (
        "a burst of activity consists mainly of {x}",
        "there is a dense cluster of events dominated by {x}",
        "many events fall close together, mostly {x}",
    ),
    "no_cluster": (
        "no cluster of events stands out",
        "the events do not cluster in time",
        "there are no bursts of activity",
    ),
    "clustered": (
        "{x} is confined almost entirely to a short period",
        "events of the type {x} lie close together in time",
        "{x} comes in a tight cluster",
    ),
    "cluster_at": (
        "{x} is clustered {part}",
        "there is a cluster of {x} {part}",
        "{part}, events of the type {x} lie close together",
    ),
    "scattered": (
        "{x} is scattered over the sequence",
        "events of the type {x} do not cluster",
        "{x} is spread out in time",
    ),
    "together": (
        "{x} and {y} tend to occur at the same time",
        "{x} usually coincides with {y}",
        "events of the types {x} and {y} come together",
    ),
    # trends
    "more": (
        "{x} becomes more frequent over time",
        "the frequency of {x} rises",
        "there is more of {x} as time goes on",
    ),
    "less": (
        "{x} becomes less frequent over time",
        "the frequency of {x} falls",
        "there is less of {x} as time goes on",
    ),
    "stops": (
        "{x} is absent from the later part",
        "{x} disappears as time goes on",
        "events of the type {x} cease before the later part",
    ),
    "sets_in": (
        "{x} is absent from the earlier part",
        "{x} emerges only as time goes on",
        "events of the type {x} set in only in the later part",
    ),
    "throughout": (
        "{x} occurs throughout the sequence",
        "{x} is present from beginning to end",
        "events of the type {x} continue all the way through",
    ),
    "gives_way": ("{x} gives way to {y}", "the focus shifts from {x} to {y}", "{y} takes over from {x}"),
    "busier": (
        "activity increases over time",
        "the later part is busier than the earlier part",
        "events become more frequent as time goes on",
    ),
    "calmer": (
        "activity decreases over time",
        "the earlier part is busier than the later part",
        "events become less frequent as time goes on",
    ),
    "widens": (
        "the variety of types grows over time",
        "the events become more diverse",
        "more types are involved later than earlier",
    ),
    "narrows": (
        "the variety of types shrinks over time",
        "the events become less diverse",
        "fewer types are involved later than earlier",
    ),
    "newcomers": (
        "some types do not appear until late",
        "new types still appear towards the end",
        "a share of the types arrive only late",
    ),
    "all_early": (
        "every type makes its appearance early",
        "all types are present early on",
        "no new type appears after the early part",
    ),
}
"""The wordings of each kind of fact; `{x}` and `{y}` are types, `{part}` is one of `PARTS`."""

EVERY_WORDING, FIRST_WORDING, OTHER_WORDINGS = slice(None), slice(1), slice(1, None)


def describe(names: Sequence[str], times: Sequence[int], rng: random.Random, among: slice = EVERY_WORDING) -> str:
    """Return a description of one history in two to five sentences.

    The number of sentences is drawn first. Their facts are drawn from topic after topic, in random order: a kind that
    holds, then one of its facts. At most `NAMED` sentences name a type.

    Args:
        names: The type of each event.
        times: The time of each event, ascending, in a whole number of any unit.
        rng: Draws the facts and the wordings.
        among: The wordings of each kind and part that are drawn from; the facts do not depend on it.

    Raises:
        DataError: If fewer than two facts hold, as they do for very short histories, or a name contains a quotation
            mark.

    Example:
        >>> describe(["Guru", "Guru", "Guru", "Caucus"], [0, 1, 2, 9], random.Random(1))
        '"Guru" occurs mainly near the beginning. Near the beginning, activity is at its highest by far.'
    """
    if any('"' in name for name in names):
        raise DataError("the name of a type contains a quotation mark, which encloses names in descriptions; remove it")
    stated = chosen(facts(names, times), rng)
    sentences = [sentence(fact, rng, LINKS if place else OPENINGS, among) for place, fact in enumerate(stated)]
    if len(sentences) < FEWEST:
        raise DataError(f"only {len(sentences)} facts hold for a history of {len(names)} events; give a longer one")
    return " ".join(sentences)


def chosen(known: Sequence[Fact], rng: random.Random) -> list[Fact]:
    """Return the facts that a description states, in the order in which it states them.

    Args:
        known: All facts that hold.
        rng: Draws the facts.

    Example:
        >>> chosen([Fact("order", "begins", ("Guru",)), Fact("timing", "even")], random.Random(0))
        [Fact(topic='order', ...), Fact(topic='timing', ...)]
    """
    left: dict[str, dict[str, list[Fact]]] = {}
    for fact in known:
        left.setdefault(fact.topic, {}).setdefault(fact.kind, []).append(fact)
    topics = rng.sample(list(left), len(left))
    number, drawn = rng.randint(FEWEST, MOST), list[Fact]()
    while topics and len(drawn) < number:
        topic = topics.pop(0)
        full = sum(bool(fact.names) for fact in drawn) >= NAMED
        kinds = [kind for kind, members in left[topic].items() if not (full and members[0].names)]
        if kinds:
            drawn.append(rng.choice(left[topic].pop(rng.choice(kinds))))
            topics.append(topic)  # its turn comes again after the other topics
    return rng.sample(drawn, len(drawn))


def sentence(fact: Fact, rng: random.Random, links: Sequence[str] = (), among: slice = EVERY_WORDING) -> str:
    """Return a sentence that states a fact.

    Args:
        fact: What it states.
        rng: Draws the wording.
        links: The linking words that it may begin with.
        among: The wordings of each kind and part that are drawn from.

    Example:
        >>> sentence(Fact("trends", "gives_way", ("Caucus", "Guru")), random.Random(0))
        'The focus shifts from "Caucus" to "Guru".'
    """
    x, y = (f'"{name}"' for name in (*fact.names, "", "")[:2])
    part = rng.choice(PARTS[fact.part][among]) if fact.part else ""
    text = rng.choice(WORDINGS[fact.kind][among]).format(x=x, y=y, part=part)
    linked = f"{rng.choice(links)} {text}" if links and rng.random() < LINKED else text
    return f"{linked[0].upper()}{linked[1:]}."
