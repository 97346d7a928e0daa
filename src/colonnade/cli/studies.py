"""Commands that run studies: `demo`, `run`, `preview`, `evaluate`, `predict`, `report` and the `coordinator` group."""

import time
from pathlib import Path
from typing import Annotated

import typer

from colonnade.cli import screen
from colonnade.cli.screen import AsJson

coordinator = typer.Typer(help="Run studies over a federation of separate machines.", no_args_is_help=True)

StudyPath = Annotated[
    Path, typer.Argument(metavar="STUDY", exists=True, dir_okay=False, help="A study file, for example study.toml.")
]
ModelPath = Annotated[
    Path, typer.Argument(metavar="MODEL", exists=True, dir_okay=False, help="A model that est.save(...) wrote.")
]
CoordinatorFolder = Annotated[
    Path, typer.Argument(metavar="FOLDER", file_okay=False, help="The coordinator's own folder, with its keys.")
]
StatePath = Annotated[
    Path, typer.Argument(metavar="STATE", exists=True, file_okay=False, help="The coordinator's state folder.")
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", dir_okay=False, help="Also write results to this file, as JSON.")
]
Patience = Annotated[
    float | None, typer.Option("--patience", min=1.0, help="Seconds that a party may be out of reach; 45 by default.")
]
Part = Annotated[
    str, typer.Option("--part", help="Which people: all, or a part of the file's [split] (train or test).")
]


def demo(
    people: Annotated[int, typer.Option(min=1_000, max=5_000_000, help="How many people all three have.")] = 50_000,
    report: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="Where to write the privacy report; by default a new temporary folder."),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(file_okay=False, help="A new folder, for the data, study files and ledgers.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show the other ways to ask, too.")] = False,
) -> None:
    """Tell a story in ten questions: three invented organisations, the true answers beside private ones, and the price."""
    from colonnade.cli.demo import show_demo

    show_demo(people, report, keep, everything=everything)


def preview(study: StudyPath, json: AsJson = False) -> None:
    """Show what a study file would cost, study by study and together, and how exact it would be. Spends nothing."""
    from colonnade.cli import running

    running.preview_file(study, as_json=json)


def schema() -> None:
    """Print the JSON schema of study files, with which editors check and complete them."""
    from colonnade.cli import running

    running.print_schema()


def run(
    study: StudyPath,
    output: Output = None,
    change_cap: Annotated[
        bool, typer.Option("--change-cap", help="Record the file's [budget] as the new cap of ledgers that exist.")
    ] = False,
    models: Annotated[
        Path | None, typer.Option("--models", file_okay=False, help="Also save every fitted model in this folder.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Run every study of a file and print results and receipts. What was paid for before is returned free.

    All of them are previewed first: a file with a mistake, or whose studies do not fit the budgets together, spends nothing.
    """
    from colonnade.cli import running

    running.run_file(study, output=output, change_cap=change_cap, models=models, as_json=json)


def evaluate(
    model: ModelPath,
    study: StudyPath,
    epsilon: Annotated[float, typer.Option("--epsilon", help="The price. There is no default.")],
    delta: Annotated[
        float, typer.Option("--delta", help="0 for a pure price, where the model's figures allow it.")
    ] = 0.0,
    part: Part = "test",
    repeat: Annotated[int, typer.Option("--repeat", help="A higher number is a new draw at a new price.")] = 1,
    json: AsJson = False,
) -> None:
    """Measure privately how good a model is. Each party's ledger pays for the figures, which come with intervals."""
    from colonnade.cli import running

    running.evaluate_model(model, study, part, epsilon=epsilon, delta=delta, repeat=repeat, as_json=json)


def predict(
    model: ModelPath,
    study: StudyPath,
    to: Annotated[str, typer.Option("--to", help="The one party that is told; every policy must allow it by name.")],
    what: Annotated[str, typer.Option("--what", help="One of predict, predict_proba, transform.")] = "predict",
    part: Part = "all",
    json: AsJson = False,
) -> None:
    """Score everybody and open the scores to one party alone. Not differentially private: an individual-level output."""
    from colonnade.cli import running

    running.deliver_scores(model, study, part, to=to, what=what, as_json=json)


def sample(
    model: ModelPath,
    output: Annotated[
        Path, typer.Argument(metavar="TABLE", dir_okay=False, help="The .parquet or .csv file to write.")
    ],
    rows: Annotated[int | None, typer.Option("--rows", min=1, help="How many; by default as many as people.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Another number gives other rows.")] = 0,
    json: AsJson = False,
) -> None:
    """Draw rows from a saved synthetic table. Spends nothing: no party is asked anything."""
    from colonnade.cli import running

    running.sample_rows(model, output, rows=rows, seed=seed, as_json=json)


def report(
    source: Annotated[
        Path,
        typer.Argument(metavar="SOURCE", exists=True, dir_okay=False, help="study.toml, or what est.save() wrote."),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", dir_okay=False, help="Where to; by default beside the source.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Write one self-contained HTML file to read, print and sign: who could see what, at what price, and the ledgers."""
    from colonnade.cli import running

    running.write_report(source, source.with_suffix(".html") if output is None else output, as_json=json)


@coordinator.command("init")
def init_coordinator(
    folder: CoordinatorFolder,
    host: Annotated[str, typer.Option("--host", help="The coordinator's host name, as parties will dial it.")],
) -> None:
    """Make the coordinator's own keys, where it will run, and card.toml: what is public about it, for the papers."""
    from colonnade.service import federation_setup

    card = federation_setup.coordinator_card(folder, host=host)
    (folder / "card.toml").write_text(card + "\n", encoding="utf-8")
    screen.line(f"written: {folder / 'server.key'} and {folder / 'identity.key'} (keep them secret)")
    screen.line(f"written: {folder / 'card.toml'} (public: for the federation's papers)")


@coordinator.command("run")
def run_connected(
    study: StudyPath,
    output: Output = None,
    install: Annotated[
        Path | None,
        typer.Option("--install", exists=True, file_okay=False, help="First install the certificate from here."),
    ] = None,
    patience: Patience = None,
    json: AsJson = False,
) -> None:
    """Run every study of a file over its federation. What was paid for before is returned free."""
    from colonnade.cli import running

    text = study.read_text(encoding="utf-8")
    if install is not None:
        running.install_certificate(study.resolve(), text, install, as_json=json)
    running.run_over_network(study.resolve(), text, output, patience, as_json=json)


@coordinator.command()
def request(
    folder: CoordinatorFolder,
    new_key: Annotated[
        bool, typer.Option("--new-key", help="Make a new key; the old one serves until its certificate is installed.")
    ] = False,
) -> None:
    """Print the coordinator's card with a request for a new certificate, for `colonnade federation renew --coordinator`."""
    from colonnade.service import federation_setup

    screen.line(federation_setup.coordinator_card(folder, new_key=new_key))


@coordinator.command()
def install(
    folder: CoordinatorFolder,
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", exists=True, file_okay=False, help="A federation's folder, or the kit.")
    ],
) -> None:
    """Put the coordinator's certificate in place, while it runs or before."""
    from colonnade.service import federation_setup

    found = federation_setup.install_coordinator(folder, source)
    screen.line(f"certificate  {found.words(time.time())}; a coordinator that runs takes it over within seconds")


@coordinator.command()
def resume(state: StatePath, output: Output = None, patience: Patience = None, json: AsJson = False) -> None:
    """Continue every study file that was begun and not finished. No noise is drawn for what was released before."""
    from colonnade.cli import running

    running.resume_files(state, output, patience, as_json=json)


@coordinator.command()
def status(
    state: StatePath,
    check: Annotated[
        bool, typer.Option("--check", help="Print nothing; exit 1 unless a coordinator is running.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Show who is connected, and which step every study has reached."""
    from colonnade.service.health import connected_to_coordinator, known_certificates

    connected = connected_to_coordinator(state)
    if check:
        raise typer.Exit(0 if connected is not None else 1)
    from colonnade.cli import running

    certificates = {site: one.words(time.time()) for site, one in known_certificates(state).items()}
    running.print_progress(state, connected, certificates, as_json=json)
