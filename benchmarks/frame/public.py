"""Public data sets divided between parties, with bounds that are common knowledge.

The files are not part of the checkout. Each loader takes the path of the Parquet file or of its folder. Without a path, the
environment variable COLONNADE_DATA names the folder.

Bounds are declared, not taken from the rows. Adult, Letter and King County house sales are census, optical-character and county
records with documented ranges. The NSL-KDD bounds are what an operator would declare for a connection log.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from colonnade.errors import BadInput
from colonnade.schema import Category, Numeric, Schema

__all__ = ["DATA_VARIABLE", "PublicData", "adult", "kc_house", "letter", "nsl_kdd"]

DATA_VARIABLE = "COLONNADE_DATA"
PERSON = "person"

# The categories that the data sets document, in alphabetical order.
ADULT_EDUCATION = (
    "Preschool",
    "1st-4th",
    "5th-6th",
    "7th-8th",
    "9th",
    "10th",
    "11th",
    "12th",
    "HS-grad",
    "Some-college",
    "Assoc-voc",
    "Assoc-acdm",
    "Bachelors",
    "Masters",
    "Prof-school",
    "Doctorate",
)
ADULT_WORKCLASS = (
    "Federal-gov",
    "Local-gov",
    "Never-worked",
    "Private",
    "Self-emp-inc",
    "Self-emp-not-inc",
    "State-gov",
    "Without-pay",
)
ADULT_MARITAL = (
    "Divorced",
    "Married-AF-spouse",
    "Married-civ-spouse",
    "Married-spouse-absent",
    "Never-married",
    "Separated",
    "Widowed",
)
ADULT_OCCUPATION = (
    "Adm-clerical",
    "Armed-Forces",
    "Craft-repair",
    "Exec-managerial",
    "Farming-fishing",
    "Handlers-cleaners",
    "Machine-op-inspct",
    "Other-service",
    "Priv-house-serv",
    "Prof-specialty",
    "Protective-serv",
    "Sales",
    "Tech-support",
    "Transport-moving",
)
ADULT_RELATIONSHIP = ("Husband", "Not-in-family", "Other-relative", "Own-child", "Unmarried", "Wife")
ADULT_RACE = ("Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White")
ADULT_COUNTRY = (
    "Cambodia",
    "Canada",
    "China",
    "Columbia",
    "Cuba",
    "Dominican-Republic",
    "Ecuador",
    "El-Salvador",
    "England",
    "France",
    "Germany",
    "Greece",
    "Guatemala",
    "Haiti",
    "Holand-Netherlands",
    "Honduras",
    "Hong",
    "Hungary",
    "India",
    "Iran",
    "Ireland",
    "Italy",
    "Jamaica",
    "Japan",
    "Laos",
    "Mexico",
    "Nicaragua",
    "Outlying-US(Guam-USVI-etc)",
    "Peru",
    "Philippines",
    "Poland",
    "Portugal",
    "Puerto-Rico",
    "Scotland",
    "South",
    "Taiwan",
    "Thailand",
    "Trinadad&Tobago",
    "United-States",
    "Vietnam",
    "Yugoslavia",
)
KDD_FLAG = ("OTH", "REJ", "RSTO", "RSTOS0", "RSTR", "S0", "S1", "S2", "S3", "SF", "SH")
KDD_SERVICE = (
    "IRC",
    "X11",
    "Z39_50",
    "aol",
    "auth",
    "bgp",
    "courier",
    "csnet_ns",
    "ctf",
    "daytime",
    "discard",
    "domain",
    "domain_u",
    "echo",
    "eco_i",
    "ecr_i",
    "efs",
    "exec",
    "finger",
    "ftp",
    "ftp_data",
    "gopher",
    "harvest",
    "hostnames",
    "http",
    "http_2784",
    "http_443",
    "http_8001",
    "imap4",
    "iso_tsap",
    "klogin",
    "kshell",
    "ldap",
    "link",
    "login",
    "mtp",
    "name",
    "netbios_dgm",
    "netbios_ns",
    "netbios_ssn",
    "netstat",
    "nnsp",
    "nntp",
    "ntp_u",
    "other",
    "pm_dump",
    "pop_2",
    "pop_3",
    "printer",
    "private",
    "red_i",
    "remote_job",
    "rje",
    "shell",
    "smtp",
    "sql_net",
    "ssh",
    "sunrpc",
    "supdup",
    "systat",
    "telnet",
    "tftp_u",
    "tim_i",
    "time",
    "urh_i",
    "urp_i",
    "uucp",
    "uucp_path",
    "vmnet",
    "whois",
)


@dataclass(frozen=True, eq=False)
class PublicData:
    """A public table, and one way to divide its columns between parties.

    Parameters
    ----------
    name
        The name of the data set.
    frame
        All rows, with a ``person`` column that numbers them.
    schemas
        For each party its columns with declared public bounds.
    target
        The usual target, as ``"party.column"``.
    """

    name: str
    frame: pd.DataFrame
    schemas: Mapping[str, Schema]
    target: str

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return each party's own table: the ``person`` column and its columns, nothing else."""
        return {party: self.frame[[PERSON, *schema]] for party, schema in self.schemas.items()}


def adult(path: str | os.PathLike[str] | None = None) -> PublicData:
    """Adult / Census Income: the 45,222 complete rows, in four parties; the target is an income above 50,000."""
    frame = _read(path, "adult.parquet").drop(columns="split").dropna()
    schemas = {
        "registry": Schema(
            {
                "age": Numeric(17, 90, integer=True),
                "sex": Category(("Female", "Male")),
                "race": Category(ADULT_RACE),
                "marital-status": Category(ADULT_MARITAL),
                "relationship": Category(ADULT_RELATIONSHIP),
                "native-country": Category(ADULT_COUNTRY),
            }
        ),
        "school": Schema(
            {
                "education": Category(ADULT_EDUCATION),
                "education-num": Numeric(1, 16, integer=True),
                "fnlwgt": Numeric(0, 1_500_000, integer=True),
            }
        ),
        "employer": Schema(
            {
                "workclass": Category(ADULT_WORKCLASS),
                "occupation": Category(ADULT_OCCUPATION),
                "hours-per-week": Numeric(1, 99, integer=True),
            }
        ),
        "tax": Schema(
            {
                "capital-gain": Numeric(0, 99_999, integer=True),
                "capital-loss": Numeric(0, 5_000, integer=True),
                "income": Category(("<=50K", ">50K")),
            }
        ),
    }
    return _numbered("adult", frame, schemas, "tax.income")


def nsl_kdd(path: str | os.PathLike[str] | None = None) -> PublicData:
    """NSL-KDD connection records, training and test rows together, in four parties; the target is ``attack``."""
    frame = _read(path, "nsl_kdd.parquet").drop(columns=["difficulty", "split"])
    frame["attack"] = frame.pop("label").ne("normal").map({False: "no", True: "yes"})
    rate = Numeric(0, 1)
    flag = Numeric(0, 1, integer=True)
    few = Numeric(0, 5, integer=True)
    schemas = {
        "router": Schema(
            duration=Numeric(0, 60_000, integer=True),
            protocol_type=Category(("icmp", "tcp", "udp")),
            service=Category(KDD_SERVICE),
            flag=Category(KDD_FLAG),
            src_bytes=Numeric(0, 65_535, integer=True),
            dst_bytes=Numeric(0, 65_535, integer=True),
            land=flag,
            wrong_fragment=few,
            urgent=few,
        ),
        "host": Schema(
            hot=Numeric(0, 100, integer=True),
            num_failed_logins=few,
            logged_in=flag,
            num_compromised=Numeric(0, 1_000, integer=True),
            root_shell=flag,
            su_attempted=few,
            num_root=Numeric(0, 1_000, integer=True),
            num_file_creations=Numeric(0, 100, integer=True),
            num_shells=few,
            num_access_files=Numeric(0, 10, integer=True),
            num_outbound_cmds=few,
            is_host_login=flag,
            is_guest_login=flag,
        ),
        "sensor": Schema(
            count=Numeric(0, 511, integer=True),
            srv_count=Numeric(0, 511, integer=True),
            **dict.fromkeys(
                ("serror_rate", "srv_serror_rate", "rerror_rate", "srv_rerror_rate", "same_srv_rate", "diff_srv_rate"),
                rate,
            ),
            srv_diff_host_rate=rate,
        ),
        "monitor": Schema(
            dst_host_count=Numeric(0, 255, integer=True),
            dst_host_srv_count=Numeric(0, 255, integer=True),
            **dict.fromkeys(
                (
                    "dst_host_same_srv_rate",
                    "dst_host_diff_srv_rate",
                    "dst_host_same_src_port_rate",
                    "dst_host_srv_diff_host_rate",
                    "dst_host_serror_rate",
                    "dst_host_srv_serror_rate",
                    "dst_host_rerror_rate",
                    "dst_host_srv_rerror_rate",
                ),
                rate,
            ),
            attack=Category(("no", "yes")),
        ),
    }
    return _numbered("nsl_kdd", frame, schemas, "monitor.attack")


def letter(path: str | os.PathLike[str] | None = None) -> PublicData:
    """Letter Recognition: 16 whole numbers from 0 to 15, in three parties; the target is one of 26 letters."""
    frame = _read(path, "letter.parquet")
    column = Numeric(0, 15, integer=True)
    schemas = {
        "box": Schema(dict.fromkeys(("x-box", "y-box", "width", "high", "onpix"), column)),
        "moments": Schema(dict.fromkeys(("x-bar", "y-bar", "x2bar", "y2bar", "xybar", "x2ybr", "xy2br"), column)),
        "edges": Schema(
            {
                **dict.fromkeys(("x-ege", "xegvy", "y-ege", "yegvx"), column),
                "lettr": Category(tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")),
            }
        ),
    }
    return _numbered("letter", frame, schemas, "edges.lettr")


def kc_house(path: str | os.PathLike[str] | None = None) -> PublicData:
    """House sales in King County in three parties; the target is the price. Dates and post codes are left out."""
    frame = _read(path, "kc_house.parquet").drop(columns=["id", "date", "zipcode"])
    area = Numeric(0, 15_000, integer=True)
    land = Numeric(0, 2_000_000, integer=True)
    schemas = {
        "assessor": Schema(
            sqft_living=area,
            sqft_lot=land,
            sqft_above=area,
            sqft_basement=Numeric(0, 6_000, integer=True),
            grade=Numeric(1, 13, integer=True),
            condition=Numeric(1, 5, integer=True),
            yr_built=Numeric(1900, 2015, integer=True),
            yr_renovated=Numeric(0, 2015, integer=True),
        ),
        "agent": Schema(
            bedrooms=Numeric(0, 35, integer=True),
            bathrooms=Numeric(0, 10),
            floors=Numeric(1, 4),
            waterfront=Numeric(0, 1, integer=True),
            view=Numeric(0, 4, integer=True),
            price=Numeric(0, 8_000_000),
        ),
        "map": Schema(lat=Numeric(47, 48), long=Numeric(-123, -121), sqft_living15=area, sqft_lot15=land),
    }
    return _numbered("kc_house", frame, schemas, "agent.price")


def _read(path: str | os.PathLike[str] | None, name: str) -> pd.DataFrame:
    given = path if path is not None else os.environ.get(DATA_VARIABLE)
    place = None if given is None else Path(given)
    if place is not None and place.is_dir():
        place = place / name
    if place is None or not place.is_file():
        raise BadInput(
            f"The data file {name} was not found.",
            remedy=f"Pass the path of the file or of its folder, or set {DATA_VARIABLE} to the folder.",
        )
    try:
        return pd.read_parquet(place)
    except (OSError, ValueError) as error:
        raise BadInput(f"The data file {name} cannot be read as Parquet.", remedy="Download it again.") from error


def _numbered(name: str, frame: pd.DataFrame, schemas: Mapping[str, Schema], target: str) -> PublicData:
    missing = [column for schema in schemas.values() for column in schema if column not in frame.columns]
    if missing:
        raise BadInput(
            f"The file of {name} lacks {len(missing)} columns, such as {missing[0]!r}.", remedy="Download it again."
        )
    numbered = frame.reset_index(drop=True)
    numbered.insert(0, PERSON, range(len(numbered)))
    return PublicData(name, numbered, schemas, target)
