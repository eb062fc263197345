"""Real data sets that the experiments read from files in the folder that EVENTVEC_DATA names.

::

    shops        online_retail
    medicine     physionet2012, nafld, pbc
    machines     cmapss, uci_hapt
    changelogs   debian_changelogs
    competitions the data sets of Babaev et al. 2022, from competition files: age_group, rosbank, bowl2019, x5
    prefixes     rows that each end at a time within a history, several per entity
    data_folder  the folder with the files

For each set, `…_frames` returns the raw events and the labels, and the function without that ending returns the same
events as read by `eventvec.read`, with the labels. The table of labels has one row per entity, null where the label is
missing, and its first column is the key. `…_times` returns labels at several times of each history.
"""

from __future__ import annotations

from experiments.data.changelogs import debian_changelogs, debian_changelogs_frames, plain_words
from experiments.data.competitions import (
    age_group,
    age_group_frames,
    bowl2019,
    bowl2019_frames,
    rosbank,
    rosbank_frames,
    x5,
    x5_frames,
)
from experiments.data.machines import (
    CMAPSS_FILES,
    HAPT_CHANNELS,
    cmapss,
    cmapss_frames,
    cmapss_times,
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
    pbc_times,
    physionet2012,
    physionet2012_frames,
)
from experiments.data.shops import online_retail, online_retail_frames

__all__ = [
    "CMAPSS_FILES",
    "HAPT_CHANNELS",
    "PBC_FINDINGS",
    "age_group",
    "age_group_frames",
    "bowl2019",
    "bowl2019_frames",
    "cmapss",
    "cmapss_frames",
    "cmapss_times",
    "debian_changelogs",
    "debian_changelogs_frames",
    "nafld",
    "nafld_frames",
    "online_retail",
    "online_retail_frames",
    "pbc",
    "pbc_frames",
    "pbc_times",
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
