"""What `colonnade party init` writes for an owner to fill in: a schema and a policy, with safe defaults and examples of rules."""

import json
from collections.abc import Iterable

__all__ = ["POLICY", "SCHEMA", "column_line"]

SCHEMA = """\
# What is public about the columns of {name}. Only a column that is described here is ever read.
#
# Bounds and levels must hold for any data whatever: never take them from the data, whose extremes are private. A number outside
# is clipped. What becomes of a missing value, and of a level that is not listed, is declared too; otherwise a table that has some
# is refused:
#   income  = {{ lower = 0, upper = 250000, missing = 30000, indicator = true, na_values = ["?"], thousands = "," }}
#   answer  = {{ levels = ["no", "yes"], missing = "excluded", other = "other" }}    # or missing = "level"
#   opened  = {{ first = 2000-01-01, last = 2030-12-31, missing = 2010-01-01 }}
# `colonnade party check` shows which columns need one.

id = {id}              # the column by which people are known; the same at every party
{separator}  # what stands between the columns of a CSV file, if it is no comma
{encoding}  # how its letters are stored, if it is not UTF-8
# memory = "2GB"         # how much memory the guard may use, for a table that is larger; needs the extra `large`
# dask = "tls://scheduler:8786"  # a Dask cluster of its own; needs the extra `dask`, and ca.pem, cert.pem and key.pem in dask/
# cohort = "cohort.csv"  # a public list of the people who take part, with the same id column, if the papers name one

[columns]
{columns}
"""

POLICY = """\
# What {name} agrees to answer. Everything here is checked by this party's own guard, whatever a coordinator asks for.

[budget]            # the cap of this party's ledger, over all studies, for good
epsilon = 1.0
delta = 1e-6

[policy]
max_epsilon = 1.0   # the most that one release may cost
min_people = 1000   # studies of fewer people are refused
min_collusion = 1   # secure studies withstand at least this many colluding parties
nonprivate = []     # what may be answered WITHOUT differential privacy, such as "Coreset": nothing
event_level = false # refuse studies that hide only steps in a value, and not the value
# columns = ["age"] # allow these columns only; all of schema.toml otherwise
# allow = ["PCA"]   # answer these studies only; all private ones otherwise

alignments = ["cohort"]  # rows are put in the order of a public list. "intersection" shows every party which of its own ids
                         # the others have, and is not differentially private: allow it by name, or not at all
# capacity = 100000      # how long the list of ids looks to others, who never see it; without it no lists are matched. Choose
                         # one that future lists fit into: a longer one is refused when it is loaded
# compute_for_others = true     # compute on shares in studies that ask nothing about this party's data
# compute_nodes = ["auditor"]   # share columns with these nodes only; with all that the papers name otherwise
# direct_links = false          # have every letter to other members relayed, also where `party serve --direct` is asked for

# approve_above = 0.5                          # studies that take their requester's total above this wait for `party approve`
# requesters = {{ "analyst@telco" = 1.0 }}       # the most that each analyst's studies may cost; anybody else is refused
# purposes = {{ "fraud prevention" = 1.0 }}      # the same for each purpose, by its exact words
"""


def column_line(column: str, kinds: Iterable[object]) -> str:
    """Return a line of the schema, commented out: its owner fills it in."""
    kind = next((str(kind) for kind in kinds if kind is not None), "")
    name = json.dumps(column)
    if kind.startswith(("int", "uint")):
        return f"# {name} = {{ lower = , upper = , integer = true }}  # {kind}"
    if kind.startswith(("float", "double", "half", "decimal")):
        return f"# {name} = {{ lower = , upper =  }}  # {kind}"
    if kind in ("", "bool") or "string" in kind or "dictionary" in kind:
        declared = kind.split("<")[0] or "no declared type: a number needs {{ lower = , upper = }} instead"
        return f"# {name} = {{ levels = [] }}  # {declared}".replace("{{", "{").replace("}}", "}")
    if kind.startswith(("date", "timestamp")):
        return f"# {name} = {{ first = , last =  }}  # {kind.split('[')[0]}"
    return f"# {name} = {{ lower = , upper =  }}  # {kind}: not a number, a text, a date or a truth value"
