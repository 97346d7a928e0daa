"""Invents the three tables that study.toml names, beside it."""

from pathlib import Path

from colonnade.datasets import three_organisations

if __name__ == "__main__":
    for name, organisation in three_organisations(people=20_000).items():
        organisation.frame.to_csv(Path(__file__).with_name(f"{name}.csv"), index=False)
