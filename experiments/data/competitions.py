"""The four data sets of Babaev et al. 2022, read from the files that their competitions publish.

The fields, the number of values with a code of their own, and the labels follow the paper's public code. Amounts are
raw; the schema transforms them by ``sign(x)·log(1 + |x|)``, as the code does. Entities without a label are part of the
data, since representations are learned on them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from eventvec.datasets.bundled import Frames, Labelled
from eventvec.errors import DataError
from eventvec.tables import Fitting, read
from experiments.data.prefixes import histories
from experiments.data.published_files import Published

AGE_GROUP = "https://ods.ai/competitions/sberbank-sirius-lesson"
ROSBANK = "https://boosters.pro/championship/rosbank1"
BOWL2019 = "https://www.kaggle.com/c/data-science-bowl-2019"
X5 = "https://ods.ai/competitions/x5-retailhero-uplift-modeling"

OTHER = "other"
ALL = Fitting(min_count=1)  # `capped` has replaced the rare values


def age_group(folder: str | Path | None = None) -> Labelled:
    """Return the card transactions of 50,000 bank clients by day, and the age group of 30,000 of them.

    The fields are `day` (800 codes), `small_group` (250) and `amount_rur`. As in the paper's code, `day` is the number
    of the day itself, which identifies periods of the calendar. Leave the field out where a model must not learn them.
    The label is `bins`, one of four age groups, null where it is not published.

    Args:
        folder: The folder with transactions_train.csv, transactions_test.csv and train_target.csv. The default is
            EVENTVEC_DATA/age_group.

    Raises:
        DataError: If a file or a column is absent, or a value cannot be read.

    Example:
        >>> data, labels = age_group("sirius")  # doctest: +SKIP
        >>> len(data), labels["bins"].count()  # doctest: +SKIP
        (50000, 30000)
    """
    events, labels = age_group_frames(folder)
    events = capped(events, {"day": 800, "small_group": 250})
    categorical, numeric = ("day", "small_group"), ("amount_rur",)
    data = read(events, key="client_id", time="trans_date", categorical=categorical, numeric=numeric, fitting=ALL)
    return data, labels


def age_group_frames(folder: str | Path | None = None) -> Frames:
    """Return the events and the labels of `age_group` as tables.

    Args:
        folder: The folder with the files, as for `age_group`.

    Raises:
        DataError: If a file or a column is absent, or a value cannot be read.

    Example:
        >>> events, labels = age_group_frames("sirius")  # doctest: +SKIP
    """
    source = Published("age_group", AGE_GROUP, folder)
    types = {"client_id": pl.Int64, "trans_date": pl.Int64, "small_group": pl.Int64, "amount_rur": pl.Float64}
    files = ("transactions_train.csv", "transactions_test.csv")
    events = pl.concat([source.collect(source.scan(file, types), file) for file in files])
    file = "train_target.csv"
    targets = source.collect(source.scan(file, {"client_id": pl.Int64, "bins": pl.Int64}), file)
    return events.with_columns(day="trans_date"), _with_unlabelled(events, targets, "client_id")


def rosbank(folder: str | Path | None = None) -> Labelled:
    """Return the card transactions of 10,217 bank clients, and which of 5,000 of them churned (Table 2, "Churn").

    The fields are `MCC` (100 codes), `channel_type` (4), `currency` (4), `trx_category` (10) and `amount`. According to
    the paper, the published table sums transactions of one type and month. The label is `target_flag`, 0 or 1 as
    published, null for the clients of test.csv. The column `target_sum` is not read because it belongs to the label.

    Args:
        folder: The folder with train.csv and test.csv. The default is EVENTVEC_DATA/rosbank.

    Raises:
        DataError: If a file or a column is absent, a value cannot be read, or a client has two labels.

    Example:
        >>> data, labels = rosbank("boosters")  # doctest: +SKIP
        >>> len(data), labels["target_flag"].count()  # doctest: +SKIP
        (10217, 5000)
    """
    events, labels = rosbank_frames(folder)
    caps = {"MCC": 100, "channel_type": 4, "currency": 4, "trx_category": 10}
    events = capped(events, caps)
    return read(events, key="cl_id", time="time", categorical=list(caps), numeric=["amount"], fitting=ALL), labels


def rosbank_frames(folder: str | Path | None = None) -> Frames:
    """Return the events and the labels of `rosbank` as tables; `time` is parsed from texts such as 21OCT17:00:00:00.

    Args:
        folder: The folder with the files, as for `rosbank`.

    Raises:
        DataError: If a file or a column is absent, a value cannot be read, or a client has two labels.

    Example:
        >>> events, labels = rosbank_frames("boosters")  # doctest: +SKIP
    """
    source = Published("rosbank", ROSBANK, folder)
    names = {"cl_id": pl.Int64, "MCC": pl.Int64, "channel_type": pl.String, "currency": pl.Int64}
    types = {**names, "TRDATETIME": pl.String, "amount": pl.Float64, "trx_category": pl.String}
    train = source.collect(source.scan("train.csv", {**types, "target_flag": pl.Int64}), "train.csv")
    test = source.collect(source.scan("test.csv", types), "test.csv")
    targets = train.select("cl_id", "target_flag").unique()
    if different := int(targets["cl_id"].is_duplicated().sum()):
        raise DataError(
            f"train.csv of rosbank must have one label per client, but has {different:,} different labels of the same "
            "clients"
        )
    events = pl.concat([train.drop("target_flag"), test])
    time = events["TRDATETIME"].str.to_datetime("%d%b%y:%H:%M:%S", strict=False)
    if wrong := time.null_count():
        raise DataError(f"TRDATETIME of rosbank must hold times such as 21OCT17:00:00:00, but {wrong:,} values are not")
    return events.drop("TRDATETIME").with_columns(time=time), _with_unlabelled(events, targets, "cl_id")


def bowl2019(folder: str | Path | None = None) -> Labelled:
    """Return what children did in a game before each of 17,690 assessments, and the outcomes of these assessments.

    A row is the history of an installation up to and including the event that starts an assessment. It shows which
    assessment follows, but nothing that happens in it. The key of a row is the `game_session` of the assessment. Rows
    of one installation overlap, and no event is copied. A split must keep them together, by `installation_id` in the
    labels (the paper's code does not). Installations without a labelled assessment, including those of test.csv, have
    one row each, with the session of their last event as its key. (The paper's text counts game sessions as sequences;
    its code reads histories, as this function does.)

    The fields are `event_id` (500 codes), `event_code` (50), `type` (6), `title` (50), `world` (6) and `correct` (4),
    which is the "true" or "false" in `event_data`, if any. The labels are `installation_id`, `timestamp` (the end of
    the row) and `accuracy_group`, 0 to 3, null where it is not published.

    Args:
        folder: The folder with train.csv, test.csv and train_labels.csv. The default is EVENTVEC_DATA/bowl2019.

    Raises:
        DataError: If a file or a column is absent, a value cannot be read, or a labelled assessment never starts.

    Example:
        >>> data, labels = bowl2019("kaggle")  # doctest: +SKIP
        >>> labels["accuracy_group"].count()  # doctest: +SKIP
        17690
    """
    events, labels = bowl2019_frames(folder)
    caps = {"event_id": 500, "event_code": 50, "type": 6, "title": 50, "world": 6, "correct": 4}
    events = capped(events, caps)
    data = read(events, key="installation_id", time="timestamp", categorical=list(caps), numeric=[], fitting=ALL)
    return histories(data, labels, name="game_session", time="timestamp"), labels


def bowl2019_frames(folder: str | Path | None = None) -> Frames:
    """Return the events (whole histories of installations) and the labels of `bowl2019` as tables.

    Args:
        folder: The folder with the files, as for `bowl2019`.

    Raises:
        DataError: If a file or a column is absent, a value cannot be read, or a labelled assessment never starts.

    Example:
        >>> events, labels = bowl2019_frames("kaggle")  # doctest: +SKIP
    """
    source = Published("bowl2019", BOWL2019, folder)
    texts = ("installation_id", "game_session", "timestamp", "event_id", "event_data", "event_code")
    types = dict.fromkeys((*texts, "type", "title", "world"), pl.String)
    correct = pl.col("event_data").str.extract(r'"correct":\s*(true|false)').alias("correct")
    time = pl.col("timestamp").str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%#z", time_unit="us")
    files = ("train.csv", "test.csv")
    parts = [source.scan(file, types).with_columns(correct, time).drop("event_data") for file in files]
    events = pl.concat([source.collect(part, file) for part, file in zip(parts, files, strict=True)])
    label_types = {"game_session": pl.String, "accuracy_group": pl.Int64}
    targets = source.collect(source.scan("train_labels.csv", label_types), "train_labels.csv")
    starts = (
        events.filter(pl.col("type") == "Assessment", pl.col("event_code") == "2000")
        .group_by("game_session")
        .agg(pl.first("installation_id"), pl.col("timestamp").min())
    )
    labelled = targets.join(starts, on="game_session", how="left")
    if absent := labelled["timestamp"].null_count():
        raise DataError(
            "every labelled assessment of bowl2019 needs an event of type Assessment and code 2000, but "
            f"{absent:,} of {len(labelled):,} have none"
        )
    unlabelled = events.join(labelled, on="installation_id", how="anti").sort("timestamp", maintain_order=True)
    ends = unlabelled.group_by("installation_id").agg(pl.last("game_session"), pl.last("timestamp"))
    columns = ["game_session", "installation_id", "timestamp", "accuracy_group"]
    labels = pl.concat([labelled, ends], how="diagonal").select(columns)
    return events.drop("game_session"), labels.sort("game_session")


def x5(folder: str | Path | None = None) -> Labelled:
    """Return the receipt lines of 400,000 customers of a supermarket, and the customers' age groups.

    The fields are `level_3` (200 codes), `level_4` (800) and `segment_id` (120) of the product, `trn_sum_from_iss`
    (roubles), `netto` (kg) and `regular_points_received`. Lines of one receipt have the same time. The label is
    `age_group`: 0 below 35 years, 1 below 45, 2 below 60, else 3. It is null for ages below 10 or above 90, which the
    paper leaves out.

    Args:
        folder: The folder with clients.csv, purchases.csv and products.csv. The default is EVENTVEC_DATA/x5.

    Raises:
        DataError: If a file or a column is absent, or a value cannot be read.

    Example:
        >>> data, labels = x5("retailhero")  # doctest: +SKIP
    """
    events, labels = x5_frames(folder)
    caps = {"level_3": 200, "level_4": 800, "segment_id": 120}
    numeric = ["trn_sum_from_iss", "netto", "regular_points_received"]
    time, events = "transaction_datetime", capped(events, caps)
    return read(events, key="client_id", time=time, categorical=list(caps), numeric=numeric, fitting=ALL), labels


def x5_frames(folder: str | Path | None = None) -> Frames:
    """Return the events and the labels of `x5` as tables.

    Args:
        folder: The folder with the files, as for `x5`.

    Raises:
        DataError: If a file or a column is absent, or a value cannot be read.

    Example:
        >>> events, labels = x5_frames("retailhero")  # doctest: +SKIP
    """
    source = Published("x5", X5, folder)
    keys = {"client_id": pl.String, "transaction_datetime": pl.String, "product_id": pl.String}
    lines = source.scan(
        "purchases.csv", {**keys, "trn_sum_from_iss": pl.Float64, "regular_points_received": pl.Float64}
    )
    texts = dict.fromkeys(("product_id", "level_3", "level_4", "segment_id"), pl.String)
    products = source.scan("products.csv", {**texts, "netto": pl.Float64})
    time = pl.col("transaction_datetime").str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us")
    joined = lines.join(products, on="product_id", how="left", maintain_order="left").drop("product_id")
    events = source.collect(joined.with_columns(time), "purchases.csv")
    clients = source.collect(source.scan("clients.csv", {"client_id": pl.String, "age": pl.Float64}), "clients.csv")
    age = pl.col("age")
    group = pl.when(age.is_between(10, 90)).then((age >= 35).cast(pl.Int64) + (age >= 45) + (age >= 60))
    return events, _with_unlabelled(events, clients.select("client_id", age_group=group), "client_id")


def capped(events: pl.DataFrame, caps: Mapping[str, int]) -> pl.DataFrame:
    """Return the events with rare values replaced, so that each column has as many codes as in the paper's code.

    With a limit of c codes, code 0 is padding, the c − 2 most frequent values have a code each (ties are broken by the
    value), and all other values share the last code. Missing values stay missing.
    """
    for name, cap in caps.items():
        counts = events[name].drop_nulls().value_counts().sort(["count", name], descending=[True, False])
        frequent, column = counts[name][: cap - 2], pl.col(name)
        text = column.cast(pl.String)
        rare = column.is_not_null() & ~column.is_in(frequent.to_list())
        events = events.with_columns(pl.when(rare).then(pl.lit(OTHER)).otherwise(text).alias(name))
    return events


def _with_unlabelled(events: pl.DataFrame, targets: pl.DataFrame, key: str) -> pl.DataFrame:
    """Return one row per entity with events: its key, and its label or null."""
    return events.select(key).unique().join(targets, on=key, how="left").sort(key)
