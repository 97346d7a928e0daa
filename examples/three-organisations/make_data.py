"""Invents the tables of three organisations, in the folder where it is run."""

from pathlib import Path

from colonnade.datasets import three_organisations

if __name__ == "__main__":
    for name, organisation in three_organisations(people=2_000).items():
        organisation.frame.to_csv(Path(f"{name}.csv"), index=False)
