"""Real data sets that the experiments read from Parquet files in the folder that EVENTVEC_DATA names.

::

    shops     online_retail
    medicine  physionet2012, nafld, pbc
    machines  cmapss, uci_hapt
    texts     debian_changelogs
    folders   where the files are looked for

Of each set, `…_frames` gives the raw events and the labels, and the function without that ending the same events as
read by `eventvec.read`. Labels have one row per entity, null where an entity has none, and start with the key column.
`…_moments` gives labels at several times of each history.
"""

from __future__ import annotations

from experiments.data.machines import (
    CMAPSS_FILES,
    HAPT_CHANNELS,
    cmapss,
    cmapss_frames,
    cmapss_moments,
    uci_hapt,
    uci_hapt_features,
    uci_hapt_frames,
)
from experiments.data.medicine import (
    PBC_FINDINGS,
    nafld,
    nafld_frames,
    pbc,
    pbc_frames,
    pbc_moments,
    physionet2012,
    physionet2012_frames,
)
from experiments.data.shops import online_retail, online_retail_frames
from experiments.data.texts import debian_changelogs, debian_changelogs_frames, plain_words

__all__ = [
    "CMAPSS_FILES",
    "HAPT_CHANNELS",
    "PBC_FINDINGS",
    "cmapss",
    "cmapss_frames",
    "cmapss_moments",
    "debian_changelogs",
    "debian_changelogs_frames",
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
    "uci_hapt",
    "uci_hapt_features",
    "uci_hapt_frames",
]
