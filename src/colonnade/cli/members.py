"""Commands about members: `party` (make a folder, load a table, serve it) and `federation` (make papers, sign them).

A member's *card* is what is public about it. A federation's *papers* (federation.toml) hold all cards and rules; every member
signs them. A *kit* is a site's key for the network, which it makes itself, and the certificate to it.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from colonnade.cli import screen
from colonnade.errors import BadInput

if TYPE_CHECKING:
    from colonnade.service.decisions import Waiting


party = typer.Typer(
    help="One member of a federation: make its folder, load its table, serve it, show its status.", no_args_is_help=True
)

federation = typer.Typer(help="A federation's papers: make them, sign them, check them.", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", file_okay=False, help="The member's folder.")]
Source = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE", exists=True, file_okay=False, help="A federation's folder, or this member's kit out of it."
    ),
]
PapersPath = Annotated[
    Path, typer.Argument(metavar="PAPERS", exists=True, dir_okay=False, help="The papers, for example federation.toml.")
]
Memory = Annotated[
    str | None,
    typer.Option("--memory", help="How much memory a table may take, such as 2GB; the rest lies in temporary files."),
]
Dask = Annotated[
    str | None,
    typer.Option(
        "--dask", help="The scheduler of this member's own Dask cluster: tls://HOST:PORT (TLS files: FOLDER/dask)."
    ),
]
Days = Annotated[float, typer.Option("--days", min=0.0001, max=3650.0, help="How many days certificates last.")]


@party.command("init")
def init_party(
    folder: Folder,
    name: Annotated[str, typer.Option(help="The member's name in the federation, a plain word.")],
    data: Annotated[
        Path | None,
        typer.Option(exists=True, help="A .parquet or .csv file: only its column names and types are read."),
    ] = None,
    id: Annotated[str, typer.Option(help="The column by which people are known.")] = "person_id",  # noqa: A002
    schema: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A schema.toml that is filled in; needs --policy."),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A policy.toml; with --schema the table is loaded too."),
    ] = None,
    separator: Annotated[str, typer.Option(help="What stands between the columns of a CSV file.")] = ",",
    encoding: Annotated[str, typer.Option(help="How the letters of a CSV file are stored.")] = "utf-8",
    node: Annotated[bool, typer.Option("--node", help="A compute node: no data, no policy, no ledger.")] = False,
    direct: Annotated[
        str,
        typer.Option(help="HOST:PORT at which the other members may reach this one; goes into the papers."),
    ] = "",
    test_key: Annotated[
        str | None,
        typer.Option(hidden=True, help="64 hexadecimal digits: noise that anybody can repeat."),
    ] = None,
) -> None:
    """Make keys, a policy with safe defaults, and a schema to be filled in from the data's column names and types.

    With --schema and --policy, which somebody has filled in, the table is loaded and the card is written too.
    """
    from colonnade.service.party_folder import PartyFolder

    if node == (data is not None) or (schema is None) != (policy is None) or (node and schema is not None):
        raise BadInput(
            "A party needs --data, with --schema and --policy or without either; a compute node has none of them.",
            remedy="Give --data FILE for a party, or --node for a compute node.",
        )
    key = None if test_key is None else _key(test_key)
    given = {"separator": (separator, ","), "encoding": (encoding, "utf-8")}
    reading = {name: value for name, (value, usual) in given.items() if value != usual}
    with PartyFolder.creating(
        folder, name=name, role="compute" if node else "data", test_key=key, direct=direct
    ) as made:
        if data is not None and schema is not None and policy is not None:
            made.fill_in(schema, policy)
            loaded = made.load([data.resolve()])
            screen.line(
                f"loaded:  data version {loaded.version}, {loaded.people:,} people and {loaded.columns} columns"
            )
        elif data is not None:
            made.write_templates(data.resolve(), id, **reading)
            screen.line(f"written: {folder / 'schema.toml'} (state bounds and levels of the columns that may be used)")
            screen.line(f"written: {folder / 'policy.toml'} (the cap of the ledger, and what is answered)")
        screen.line(f"written: {folder / 'identity.key'} (keep it secret, and a copy of it safe)")
        if data is not None and schema is None:
            screen.line(f"next:    colonnade party load {folder} {data}, once both files are filled in")
            return
        (folder / "card.toml").write_text(made.card_text() + "\n", encoding="utf-8")
        screen.line(f"written: {folder / 'card.toml'} (public: for the federation's papers)")


@party.command()
def card(folder: Folder) -> None:
    """Print what is public about this member, for the federation's papers. Makes the ledger if there is none."""
    from colonnade.service.party_folder import PartyFolder

    screen.line(PartyFolder(folder).card_text())


@party.command("check")
def check_table(
    folder: Folder,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="Another table, that would take its place."),
    ] = None,
    page: Annotated[Path | None, typer.Option("--html", help="Also write the table to this file, as a page.")] = None,
) -> None:
    """Show what in the table does not fit schema.toml: for its owner alone. Exit 1 if the table would be refused."""
    from colonnade.runtime.private_files import replace_file
    from colonnade.service.party_folder import PartyFolder

    found = PartyFolder(folder).check(files or ())
    screen.line(str(found))
    if page is not None:
        replace_file(page, found.to_html().encode())
        screen.line(f"written: {page} (exact counts: keep it to yourself)")
    raise typer.Exit(0 if found.fits else 1)


@party.command()
def load(
    folder: Folder,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            exists=True,
            help="A .parquet or .csv file, a folder of .parquet files, or a .duckdb file with one table; several are one table.",
        ),
    ],
    memory: Memory = None,
) -> None:
    """Check a table, keep a copy of it in the folder, and declare it as the next version of this party's data.

    A running party takes it over before its next request. What was kept of the version before ends with it: pending steps,
    kept answers, row orders, and the old copy. The budget does not.
    """
    from colonnade.service.health import serving_version
    from colonnade.service.party_folder import PartyFolder

    member = PartyFolder(folder, memory)
    loaded = member.load(files)
    screen.line(f"loaded:  data version {loaded.version}, {loaded.people:,} people and {loaded.columns} columns")
    if not member.papers.exists():
        screen.line(f"next:    colonnade party card {folder} > {member.name}.card.toml, for the federation's papers")
    elif not member.listening:
        screen.line(f"next:    colonnade party serve {folder}")
    elif serving_version(folder) == loaded.version:
        screen.line("taken over by the running party")
    else:
        screen.line("the running party is busy, and takes it over before its next request")


@party.command()
def request(
    folder: Folder,
    new_key: Annotated[
        bool, typer.Option("--new-key", help="Make a new key; the old one serves until its certificate is installed.")
    ] = False,
) -> None:
    """Print a request for a certificate to this member's own key, for `colonnade federation renew --request`."""
    from colonnade.service.party_folder import PartyFolder

    screen.line(PartyFolder(folder).certificate_request(new_key=new_key).text())


@party.command()
def install(folder: Folder, source: Source) -> None:
    """Put the papers and the certificate that a federation's folder has for this member in place, while it runs or before."""
    _install(folder, source)


def _install(folder: Path, source: Path) -> None:
    from colonnade.service.party_folder import PartyFolder

    papers, certificate = PartyFolder(folder).install(source)
    if papers:
        screen.line("papers       signed by all; a guard that runs reads them when it is restarted")
    if certificate is not None:
        screen.line(f"certificate  {certificate.words(time.time())}; a relay that runs takes it over within seconds")


@party.command()
def rotate(folder: Folder) -> None:
    """Make a new identity key, signed with the present one. The ledger stays, and with it what was spent."""
    from colonnade.runtime.private_files import lock_folder
    from colonnade.service.party_folder import PartyFolder

    member = PartyFolder(folder.resolve())
    with lock_folder(member.path):
        papers = member.rotate()
    screen.line(
        f"rotated: key {papers.rotations[member.name][-1].identity[:16]}… of {member.name}, signed with the old one"
    )
    screen.line(
        f"next:    give {folder / 'federation.toml'} to every member (colonnade party install) and the coordinator"
    )
    screen.line(f"then:    restart the members, and delete {folder / 'identity.old'}")


@party.command()
def serve(
    folder: Folder,
    install: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="First install papers and certificate from here."),
    ] = None,
    change_cap: Annotated[
        bool, typer.Option("--change-cap", help="Record policy.toml's [budget] as the new cap of the ledger.")
    ] = False,
    health_port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, help="Answer /live, /ready and /metrics on this port of 127.0.0.1."),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="Write the log here, not to standard error; may be rotated."),
    ] = None,
    compute: Annotated[
        str, typer.Option(help="Multiply shares on: auto (a GPU where there is one), cpu or gpu.")
    ] = "auto",
    memory: Memory = None,
    dask: Dask = None,
    direct: Annotated[
        bool,
        typer.Option(
            "--direct", help="Exchange letters directly with members that do the same, at the papers' addresses."
        ),
    ] = False,
    direct_listen: Annotated[
        str | None, typer.Option(help="HOST:PORT to listen on for them, if not the papers' address.")
    ] = None,
) -> None:
    """Start the guard and the relay, and watch over both until this process is ended."""
    from colonnade.service.processes import serve_member

    if install is not None:
        _install(folder, install)
    status = serve_member(
        folder,
        change_cap=change_cap,
        report=screen.report,
        health_port=health_port,
        log_file=log,
        compute=compute,
        memory=memory,
        dask=dask,
        direct=direct,
        direct_listen=direct_listen,
    )
    raise typer.Exit(status)


@party.command()
def status(
    folder: Folder,
    live: Annotated[
        bool, typer.Option("--live", help="Only exit 1 unless the guard answers: whether to restart the member.")
    ] = False,
    ready: Annotated[
        bool,
        typer.Option(
            "--ready", help="Only exit 1, and say why, unless it can take part: connection, certificate, disk, clock."
        ),
    ] = False,
    json: screen.AsJson = False,
) -> None:
    """Show whether guard and relay run, the data version, the connection, the last request, bytes, budget and certificate."""
    from colonnade.service import health
    from colonnade.service.checks import data_version

    if live or ready:
        wanted = [*(health.ready_checks(folder) if ready else health.live_checks(folder))]
        wrong = [(name, words) for name, sound, words in health.run_checks(wanted) if not sound]
        for name, words in wrong:
            screen.line(f"WRONG {name:<12} {words}")
        raise typer.Exit(1 if wrong else 0)
    found = health.member_status(folder)
    if json:
        screen.print_json(found.content(time.time(), data_version(folder) if found.role == "data" else None))
        return
    refuses = f"refuses everything: {found.refusal}" if found.refusal else "answers"
    asked, declined = found.counts.requests.total(), found.counts.refusals.total()
    waits = f"{'connected to' if found.connected else 'waiting for'} the coordinator"
    carried = found.carried
    facts = {
        "member": f"{found.name} ({found.role})",
        "guard": "does not answer" if found.account is None else refuses,
        "stopped": found.stopped,
        "data": data_version(folder) if found.role == "data" else "",
        "last": f"{found.last or 'nothing yet'}; {asked} answered, {declined} refused",
        "relay": "not running" if found.relay is None else waits,
        "bytes": "" if found.relay is None else f"{carried['bytes_in']:,} in, {carried['bytes_out']:,} out",
        "direct": f"{carried['direct_in']:,} in, {carried['direct_out']:,} out",
        "fault": found.fault or "",
        **{file: certificate.words(time.time()) for file, certificate in found.certificates.items()},
    }
    if not carried["direct_in"] + carried["direct_out"]:
        del facts["direct"]
    if found.budget is not None:
        spent, cap, delta = found.budget
        facts["budget"] = f"ε={spent:.6g} of {cap:.6g} spent, at δ={delta:g}"
    for name, words in facts.items():
        if words:
            screen.line(f"{name:<9} {words}")
    if found.role == "data" and (folder / "ledger.sqlite").exists():
        _print_requests(folder)


def _print_requests(folder: Path) -> None:
    """Print the last release in words, and how many studies wait for an approval or were refused."""
    from colonnade.errors import ColonnadeError
    from colonnade.service import decisions

    try:
        last, waiting, refused = decisions.requests_in_words(folder)
    except ColonnadeError as error:  # a status says what it can
        screen.line(f"asked     not known: {error.message}")
        return
    screen.line(f"asked     {last or 'nothing was released yet'}")
    if waiting:
        screen.line(f"waiting   {waiting} for your approval: colonnade party approve {folder}")
    if refused:
        screen.line(f"refused   {refused} kept: colonnade party refused {folder}")


def _key(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise BadInput(
            "--test-key must be 64 hexadecimal digits.", remedy="For example the output of: openssl rand -hex 32"
        )
    return key


@federation.command("init")
def init_federation(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", file_okay=False, help="Where papers and kits are put.")],
    card: Annotated[list[Path], typer.Option(exists=True, help="A member's card; parties in column order.")],
    coordinator: Annotated[Path, typer.Option(exists=True, help="The coordinator's card, from `coordinator init`.")],
    cohort: Annotated[
        Path | None,
        typer.Option(exists=True, help="A public list of people; without it the parties align by themselves."),
    ] = None,
    port: Annotated[int, typer.Option(help="The port that the coordinator listens on.")] = 8002,
    name: Annotated[str, typer.Option(help="What the federation calls itself.")] = "federation",
    id: Annotated[str, typer.Option(help="The id column of the list.")] = "person_id",  # noqa: A002
    collusion: Annotated[int, typer.Option(help="Parties that may pool with the coordinator.")] = 1,
    threshold: Annotated[
        int | None, typer.Option(help="Compute nodes that learn nothing together; at least --collusion.")
    ] = None,
    no_compute: Annotated[list[str] | None, typer.Option(help="A party that never computes on shares.")] = None,
    committee: Annotated[
        list[str] | None, typer.Option(help="A member that computes; nobody else does. Name 2t + 1.")
    ] = None,
    min_people: Annotated[int, typer.Option(help="The least number of people in any study.")] = 1,
    max_epsilon: Annotated[float | None, typer.Option(help="The most one release may cost.")] = None,
    days: Days = 360.0,
) -> None:
    """Write federation.toml from the members' cards, and sign one certificate per site.

    With two parties and no compute node among the cards, the coordinator becomes the third node, and signs the papers too.
    """
    from colonnade.service import federation_setup
    from colonnade.service.served_party import public_alignment

    made = federation_setup.create_federation(
        folder,
        card,
        name=name,
        coordinator=coordinator,
        port=port,
        collusion=collusion,
        threshold=threshold,
        not_computing=no_compute or (),
        committee=committee or (),
        min_people=min_people,
        max_epsilon=max_epsilon,
        alignment=None if cohort is None else public_alignment(cohort, id),
        days=days,
    )
    screen.line(f"written: {folder / 'federation.toml'}; each member reads and signs it: colonnade federation sign")
    for site, kit in made.items():
        screen.line(f"written: {kit} (for {site}: a certificate, and nothing secret)")
    screen.line(
        f"keep     {federation_setup.authority_folder(folder)} offline and to yourself: it can make certificates"
    )


@federation.command()
def sign(
    papers: PapersPath,
    party: Annotated[
        Path,
        typer.Option(
            exists=True,
            file_okay=False,
            help="The member's own folder; the coordinator's, where it computes.",
        ),
    ],
) -> None:
    """Add this member's signature, having checked that the papers name its own key, ledger and schema."""
    from colonnade.service import federation_setup

    name, signed = federation_setup.sign(papers, party)
    screen.line(f"signed:  {name} under {signed.identity[:16]}…")
    screen.line("waiting: " + (", ".join(signed.missing()) or "nobody; the papers are complete"))


@federation.command()
def check(papers: PapersPath) -> None:
    """Verify that every member has signed the papers as they stand."""
    from colonnade.protocol.agreement import read_agreement

    found = read_agreement(papers).check()
    pinned = found.pinned()
    rows = [
        (name, member.role, "yes" if member.computes else "no", pinned[name].key.hex()[:16], member.schema[:16])
        for name, member in found.members.items()
        if name in pinned
    ]
    screen.print_table(["member", "role", "computes", "identity", "schema"], rows)
    for name, address in found.direct_addresses().items():
        screen.line(f"DIRECT  {name} at {address}, for the other members")
    for name, key in found.analyst_keys().items():
        screen.line(f"analyst {name}, introduced by {found.analysts[name].member}: {key.key.hex()[:16]}")
    for name, revocation in found.revocations.items():
        screen.line(f"OUT     {name}, by {revocation.member}")
    screen.line(f"federation {found.identity}")
    screen.line(f"signed by all {len(found.members)} members; collusion {found.collusion}, threshold {found.threshold}")


@federation.command()
def renew(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", exists=True, help="Where `init` put papers and kits.")],
    request: Annotated[
        list[Path] | None,
        typer.Option(exists=True, help="A member's `party request`, for a certificate to the key in it."),
    ] = None,
    coordinator: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="`coordinator request`, for the key in it."),
    ] = None,
    days: Days = 360.0,
    new_authority: Annotated[
        bool,
        typer.Option("--new-authority", help="Go over to a new authority; the former one stays trusted meanwhile."),
    ] = False,
    forget_former: Annotated[
        bool, typer.Option("--forget-former", help="Trust the new authority alone: once every site has its new kit.")
    ] = False,
) -> None:
    """Make a new certificate for every site, while the federation runs; the papers, and what was signed, stay as they are."""
    from colonnade.service.federation_setup import Renewal
    from colonnade.service.federation_setup import renew as make_new

    wanted = Renewal(request or (), coordinator, days, new_authority, forget_former)
    for site, certificate in make_new(folder, wanted).items():
        where = f"; there: colonnade {'coordinator' if site == 'coordinator' else 'party'} install FOLDER {folder.name}"
        screen.line(f"renewed: {folder / 'kits' / site} ({certificate.words(time.time())}{where})")


analyst = typer.Typer(help="Somebody who asks for studies, with a key of their own.", no_args_is_help=True)

OwnFolder = Annotated[
    Path, typer.Option("--party", exists=True, file_okay=False, help="The folder of the member that says so.")
]


@analyst.command()
def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="A new file for the secret key.")],
    name: Annotated[str, typer.Option(help="What the parties will call them, such as analyst@telco.")],
) -> None:
    """Make an analyst's key, and beside it a card for a member of the federation to introduce."""
    from colonnade.coordinator.driver import Analyst
    from colonnade.service import toml_parts

    made = Analyst.create(file, name=name)
    card = file.with_suffix(".card.toml")
    text = toml_parts.lines_of({"name": made.name, "identity": made.public.key.hex()})
    card.write_text(text + "\n", encoding="utf-8")
    screen.line(f"written: {file} (keep it secret, and a copy of it safe)")
    screen.line(f"written: {card} (public: a member introduces it with `colonnade federation introduce`)")


def introduce(
    papers: PapersPath,
    card: Annotated[Path, typer.Argument(metavar="CARD", exists=True, dir_okay=False, help="From `analyst init`.")],
    party: OwnFolder,
) -> None:
    """Add an analyst to the papers, signed by one member. Nobody else has to sign, and no release is asked for anew."""
    from colonnade.service.federation_setup import introduce_analyst

    name, member = introduce_analyst(papers, card, party)
    screen.line(f"introduced: {name}, by {member}")
    screen.line(f"next:       give {papers} to every party (colonnade party install), and restart them")


def revoke(
    papers: PapersPath,
    name: Annotated[str, typer.Argument(metavar="NAME", help="An analyst, or a member that is to be expelled.")],
    party: OwnFolder,
) -> None:
    """Say, signed by one member, that an analyst or a member is out. It is for good, and holds where these papers are."""
    from colonnade.service.federation_setup import revoke_name

    member = revoke_name(papers, name, party)
    screen.line(f"revoked: {name}, by {member}")
    screen.line(f"next:    give {papers} to every party (colonnade party install), and restart them")
    screen.line("what it cannot do: take back what was released before")


Reason = Annotated[str, typer.Option("--reason", help="One line, for the record.")]


def approve(
    folder: Folder,
    plan: Annotated[str | None, typer.Argument(metavar="[PLAN]", help="Which study, as the list names it.")] = None,
    days: Annotated[float, typer.Option(min=0.01, max=366.0, help="How long the approval holds.")] = 7.0,
    reason: Reason = "",
    yes: Annotated[bool, typer.Option("--yes", help="Approve it. Without this, it is only shown.")] = False,
) -> None:
    """Show the studies that wait for this party's approval; with PLAN and --yes, approve one, signed and in the ledger.

    An approval is for one plan on the present data version, and ends after some days. It spends nothing by itself.
    """
    from colonnade.service import decisions

    found = decisions.waiting_studies(folder)
    chosen = [one for one in found if plan is None or one.study.hash.hex().startswith(plan)]
    if not found:
        screen.line("nothing waits for an approval")
        return
    if not chosen:
        raise BadInput(
            f"No study that waits is called {plan}.", remedy=f"There are {', '.join(one.name for one in found)}."
        )
    for one in chosen:
        _print_waiting(one)
    if plan is None or not yes:
        screen.line(f"next:     colonnade party approve {folder} {chosen[0].name} --yes")
        return
    if len(chosen) > 1:
        raise BadInput("Several studies that wait begin like this.", remedy="Give more of the name.")
    row = decisions.approve(folder, chosen[0].study, days=days, reason=reason)
    screen.line(f"approved: {chosen[0].name} for {days:g} days, in row {row} of the ledger; ask again to run it")


def _print_waiting(one: "Waiting") -> None:
    screen.line(f"{one.name}  {one.words}")
    plan = one.study.plan
    screen.line(f"  columns   {', '.join(one.columns)}")
    if plan is not None:
        promise = (
            "not differentially private" if plan.price is None else f"ε={plan.price.epsilon:g}, δ={plan.price.delta:g}"
        )
        screen.line(f"  promise   {promise} per {plan.unit}; {plan.people:,} people of {', '.join(plan.parties)}")
    screen.line(f"  remaining ε={one.remaining:.6g} before it")


def refused(folder: Folder) -> None:
    """Show the studies that this party has refused lately: who asked for what, and why it was refused."""
    from colonnade.service import decisions

    found = decisions.refused_studies(folder)
    for words in found:
        screen.line(words)
    if not found:
        screen.line("nothing was refused")


def erase(
    folder: Folder,
    people: Annotated[list[str], typer.Argument(metavar="ID", help="Ids of people, as the table has them.")],
    yes: Annotated[bool, typer.Option("--yes", help="Erase them. Without this, it only says what would stay.")] = False,
) -> None:
    """Erase people: load the table without them as the next data version, and delete row orders and scores that name them."""
    from colonnade.service import decisions

    if yes:
        done = decisions.erase(folder, people)
        screen.line(
            f"erased:  {done.rows} row{'s' if done.rows != 1 else ''}; the table is data version {done.version}"
        )
        screen.line(f"deleted: {done.orders} row orders of the version before, {done.scores} delivered scores")
    else:
        rows = decisions.rows_of(folder, people)
        screen.line(
            f"rows:    {rows} of the table {'has' if rows == 1 else 'have'} one of these ids; compare how you wrote them"
        )
        screen.line(
            "         a new data version is declared in any case, so that it does not tell whether they were there"
        )
    screen.line("what cannot be undone:" if yes else "what would stay, and cannot be undone:")
    for words in decisions.WHAT_STAYS:
        screen.line(f"  {words}")
    if not yes:
        screen.line(f"next:    colonnade party erase {folder} {' '.join(people)} --yes")


def raise_cap(
    folder: Folder,
    requester: Annotated[str | None, typer.Option(help="The cap of this analyst's studies.")] = None,
    purpose: Annotated[str | None, typer.Option(help="The cap of studies with this purpose.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="The new cap of requester or purpose.")] = None,
    reason: Reason = "",
) -> None:
    """Raise or renew a cap: a decision of the owner, signed, in the ledger.

    Without --requester and --purpose it is the ledger's own cap, as [budget] of policy.toml has it now. What was spent stays so.
    """
    from colonnade.service import decisions

    name = purpose if requester is None else requester
    if None not in (requester, purpose) or (epsilon is None) != (name is None):
        raise BadInput(
            "Name --requester or --purpose with --epsilon, or none of the three for the ledger's own cap.",
            remedy='For example --requester analyst@telco --epsilon 0.5 --reason "renewed for spring"',
        )
    if name is not None and epsilon is not None:
        row = decisions.raise_allowance(folder, "purpose" if requester is None else "requester", name, epsilon, reason)
        screen.line(f"decided:  studies of {name} may cost ε={epsilon:g} in all; row {row} of the ledger")
        return
    before, after = decisions.raise_cap(folder, reason)
    screen.line(f"decided:  the cap is ε={after.epsilon:g} at δ={after.delta:g}; it was ε={before.epsilon:g}")
