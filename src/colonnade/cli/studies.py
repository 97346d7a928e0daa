"""Commands that run studies: `demo`, `run`, `preview`, `evaluate`, `predict`, `report` and the `coordinator` group."""

import time
from pathlib import Path
from typing import Annotated

import typer

import colonnade as cn
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
    from colonnade.service import study_file

    file = study_file.read(study)
    found, people = study_file.preview_of(file)
    if json:
        facts = {"people": people.everybody.people, "people_known": people.known}
        running.print_json({**running.preview_as_json(found), **facts})
        return
    running.print_preview(found)
    if not people.known:
        screen.line(
            f"The rows are matched when the file runs, so nobody knows yet how many people all parties have: this is for "
            f"{people.everybody.people:,}. A capacity in {'a policy' if file.align is None else '[align] or in a policy'} gives "
            "another number."
        )
    if file.split is not None:
        screen.line(
            f"Fitted on about {people.fitted.people:,} of {people.everybody.people:,} people; a run divides them by its own key."
        )


def schema() -> None:
    """Print the JSON schema of study files, with which editors check and complete them."""
    from colonnade.cli import running
    from colonnade.service.study_keys import json_schema

    running.print_json(json_schema())


def run(
    study: StudyPath,
    output: Output = None,
    change_cap: Annotated[
        bool, typer.Option("--change-cap", help="Record the file's [budget] as the new cap of ledgers that exist.")
    ] = False,
    models: Annotated[
        Path | None, typer.Option(file_okay=False, help="Also save every fitted model in this folder.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Run every study of a file and print results and receipts. What was paid for before is returned free.

    All of them are previewed first: a file with a mistake, or whose studies do not fit the budgets together, spends nothing.
    """
    from colonnade.cli import running
    from colonnade.service import study_file

    file = study_file.read(study)
    with file.federation(spend=True, change_cap=change_cap) as federation:
        fit_on = running.with_bounds(file, file.parts(federation)[0], quiet=json)
        running.run_all(file.studies, fit_on, output=output, models=models, as_json=json)


def evaluate(
    model: ModelPath,
    study: StudyPath,
    epsilon: Annotated[float, typer.Option(help="The price. There is no default.")],
    delta: Annotated[float, typer.Option(help="0 for a pure price, where the model's figures allow it.")] = 0.0,
    part: Part = "test",
    repeat: Annotated[int, typer.Option(help="A higher number is a new draw at a new price.")] = 1,
    json: AsJson = False,
) -> None:
    """Measure privately how good a model is. Each party's ledger pays for the figures, which come with intervals."""
    from colonnade.cli import running

    fitted = cn.load(model)
    with running.opened(study, part) as federation:
        found = fitted.evaluate(federation, epsilon=epsilon, delta=delta, repeat=repeat)
        if json:
            content = {
                "estimator": type(fitted).__name__,
                "people": federation.people,
                "metrics": found.table().reset_index(),
                "tables": {name: table.reset_index() for name, table in found.tables.items()},
                "privacy": found.privacy_.table(),
                "receipt": found.receipt_,
                "budget": federation.budget().reset_index(),
            }
            running.print_json(content)
            return
        screen.heading(f"{type(fitted).__name__} on {federation.people:,} people")
        screen.print_frame(found.table())
        for name, table in found.tables.items():
            screen.heading(name)
            screen.print_frame(table)
        screen.line(f"receipt: {found.receipt_}")
        screen.print_budget(federation)


READINGS = ("predict", "predict_proba", "transform")
"""What a model can be asked to open to one party."""


def predict(
    model: ModelPath,
    study: StudyPath,
    to: Annotated[str, typer.Option(help="The one party that is told; every policy must allow it by name.")],
    what: Annotated[str, typer.Option(help="One of predict, predict_proba, transform.")] = "predict",
    part: Part = "all",
    json: AsJson = False,
) -> None:
    """Score everybody and open the scores to one party alone. Not differentially private: an individual-level output."""
    from colonnade.cli import running

    fitted = cn.load(model)
    if what not in READINGS or not hasattr(fitted, what):
        known = [reading for reading in READINGS if hasattr(fitted, reading)]
        raise cn.BadInput(
            f"A {type(fitted).__name__} has no {what!r} to open.",
            remedy=f"Use --what {' or --what '.join(known)}." if known else "It does not score people.",
        )
    with running.opened(study, part) as federation:
        delivery = getattr(fitted, what)(federation, to=to)
        facts = {"to": to, "what": what, "people": federation.people, "kept": delivery.place()}
        if json:
            running.print_json({**facts, "receipt": delivery.receipt_, "budget": federation.budget().reset_index()})
            return
        screen.heading(f"{federation.people:,} people scored for {to}")
        screen.line(f"kept for the operator of {to}: {delivery.place()}")
        screen.line(f"receipt: {delivery.receipt_}")
        screen.print_budget(federation)


def sample(
    model: ModelPath,
    output: Annotated[
        Path, typer.Argument(metavar="TABLE", dir_okay=False, help="The .parquet or .csv file to write.")
    ],
    rows: Annotated[int | None, typer.Option(min=1, help="How many; by default as many as people.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another number gives other rows.")] = 0,
    json: AsJson = False,
) -> None:
    """Draw rows from a saved synthetic table. Spends nothing: no party is asked anything."""
    fitted = cn.load(model)
    if not isinstance(fitted, cn.SyntheticTable):
        raise cn.BadInput(
            f"A {type(fitted).__name__} has no rows to draw.", remedy="Name a model that a SyntheticTable saved."
        )
    beside = fitted.write(output, n=rows, random_state=seed)
    if json:
        screen.print_json({"table": str(output), "described": str(beside)})
        return
    screen.line(f"table: {output}, with {beside.name} beside it")
    screen.print_frame(fitted.table())


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
    from colonnade.report import document
    from colonnade.service import study_file

    target = source.with_suffix(".html") if output is None else output
    left_out: dict[str, str] = {}
    if source.suffix != ".toml":
        written = document.write([cn.load(source)], target, title=f"Privacy report: {source.name}")
    else:
        file = study_file.read(source)
        with file.federation(spend=False) as federation:
            fit_on = study_file.Bounds(file.tighten, file.parts(federation)[0]).if_released()
            finished, left_out = running.fitted_again(file.studies, fit_on)
            title = f"Privacy report: {file.title or source.name}"
            written = document.write(finished, target, federation=federation, title=title, left_out=left_out)
    if json:
        screen.print_json({"written": str(written), "left_out": left_out})
        return
    screen.line(f"written: {written}")
    for title, reason in left_out.items():
        screen.line(f"left out: {title}: {reason}")


@coordinator.command("init")
def init_coordinator(
    folder: CoordinatorFolder,
    host: Annotated[str, typer.Option(help="The coordinator's host name, as parties will dial it.")],
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
        typer.Option(exists=True, file_okay=False, help="First install the certificate from here."),
    ] = None,
    patience: Patience = None,
    json: AsJson = False,
) -> None:
    """Run every study of a file over its federation. What was paid for before is returned free."""
    from colonnade.cli import running
    from colonnade.coordinator.connect import coordinator_folder
    from colonnade.service import federation_setup, study_file

    path, text = study.resolve(), study.read_text(encoding="utf-8")
    if install is not None:
        file = study_file.read_for_coordinator(path, text)
        found = federation_setup.install_coordinator(file.kit or coordinator_folder(file.federation), install)
        if not json:
            screen.line(f"certificate  {found.words(time.time())}")
    running.run_over_network(path, text, output, patience, as_json=json)


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
    from colonnade.coordinator.connect import StudyJournal

    journal = StudyJournal(state / "studies.sqlite")
    files = journal.unfinished_files()
    journal.close()
    if not files and not json:
        screen.line("nothing to resume: every study file that was begun is finished")
    for name, text in files:
        if not json:
            screen.line(f"resuming {Path(name).name}")
        running.run_over_network(Path(name), text, output, patience, as_json=json)


@coordinator.command()
def status(
    state: StatePath,
    check: Annotated[
        bool, typer.Option("--check", help="Print nothing; exit 1 unless a coordinator is running.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Show who is connected, and which step every study has reached."""
    from colonnade.service.health import connected_to_coordinator
    from colonnade.transport.kit import read_known

    connected = connected_to_coordinator(state)
    if check:
        raise typer.Exit(0 if connected is not None else 1)
    from colonnade.coordinator.connect import StudyJournal

    certificates = {site: one.words(time.time()) for site, one in read_known(state / "certificates.status").items()}
    journal = StudyJournal(state / "studies.sqlite")
    names = ["study", "task", "method", "status", "step", "turn"]
    rows = [(one.plan[:12], one.task, one.method, one.status, one.step, one.turn) for one in journal.studies()]
    journal.close()
    if json:
        listed = [dict(zip(names, row, strict=True)) for row in rows]
        screen.print_json({"connected": connected, "studies": listed, "certificates": certificates})
        return
    screen.line(f"connected {'not running' if connected is None else ', '.join(connected) or 'nobody yet'}")
    screen.print_table(names, rows)
    for site, words in certificates.items():
        screen.line(f"certificate of {site}: {words}")
