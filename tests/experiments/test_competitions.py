"""The four data sets of the CoLES paper, from small files in the formats of the competitions and from a real sample."""

from __future__ import annotations

import datetime
import gzip
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from experiments.data.competitions import capped

from disk import csv
from eventvec.errors import DataError
from experiments import data as datasets

# age group


@pytest.fixture
def sirius(folder: Path) -> Path:
    header, rows = (
        "client_id,trans_date,small_group,amount_rur",
        ["33172,6,4,71.463", "33172,6,35,45.017", "7,0,4,-3.5"],
    )
    csv(folder / "age_group/transactions_train.csv", header, rows)
    csv(folder / "age_group/transactions_test.csv", header, ["90,729,203,1e3"])
    csv(folder / "age_group/train_target.csv", '"client_id","bins"', ["7,3", "33172,2", "55,0"])  # 55 has no events
    csv(folder / "age_group/small_group_description.csv", "small_group,small_group_code", ["4,dining"])
    return folder / "age_group"


def test_age_group_joins_both_files_and_keeps_clients_without_a_label(sirius: Path) -> None:
    data, labels = datasets.age_group()
    assert labels.rows() == [(7, 3), (90, None), (33172, 2)]
    assert data.keys.to_pylist() == [7, 90, 33172]
    assert data.sequences.values("amount_rur").tolist() == pytest.approx([-3.5, 1000, 71.463, 45.017])
    assert [(field.name, field.values) for field in data.schema.categorical] == [
        ("day", ("6", "0", "729")),
        ("small_group", ("4", "203", "35")),
    ]
    assert [(field.name, field.log) for field in data.schema.numeric] == [("amount_rur", True)]


def test_a_folder_can_be_passed_and_files_can_be_compressed(sirius: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = datasets.age_group_frames()
    for file in sirius.glob("*.csv"):
        (sirius / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    monkeypatch.delenv("EVENTVEC_DATA")
    for one, other in zip(datasets.age_group_frames(sirius), plain, strict=True):
        assert one.equals(other)


@pytest.mark.data
def test_age_group_on_a_real_sample(tmp_path: Path) -> None:
    real = Path(os.environ["EVENTVEC_DATA"]) / "sber_age_sample"
    events, targets = (pl.read_parquet(real / f"{name}.parquet") for name in ("transactions", "labels"))
    test = targets.head(10)
    events.join(test, on="client_id", how="anti").write_csv(tmp_path / "transactions_train.csv")
    events.join(test, on="client_id", how="semi").write_csv(tmp_path / "transactions_test.csv")
    targets.tail(90).write_csv(tmp_path / "train_target.csv")
    data, labels = datasets.age_group(tmp_path)
    assert (len(data), data.sequences.total, labels["bins"].count()) == (100, 1_000, 90)
    assert sorted(labels.drop_nulls().rows()) == sorted(targets.tail(90).rows())
    one = events.filter(client_id=data.keys[0].as_py()).sort("trans_date", maintain_order=True)
    assert data[[0]].sequences.values("amount_rur").tolist() == pytest.approx(one["amount_rur"].to_list(), rel=1e-6)


# churn

BANK = "PERIOD,cl_id,MCC,channel_type,currency,TRDATETIME,amount,trx_category"


@pytest.fixture
def bank(folder: Path) -> Path:
    train = [
        "01/10/2017,5,5200,,810,21OCT17:00:00:00,5023.0,POS,0,0.0",
        "01/10/2017,5,6011,type1,810,12OCT17:12:24:07,20000.0,DEPOSIT,0,0.0",
        "01/02/2017,9,5921,type2,978,28FEB17:23:59:59,767.5,POS,1,20291.2",
    ]
    csv(folder / "rosbank/train.csv", f"{BANK},target_flag,target_sum", train)
    csv(folder / "rosbank/test.csv", BANK, ["01/06/2017,2,5411,type1,810,02JUN17:08:00:00,12.0,WD_ATM_ROS"])
    return folder / "rosbank"


def test_rosbank_parses_dates_and_leaves_test_clients_without_a_label(bank: Path) -> None:
    data, labels = datasets.rosbank()
    assert labels.rows() == [(2, None), (5, 0), (9, 1)]
    assert data.keys.to_pylist() == [2, 5, 9]
    day = datetime.datetime
    expected = [day(2017, 6, 2, 8), day(2017, 10, 12, 12, 24, 7), day(2017, 10, 21), day(2017, 2, 28, 23, 59, 59)]
    times = [day(1970, 1, 1) + datetime.timedelta(microseconds=t) for t in data.sequences.values("time").tolist()]
    assert times == expected
    assert data.sequences.values("amount").tolist() == [12.0, 20000.0, 5023.0, 767.5]
    assert data.sequences.values("channel_type").tolist()[2] == 0  # missing
    assert [field.name for field in data.schema.categorical] == ["MCC", "channel_type", "currency", "trx_category"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "21OCT17:00",
            "2017-10-21 00",
            "TRDATETIME of rosbank must hold times such as 21OCT17:00:00:00, but 1 val",
        ),
        ("767.5", "767,5", "train.csv of rosbank"),
        ("767.5", "abc", "column 'amount' of train.csv of rosbank contains a value that cannot be read"),
        ("DEPOSIT,0", "DEPOSIT,1", "one label per client, but has 2 different labels of the same clients"),
        ("MCC", "MCC_CODE", "train.csv of rosbank has no column 'MCC'; accepted: MCC_CODE"),
    ],
)
def test_rosbank_files_that_are_not_as_published_are_refused(bank: Path, old: str, new: str, message: str) -> None:
    file = bank / "train.csv"
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(DataError, match=message):
        datasets.rosbank()


# assessment

GAME = "event_id,game_session,timestamp,event_data,installation_id,event_count,event_code,game_time,title,type,world"


def play(session: str, second: float, child: str, code: int, kind: str, data: str = "{}", title: str = "Bowls") -> str:
    quoted = data.replace('"', '""')
    time = f"2019-08-06T05:00:{second:06.3f}Z"
    return f'27253bdc,{session},{time},"{quoted}",{child},1,{code},0,{title},{kind},NONE'


@pytest.fixture
def game(folder: Path) -> Path:
    clip, right, wrong = '{"event_code": 2000}', '{"correct":true,"event_code":4100}', '{"correct":false}'
    train = [
        play("45bb1e1b6b50c07b", 1, "0001e90f", 2000, "Clip", clip),
        play("1e00000000000000", 3, "0001e90f", 2000, "Assessment", clip),  # the first; looks like a number
        play("1e00000000000000", 4, "0001e90f", 4100, "Assessment", wrong),
        play("1e00000000000000", 4.5, "0001e90f", 4100, "Assessment", right),
        play("a000000000000000", 7.25, "0001e90f", 2000, "Assessment", clip, "Carts"),  # the second
        play("a000000000000000", 9, "0001e90f", 4100, "Assessment", right),
        play("c000000000000000", 5, "00000009", 2000, "Game", clip),  # never assessed
        play("b000000000000000", 6, "00000009", 3010, "Game", clip),
    ]
    test = [play("d000000000000000", 2, "00abaee7", 2000, "Assessment", clip)]  # cut off at the start
    csv(folder / "bowl2019/train.csv", GAME, train)
    csv(folder / "bowl2019/test.csv", GAME, test)
    header = "game_session,installation_id,title,num_correct,num_incorrect,accuracy,accuracy_group"
    targets = ["1e00000000000000,0001e90f,Bowls,1,1,0.5,2", "a000000000000000,0001e90f,Carts,1,0,1.0,3"]
    csv(folder / "bowl2019/train_labels.csv", header, targets)
    return folder / "bowl2019"


def test_bowl2019_rows_end_with_the_start_of_each_assessment(game: Path) -> None:
    data, labels = datasets.bowl2019()
    assert labels.drop("timestamp").rows() == [
        ("1e00000000000000", "0001e90f", 2),
        ("a000000000000000", "0001e90f", 3),
        ("b000000000000000", "00000009", None),  # the key is its last session
        ("d000000000000000", "00abaee7", None),
    ]
    assert data.keys.to_pylist() == labels["game_session"].to_list()
    assert data.sequences.lengths.tolist() == [2, 5, 2, 1]
    correct = next(field for field in data.schema.categorical if field.name == "correct")
    codes = data[[1]].sequences.values("correct").tolist()
    assert [None if code == 0 else correct.values[code - 2] for code in codes] == [None, None, "false", "true", None]
    assert set(correct.values) == {"true", "false"}
    assert data.sequences.columns["time"].shape == (9,)  # the two rows of one child share events


def test_bowl2019_refuses_an_assessment_that_never_starts(game: Path) -> None:
    file = game / "train_labels.csv"
    file.write_text(file.read_text().replace("a000000000000000", "a000000000000001"))
    with pytest.raises(DataError, match=r"every labelled assessment .* needs an event .*, but 1 of 2 have none"):
        datasets.bowl2019()


# retail


@pytest.fixture
def supermarket(folder: Path) -> Path:
    header = (
        "client_id,transaction_id,transaction_datetime,regular_points_received,express_points_received,"
        "regular_points_spent,express_points_spent,purchase_sum,store_id,product_id,product_quantity,"
        "trn_sum_from_iss,trn_sum_from_red"
    )
    lines = [
        "000012768d,7e3e2e3984,2018-12-01 07:12:45,10.0,0.0,0.0,0.0,1007.0,54a4a11a29,9a80204f78,2.0,80.0,",
        "000012768d,7e3e2e3984,2018-12-01 07:12:45,10.0,0.0,0.0,0.0,1007.0,54a4a11a29,unknown,1.0,65.0,60.0",
        "1e10,aaaaaaaaaa,2019-03-18 22:00:01,0.5,0.0,-3.0,0.0,5.0,54a4a11a29,1e00000001,1.0,5.0,",
    ]
    csv(folder / "x5/purchases.csv", header, lines)
    header = (
        "product_id,level_1,level_2,level_3,level_4,segment_id,brand_id,vendor_id,netto,is_own_trademark,is_alcohol"
    )
    products = ["9a80204f78,e3,ed,07,b2,113.0,b2,,0.15,0,0", "1e00000001,e3,ed,1e2,b9,,b2,,1.0,0,1"]
    csv(folder / "x5/products.csv", header, products)
    clients = ["000012768d,2017-08-05 15:40:48,2018-01-04 19:30:07,45,U", "1e10,2017-04-10 13:54:23,,91,F"]
    csv(folder / "x5/clients.csv", "client_id,first_issue_date,first_redeem_date,age,gender", clients)
    return folder / "x5"


def test_x5_lines_are_joined_with_products_and_impossible_ages_are_not_labels(supermarket: Path) -> None:
    data, labels = datasets.x5()
    assert labels.rows() == [("000012768d", 2), ("1e10", None)]
    assert data.keys.to_pylist() == ["000012768d", "1e10"]
    assert data.sequences.values("trn_sum_from_iss").tolist() == [80.0, 65.0, 5.0]
    assert np.isnan(data.sequences.values("netto").tolist()).tolist() == [False, True, False]  # an unknown product
    assert data.schema.categorical[0].values == ("07", "1e2")  # texts, not numbers
    assert data.sequences.values("segment_id").tolist() == [2, 0, 0]


def test_x5_age_groups_have_the_bounds_of_the_paper(supermarket: Path) -> None:
    file, labels = supermarket / "clients.csv", {}
    text = file.read_text()
    for age in ("9", "10", "34", "35", "44", "45", "59", "60", "90", "91", "-7491", ""):
        file.write_text(text.replace(",45,U", f",{age},U"))
        labels[age] = datasets.x5_frames()[1]["age_group"][0]
    groups = {"10": 0, "34": 0, "35": 1, "44": 1, "45": 2, "59": 2, "60": 3, "90": 3}
    assert labels == {**dict.fromkeys(("9", "91", "-7491", "")), **groups}


# shared by all data sets


def test_capped_keeps_the_most_frequent_values() -> None:
    rng = np.random.default_rng(0)
    values = [None if value == 3 else int(value) for value in rng.geometric(0.2, 200)]
    counts = Counter(value for value in values if value is not None)
    frequent = sorted(counts, key=lambda value: (-counts[value], value))[:4]
    expected = [None if v is None else str(v) if v in frequent else "other" for v in values]
    assert capped(pl.DataFrame({"mcc": values}), {"mcc": 6})["mcc"].to_list() == expected


@pytest.mark.parametrize("load", [datasets.age_group, datasets.rosbank, datasets.bowl2019, datasets.x5])
def test_a_missing_file_is_refused_with_its_origin_and_folder(
    load: Callable[..., object], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = load.__name__
    with pytest.raises(
        DataError, match=rf"{name} needs \w+.csv, but the folder {folder}/{name} does not contain it.*https"
    ):
        load()
    with pytest.raises(DataError, match=rf"the folder {folder}/mine does not contain it"):
        load(folder / "mine")
    monkeypatch.delenv("EVENTVEC_DATA")
    with pytest.raises(DataError, match=rf"no folder is given and EVENTVEC_DATA is not set; .* EVENTVEC_DATA/{name}"):
        load()
