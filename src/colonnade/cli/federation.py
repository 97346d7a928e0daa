"""``colonnade federation``: draw up a federation's papers and start-up kits, sign them, check them."""

from pathlib import Path
from typing import Annotated, Any

import typer

from colonnade.cli import screen
from colonnade.errors import BadInput
from colonnade.protocol.papers import COORDINATOR, Alignment, Coordinator, Floor, Papers, Signatory
from colonnade.service.party_folder import PartyFolder, read_papers
from colonnade.service.toml_parts import parse, refuse_unknown, text_of, within

__all__ = ["app", "check", "init", "renew", "sign"]

app = typer.Typer(help="A federation's papers: draw them up, sign them, check them.", no_args_is_help=True)

PapersPath = Annotated[
    Path, typer.Argument(metavar="PAPERS", exists=True, dir_okay=False, help="The papers, for example federation.toml.")
]


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", file_okay=False, help="Where papers and kits are put.")],
    card: Annotated[list[Path], typer.Option("--card", exists=True, help="A member's card; parties in column order.")],
    host: Annotated[str, typer.Option("--host", help="The coordinator's host name, as parties will dial it.")],
    cohort: Annotated[
        Path | None,
        typer.Option(
            "--cohort", exists=True, help="A public list of people; without it the parties align by themselves."
        ),
    ] = None,
    port: Annotated[int, typer.Option("--port", help="The port that the coordinator listens on.")] = 8002,
    name: Annotated[str, typer.Option("--name", help="What the federation calls itself.")] = "federation",
    id: Annotated[str, typer.Option("--id", help="The id column of the list.")] = "person_id",  # noqa: A002
    collusion: Annotated[int, typer.Option("--collusion", help="Parties that may pool with the coordinator.")] = 1,
    min_people: Annotated[int, typer.Option("--min-people", help="The least number of people in any study.")] = 1,
    max_epsilon: Annotated[float | None, typer.Option("--max-epsilon", help="The most one release may cost.")] = None,
) -> None:
    """Write federation.toml from the members' cards, and have NVIDIA FLARE make one start-up kit a site.

    With two parties and no compute node among the cards, the coordinator becomes the third node, with an identity of its own.
    """
    from colonnade.service.provisioning import provision

    members = dict(_card(path) for path in card)
    if len(members) != len(card):
        raise BadInput("Two cards have the same name.")
    (folder / "kits").mkdir(mode=0o700, parents=True, exist_ok=True)
    third = _third_node(members, folder)
    papers = Papers(
        name=name,
        coordinator=Coordinator(host=host, port=port),
        members=members,
        collusion=min(collusion, _threshold(members)) if len(members) >= 3 else min(collusion, len(members) - 1),
        threshold=_threshold(members),
        floor=Floor(min_people=min_people, max_epsilon=max_epsilon, min_collusion=min(collusion, _threshold(members))),
        alignment=None if cohort is None else _listed(cohort, id),
    )
    if third is not None:
        papers = papers.signed_by(COORDINATOR, third)
    made = provision(folder / "authority", host=host, port=port, sites=papers.sites, kits=folder / "kits")
    (folder / "federation.toml").write_text(papers.text(), encoding="utf-8")
    screen.line(f"written: {folder / 'federation.toml'}; each member reads and signs it: colonnade federation sign")
    for site, kit in made.items():
        screen.line(f"written: {kit} (send it to {site} by a channel that others cannot read)")
    screen.line(f"keep     {folder / 'authority'} offline: it can make certificates")


@app.command()
def sign(
    papers: PapersPath,
    party: Annotated[Path, typer.Option("--party", exists=True, file_okay=False, help="The member's own folder.")],
) -> None:
    """Add this member's signature, having checked that the papers name its own key, ledger and schema."""
    member = PartyFolder(party)
    found = read_papers(papers)
    if found.members.get(member.name) != member.card():
        raise BadInput(
            "The papers do not say of this member what its own card says.",
            remedy="Compare with `colonnade party card`; have the papers drawn up again.",
        )
    signed = found.signed_by(member.name, member.identity())
    papers.write_text(signed.text(), encoding="utf-8")
    screen.line(f"signed:  {member.name} under {signed.identity[:16]}…")
    screen.line("waiting: " + (", ".join(signed.missing()) or "nobody; the papers are complete"))


@app.command()
def check(papers: PapersPath) -> None:
    """Verify that every member has signed the papers as they stand."""
    found = read_papers(papers).check()
    rows = [(name, member.role, member.identity[:16], member.schema[:16]) for name, member in found.members.items()]
    screen.print_table(["member", "role", "identity", "schema"], rows)
    screen.line(f"federation {found.identity}")
    screen.line(f"signed by all {len(found.members)} members; collusion {found.collusion}, threshold {found.threshold}")


@app.command()
def renew(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", exists=True, help="Where `init` put papers and kits.")],
) -> None:
    """Make new certificates for every site; the papers, and what was signed, stay as they are."""
    from colonnade.service.provisioning import provision

    papers = read_papers(folder / "federation.toml")
    where = papers.coordinator
    made = provision(folder / "authority", host=where.host, port=where.port, sites=papers.sites, kits=folder / "kits")
    for site, kit in made.items():
        screen.line(f"renewed: {kit} (send it to {site})")


def _card(path: Path) -> tuple[str, Signatory]:
    document = parse(path)
    refuse_unknown(document, ("name", "role", "identity", "ledger", "schema"), path.name)
    entries: dict[str, Any] = {key: text_of(document, key, path.name) for key in document if key != "name"}
    return text_of(document, "name", path.name), within(path.name, lambda: Signatory(**entries))


def _listed(cohort: Path, column: str) -> Alignment:
    from colonnade.party.table.row_order import align
    from colonnade.service.opening import cohort_of

    ids = cohort_of(cohort, column)
    order = align(ids, ids, party="cohort", mode="cohort")
    return Alignment(identity=order.identity, people=order.people)


def _threshold(members: dict[str, Signatory]) -> int:
    from colonnade.secure.shamir import FEWEST_NODES, default_threshold

    return default_threshold(len(members)) if len(members) >= FEWEST_NODES else 0


def _third_node(members: dict[str, Signatory], folder: Path) -> Any:
    """Make the coordinator the third node where there are two members; return its identity."""
    import os

    from colonnade.privacy.randomness import SystemRandomness
    from colonnade.secure.keys import Identity

    if len(members) != 2:
        return None
    seed = SystemRandomness().bytes(32)
    kit = folder / "kits" / COORDINATOR
    kit.mkdir(mode=0o700, exist_ok=True)
    with os.fdopen(os.open(kit / "identity.key", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(seed.hex() + "\n")
    identity = Identity.from_seed(seed)
    members[COORDINATOR] = Signatory(role="compute", identity=identity.public.hex())
    return identity
