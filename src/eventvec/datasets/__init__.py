"""Real public data sets as `Dataset` and labels.

::

    bundled    flights out of New York, inside the package
    shops      online_retail, completejourney
    medicine   physionet2012, nafld, pbc
    machines   cmapss, uci_hapt
    texts      debian_changelogs
    published  age_group, rosbank, bowl2019, x5: those of Babaev et al. 2022, in the files of their competitions
    moments    rows that end at moments of a history, several for one entity
    places     where files are looked for

Nothing is downloaded: what does not lie inside the package is read from the folder that the variable EVENTVEC_DATA
names, `completejourney` from a package of data that is installed. Of each set, `…_frames` gives the raw events and the
labels, and the function without that ending the same events as read by `tables.read`. Labels have one row per entity,
null where an entity has none, and start with the key column.
`…_moments` gives labels at several moments of each history; `histories` makes the rows that belong to them.
"""

from __future__ import annotations

from eventvec.datasets.bundled import aircraft, flights, flights_frames
from eventvec.datasets.machines import (
    CMAPSS_FILES,
    HAPT_CHANNELS,
    cmapss,
    cmapss_frames,
    cmapss_moments,
    uci_hapt,
    uci_hapt_features,
    uci_hapt_frames,
)
from eventvec.datasets.medicine import (
    PBC_FINDINGS,
    nafld,
    nafld_frames,
    pbc,
    pbc_frames,
    pbc_moments,
    physionet2012,
    physionet2012_frames,
)
from eventvec.datasets.moments import histories
from eventvec.datasets.published import (
    age_group,
    age_group_frames,
    bowl2019,
    bowl2019_frames,
    capped,
    rosbank,
    rosbank_frames,
    x5,
    x5_frames,
)
from eventvec.datasets.shops import completejourney, completejourney_frames, online_retail, online_retail_frames
from eventvec.datasets.texts import debian_changelogs, debian_changelogs_frames, plain_words

__all__ = [
    "CMAPSS_FILES",
    "HAPT_CHANNELS",
    "PBC_FINDINGS",
    "age_group",
    "age_group_frames",
    "aircraft",
    "bowl2019",
    "bowl2019_frames",
    "capped",
    "cmapss",
    "cmapss_frames",
    "cmapss_moments",
    "completejourney",
    "completejourney_frames",
    "debian_changelogs",
    "debian_changelogs_frames",
    "flights",
    "flights_frames",
    "histories",
    "nafld",
    "nafld_frames",
    "online_retail",
    "online_retail_frames",
    "pbc",
    "pbc_frames",
    "pbc_moments",
    "physionet2012",
    "physionet2012_frames",
    "plain_words",
    "rosbank",
    "rosbank_frames",
    "uci_hapt",
    "uci_hapt_features",
    "uci_hapt_frames",
    "x5",
    "x5_frames",
]
