"""A federation's papers: what is signed, what is refused, and what parties open on their terms. No network is needed here."""

import shutil
from contextlib import contextmanager

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as cn
from colonnade.cli import members as federation_command
from colonnade.coordinator.connect import StudyJournal, _own_node
from colonnade.errors import (
    BadInput,
    LedgerCorrupt,
    NotEnoughComputeNodes,
    PolicyRefusal,
    ProtocolError,
    SchemaMismatch,
)
from colonnade.party.policy import Policy
from colonnade.protocol import messages
from colonnade.protocol.agreement import FederationAgreement, Floor, read_agreement
from colonnade.protocol.messages import Post, Propose, Refused
from colonnade.secure.keys import Identity
from colonnade.service import federation_setup
from colonnade.service.party_folder import PartyFolder
from colonnade.service.served_party import stricter
from colonnade.steps.kind import SharingFloor
from colonnade.transport.direct import Direct
from tests.service.served import Site, unserved


@pytest.fixture
def site(tmp_path):
    return unserved(tmp_path)


@contextmanager
def opened(site: Site, journal: StudyJournal | None = None, papers: FederationAgreement | None = None, **options):
    """The served parties in this process: the same folders, papers, guards and heads; only the wire is missing."""
    transport = Direct({name: member.guard() for name, member in site.members.items()})
    try:
        yield cn.Federation(
            transport, parties=site.parties, agreement=papers or site.papers, journal=journal, **options
        )
    finally:
        transport.close()


def counts(**options) -> cn.PatternCount:
    return cn.PatternCount(["bank.segment", "telco.plan"], epsilon=0.25, **options)


# What is signed -------------------------------------------------------------------------------------------------------


CHANGES = {
    "collusion": lambda papers: msgspec.structs.replace(papers, collusion=0),
    "name": lambda papers: msgspec.structs.replace(papers, name="another"),
    "floor": lambda papers: msgspec.structs.replace(papers, floor=Floor(max_epsilon=100.0)),
    "host": lambda papers: msgspec.structs.replace(
        papers, coordinator=msgspec.structs.replace(papers.coordinator, host="elsewhere")
    ),
    "alignment": lambda papers: msgspec.structs.replace(papers, alignment=None),
    "order": lambda papers: msgspec.structs.replace(papers, members=dict(reversed(papers.members.items()))),
    "who computes": lambda papers: msgspec.structs.replace(
        papers,
        members={**papers.members, "bank": msgspec.structs.replace(papers.members["bank"], computes=False)},
    ),
    "address": lambda papers: msgspec.structs.replace(
        papers,
        members={**papers.members, "bank": msgspec.structs.replace(papers.members["bank"], direct="elsewhere:443")},
    ),
    "schema": lambda papers: msgspec.structs.replace(
        papers,
        members={**papers.members, "bank": msgspec.structs.replace(papers.members["bank"], schema="0" * 64)},
    ),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_meaning_makes_other_papers_that_nobody_has_signed(change, site):
    changed = CHANGES[change](site.papers)
    assert changed.identity != site.papers.identity
    with pytest.raises(ProtocolError, match="signature"):
        changed.check()


@pytest.mark.parametrize("name", ["bank", "telco", "insurer"])
def test_papers_that_one_member_has_not_signed_are_refused_by_every_party(name, site):
    papers = site.papers
    signatures = {member: signed for member, signed in papers.signatures.items() if member != name}
    site.papers_path.write_text(msgspec.structs.replace(papers, signatures=signatures).text())
    for member in site.members:
        site.hand_out(member)
        with pytest.raises(ProtocolError, match=f"not signed by '{name}'"):
            site.members[member].guard()


def test_a_member_signs_only_papers_that_say_of_it_what_its_own_card_says(site):
    papers = site.papers
    forged = msgspec.structs.replace(papers.members["bank"], identity=Identity.from_seed(b"f" * 32).public.hex())
    site.papers_path.write_text(msgspec.structs.replace(papers, members={**papers.members, "bank": forged}).text())
    with pytest.raises(BadInput, match="own card"):
        federation_command.sign(site.papers_path, party=site.members["bank"].path)


@given(st.text(max_size=200))
def test_any_text_is_papers_or_refused(text):
    with pytest.raises(BadInput):
        FederationAgreement.read(text)


@pytest.mark.parametrize(
    ("terms", "match"),
    [
        ({"collusion": -1}, "not negative"),
        ({"threshold": 0}, "at least 1"),
        ({"collusion": 1, "threshold": 0}, "at least 1"),
        ({"collusion": 2, "threshold": 1}, "at least the collusion bound"),
        ({"collusion": 2, "threshold": 2}, "needs 5 members that compute, and these papers have 3"),
        ({"collusion": 1, "threshold": 2}, "needs 5 members that compute, and these papers have 3"),
    ],
)
def test_papers_promise_nothing_that_their_members_cannot_keep(terms, match, site):
    with pytest.raises(BadInput, match=match) as refusal:
        msgspec.structs.replace(site.papers, **terms)
    if "5 members" in match:
        assert "the cards of 2 compute nodes" in refusal.value.remedy


def test_papers_are_not_drawn_up_for_more_colluders_than_their_members_withstand(tmp_path):
    """Before, the number was lowered in the papers without a word."""
    site = unserved(tmp_path, nodes=("notary", "auditor"))
    assert (site.papers.collusion, site.papers.threshold) == (1, 1)
    cards = [site.folder / f"{name}.card.toml" for name in site.members]
    common = {
        "name": "test",
        "coordinator": site.kit / "card.toml",
        "port": 8002,
        "min_people": 1,
        "max_epsilon": None,
        "alignment": None,
    }
    for few in (cards[:3], cards[:4]):
        with pytest.raises(
            BadInput, match=f"threshold of 2 needs 5 members that compute, and these papers have {len(few)}"
        ):
            federation_setup.create_federation(tmp_path / f"few{len(few)}", few, collusion=2, **common)
    with pytest.raises(BadInput, match="No card is that of 'mallory'"):
        federation_setup.create_federation(tmp_path / "odd", cards, collusion=1, not_computing=["mallory"], **common)
    with pytest.raises(BadInput, match="A compute node computes"):
        federation_setup.create_federation(tmp_path / "odd", cards, collusion=1, not_computing=["notary"], **common)
    with pytest.raises(BadInput, match="needs 5 members that compute, and these papers have 3"):
        federation_setup.create_federation(tmp_path / "two", cards[:2], collusion=2, **common)
    federation_setup.create_federation(tmp_path / "two", cards[:2], collusion=1, **common)  # in the same folder
    federation_setup.create_federation(tmp_path / "all", cards, collusion=2, **common)
    papers = read_agreement(tmp_path / "all" / "federation.toml")
    assert (papers.collusion, papers.threshold) == (2, 2)
    federation_setup.create_federation(tmp_path / "more", cards, collusion=1, threshold=2, **common)
    papers = read_agreement(tmp_path / "more" / "federation.toml")
    assert (papers.collusion, papers.threshold) == (1, 2)


# What a party opens ---------------------------------------------------------------------------------------------------


def test_a_party_opens_with_the_ledger_schema_and_people_of_the_papers_only(site, tmp_path):
    bank = site.members["bank"]
    kept = {name: (bank.path / name).rename(tmp_path / name) for name in ("ledger.sqlite", "ledger.head")}
    with pytest.raises(LedgerCorrupt, match="another ledger"):
        bank.guard()
    (bank.path / "ledger.sqlite").unlink()
    kept["ledger.head"].rename(bank.path / "ledger.head")
    with pytest.raises(LedgerCorrupt, match="gone back, or is another one"):
        bank.guard()  # it does not even make a new one where one was used
    kept["ledger.sqlite"].rename(bank.path / "ledger.sqlite")
    schema = (bank.path / "schema.toml").read_text()
    (bank.path / "schema.toml").write_text(schema.replace("upper = 95", "upper = 94"))
    with pytest.raises(SchemaMismatch, match="schema"):
        bank.guard()
    (bank.path / "schema.toml").write_text(schema.replace("../cohort.parquet", "short.parquet"))
    site.tables["bank"].head(50).to_parquet(bank.path / "short.parquet")
    with pytest.raises(BadInput, match="list of people"):
        bank.guard()


def test_the_floor_of_the_papers_lies_under_every_policy(site):
    floor = Floor(max_epsilon=0.125, min_people=10)
    assert stricter(Policy(max_epsilon=4.0, min_people=500), floor).min_people == 500
    assert stricter(Policy(), floor).max_epsilon == 0.125
    papers = msgspec.structs.replace(site.papers, floor=floor, signatures={})
    for name, member in site.members.items():
        papers = papers.signed_by(name, member.identity())
    site.papers_path.write_text(papers.text())
    for name in site.members:
        site.hand_out(name)
    with opened(site) as federation, pytest.raises(PolicyRefusal, match="max_epsilon"):
        counts().fit(federation)


def signed(site: Site, **changes) -> FederationAgreement:
    """The papers with changes, signed by everybody and handed out."""
    papers = msgspec.structs.replace(site.papers, **changes, signatures={})
    for name, member in site.members.items():
        papers = papers.signed_by(name, member.identity())
    site.papers_path.write_text(papers.text())
    for name in site.members:
        site.hand_out(name)
    return papers


def reply_to(federation: cn.Federation, name: str, request: object) -> object:
    return messages.decode_reply(federation._driver.transport.exchange({name: messages.encode(request)})[name])


def test_the_papers_threshold_binds_every_member_and_the_coordinator_recruits_until_it_is_reached(tmp_path):
    """Three parties, two nodes; a study of two parties' columns. The policies ask for nothing, the papers for t = 2."""
    site = unserved(tmp_path, nodes=("notary", "auditor"))
    papers = signed(site, collusion=2, threshold=2)
    looser = [msgspec.structs.replace(papers, collusion=1, threshold=threshold).identity for threshold in (1, 2)]
    assert len({papers.identity, *looser}) == 3
    with opened(site, papers=papers, compute_nodes=papers.nodes) as federation:
        plan = counts().prepared(federation, 1)[1]
        assert plan.compute_nodes == ("bank", "telco", "notary", "auditor", "insurer")
        assert (plan.threshold, plan.collusion) == (2, 1)
        few = msgspec.structs.replace(plan, compute_nodes=("bank", "telco", "notary", "insurer"), threshold=1)
        blind = msgspec.structs.replace(plan, collusion=0)
        for forged, words in ((few, "threshold is below 2"), (blind, "noise covers fewer")):
            for name in forged.compute_nodes:  # data parties, a party that only computes, and a node without data
                for request in (
                    Propose(plan=forged),
                    Post(plan=forged, step="tables", run=bytes(16), turn=0, letters={}),
                ):
                    reply = reply_to(federation, name, request)
                    assert isinstance(reply, Refused), (name, reply)
                    assert reply.code == "policy-refusal"
                    assert words in reply.message
                    assert "this federation asks for" in reply.message
        assert (federation.budget().spent == 0).all()
        counts().fit(federation)


def test_who_may_compute_is_in_the_papers_and_everybody_holds_to_it(tmp_path):
    site = unserved(tmp_path, nodes=("notary",))
    members = {**site.papers.members, "telco": msgspec.structs.replace(site.papers.members["telco"], computes=False)}
    papers = signed(site, members=members)
    assert papers.computing == ("bank", "insurer", "notary")
    assert FederationAgreement.read(papers.text()) == papers
    with opened(site, papers=papers, compute_nodes=papers.nodes) as federation:
        study = counts().fit(federation)
        assert study.plan_.parties == ("bank", "telco")
        assert study.plan_.compute_nodes == ("bank", "notary", "insurer")
        forged = msgspec.structs.replace(study.plan_, compute_nodes=("bank", "telco", "notary"))
        for name in forged.compute_nodes:
            reply = reply_to(federation, name, Propose(plan=forged))
            assert isinstance(reply, Refused)
            assert reply.message == "The plan names a compute node that this federation does not accept."


def test_a_policy_file_says_for_whom_and_with_whom_a_party_computes_and_the_coordinator_is_told(site):
    bank = site.members["bank"]
    path = bank.path / "policy.toml"
    rules = path.read_text()
    path.write_text(rules + 'compute_for_others = false\ncompute_nodes = ["telco"]\n')
    with opened(site) as federation:
        described = federation._driver.descriptions()["bank"]
        assert (described.compute_for_others, described.compute_nodes) == (False, ("telco",))
        with pytest.raises(NotEnoughComputeNodes, match="needs 3 compute nodes, and this study has 2"):
            counts().fit(federation)
    path.write_text(rules + 'compute_node = ["telco"]\n')
    with pytest.raises(BadInput, match="unknown key 'compute_node'") as refusal:
        bank.guard()
    assert "compute_nodes" in refusal.value.remedy


# Ledgers that went back -----------------------------------------------------------------------------------------------


def set_back(site: Site, name: str, keep) -> bytes:
    """Put back an older ledger, as if the whole folder were restored; return what the party would have remembered of it."""
    shutil.copy(keep, site.members[name].path / "ledger.sqlite")
    memory = (site.members[name].path / "ledger.head").read_bytes()
    (site.members[name].path / "ledger.head").unlink()
    (site.members[name].path / "peers.heads").unlink(missing_ok=True)
    return memory


def test_peers_refuse_a_party_whose_ledger_has_gone_back(site, tmp_path):
    keep = tmp_path / "backup.sqlite"
    with opened(site) as federation:
        counts().fit(federation)
        shutil.copy(site.members["bank"].path / "ledger.sqlite", keep)
        counts().fit(federation, repeat=2)
        counts().fit(federation, repeat=3)  # here its peers see where it stood after the second
    set_back(site, "bank", keep)
    with opened(site) as federation:
        spent = federation.budget().spent
        with pytest.raises(LedgerCorrupt, match="gone back") as refusal:
            counts().fit(federation, repeat=4)
        assert refusal.value.code == "ledger-corrupt"
        assert federation.budget().spent.drop("bank").equals(spent.drop("bank"))


@pytest.mark.full
def test_a_new_key_comes_with_the_old_ledger(site, tmp_path):
    """Rotating a key does not reset a budget, nor what peers remember."""
    keep = tmp_path / "backup.sqlite"
    with opened(site) as federation:
        shutil.copy(site.members["bank"].path / "ledger.sqlite", keep)
        counts().fit(federation)
        counts().fit(federation, repeat=2)
        spent = federation.budget("bank").spent
    bank = site.members["bank"]
    (bank.path / "identity.key").unlink()
    path = bank.path / "identity.key"
    path.touch(mode=0o600)
    path.write_text("ab" * 32)
    entry = msgspec.structs.replace(site.papers.members["bank"], identity=bank.identity().public.hex())
    papers = msgspec.structs.replace(site.papers, members={**site.papers.members, "bank": entry}, signatures={})
    site.papers_path.write_text(papers.text())
    site.sign()
    with opened(site) as federation:
        assert federation.budget("bank").spent == spent
        counts().fit(federation, repeat=3)
    set_back(site, "bank", keep)
    with opened(site) as federation, pytest.raises(LedgerCorrupt, match="gone back"):
        counts().fit(federation, repeat=4)


# A coordinator that forgets nothing -----------------------------------------------------------------------------------


class CutOff(Exception):
    """The coordinator's process is gone."""


class Until:
    """A transport whose coordinator dies in the last turn, when one member has had it and the others have not."""

    def __init__(self, inner, told: str) -> None:
        self.inner, self.told = inner, told

    def exchange(self, requests):
        first = messages.decode_request(next(iter(requests.values())))
        if isinstance(first, Post) and first.turn == 4:
            self.inner.exchange({self.told: requests[self.told]})
            raise CutOff
        return self.inner.exchange(requests)


@pytest.mark.every(2)
@pytest.mark.parametrize("told", ["bank", "insurer"])
def test_a_coordinator_that_was_cut_off_in_the_last_turn_runs_the_step_again_at_no_price(site, tmp_path, told):
    state = tmp_path / "state" / "studies.sqlite"
    first = StudyJournal(state, site.papers)
    with opened(site, first) as federation:
        transport = federation._driver.transport
        federation._driver.transport = Until(transport, told)
        with pytest.raises(CutOff):
            counts().fit(federation)
        first.close()
        spent = federation.budget()
        kept = StudyJournal(state, site.papers)
        assert [study.status for study in kept.studies()] == ["running"]
        again = cn.Federation(transport, parties=site.parties, agreement=site.papers, journal=kept)
        study = counts().fit(again)
        assert "nothing spent" in study.receipt_
        assert again.budget().equals(spent)
        (done,) = again._driver.journal.studies()
        assert done.status == "done"
        again._driver.journal.close()


# Folders --------------------------------------------------------------------------------------------------------------


def test_two_parties_make_the_coordinator_the_third_node(tmp_path):
    site = unserved(tmp_path, parties=("bank", "telco"))
    papers = read_agreement(site.papers_path).check()
    assert papers.nodes == ("coordinator",)
    assert papers.threshold == 1
    node = _own_node(papers, site.kit, tmp_path)
    assert node._member.floor == SharingFloor(1, 1, frozenset({"bank", "telco", "coordinator"}))
    assert (site.kit / "identity.key").stat().st_mode & 0o077 == 0


# Alignment ------------------------------------------------------------------------------------------------------------


def with_rules(site: Site, rules: str) -> None:
    for name in site.parties:
        path = site.members[name].path / "policy.toml"
        path.write_text(path.read_text().split("[policy]")[0] + f"[policy]\n{rules}\n")


def heard(call) -> tuple[str, str]:
    with pytest.raises(cn.ColonnadeError) as caught:
        call()
    return caught.value.code, caught.value.message


def test_a_party_as_its_owner_first_makes_it_aligns_to_public_lists_only(site, tmp_path):
    made = PartyFolder.create(tmp_path / "new", name="new", role="data")
    made.write_templates(site.folder / "bank.parquet", "person_id")
    assert list(made.policy().alignments) == ["cohort"]
    assert made.policy().capacity is None
    with_rules(site, (made.path / "policy.toml").read_text().split("[policy]")[1])
    with opened(site) as federation:
        code, message = heard(lambda: federation.align(size="hidden", capacity=400))
        assert (code, "has not declared how long its list looks" in message) == ("bad-input", True)
