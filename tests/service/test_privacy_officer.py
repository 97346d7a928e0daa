"""A privacy officer's walk. Given one party's folder and nothing else: who asked what, about which columns, for what, when and at
what price; and is it true? The same for a study that was refused, one that waited and was approved, and one that nobody signed.
"""

import csv
import io
import json
import shutil

import msgspec
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather

import colonnade as cn
from colonnade.errors import ApprovalNeeded, BadInput, PlanMismatch, PolicyRefusal, ProtocolError
from colonnade.protocol.agreement import FederationAgreement, Introduction, Revocation, read_agreement
from colonnade.secure.keys import Identity
from tests.cli.studies import call, refused
from tests.service.served import Site, unserved
from tests.service.test_papers import opened

NAME = "analyst@telco"
TITLE, PURPOSE = "=Churn|'!A1", "to keep <b>customers</b>"
"""A formula to a spreadsheet, markup to a browser: they are shown as what they are, words."""


@pytest.fixture
def site(tmp_path):
    return unserved(tmp_path)


def counts(epsilon: float = 0.25, **more) -> cn.PatternCount:
    return cn.PatternCount(["bank.segment", "telco.plan"], epsilon=epsilon, **more)


def done(*words: object) -> str:
    result = call(*words)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())  # cells of a table are folded


def introduced(site: Site, name: str = NAME) -> cn.Analyst:
    """An analyst makes a key, telco introduces them, and every member takes the papers over."""
    key = site.folder / f"{name}.key"
    done("analyst", "init", key, "--name", name)
    done("federation", "introduce", site.papers_path, key.with_suffix(".card.toml"), "--party", site.folder / "telco")
    hand_out(site)
    return cn.Analyst.read(key)


def hand_out(site: Site) -> None:
    for member in site.members.values():
        member.install(site.folder)


def with_rule(site: Site, rule: str) -> None:
    path = site.members["bank"].path / "policy.toml"
    path.write_text(f"{path.read_text()}\n{rule}\n")


def only(site: Site, tmp_path):
    """Return a copy of the bank's folder: all that its officer has."""
    folder = tmp_path / "officer"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(site.members["bank"].path, folder, ignore=shutil.ignore_patterns("*.sock"))
    return folder


def test_an_officer_reads_who_asked_what_for_what_when_and_at_what_price_and_verifies_it(site, tmp_path):
    analyst = introduced(site)
    with opened(site, analyst=analyst) as federation:
        counts().fit(federation.asking(title=TITLE, purpose=PURPOSE))
    with opened(site) as federation:
        cn.PCA(2, columns=["bank.age", "telco.bill"], epsilon=1.0, delta=1e-5).fit(federation)
    folder = only(site, tmp_path)

    shown = done("ledger", "show", folder)
    assert f"{TITLE}: pair tables with noise in shares, of 2 columns (1 of yours) · asked by {NAME}" in shown
    assert f"for: {PURPOSE} · ε 0.25 · to the coordinator" in shown
    assert "PCA: Gram matrix with noise in shares, of 2 columns (1 of yours)" in shown
    assert "asked by somebody unnamed, according to the coordinator" in shown
    verified = done("ledger", "verify", folder)
    assert "1 signed, 1 according to the coordinator" in verified

    rows = list(csv.DictReader(io.StringIO(call("ledger", "export", folder).output)))
    (paid,) = [row for row in rows if row["kind"] == "reserve" and row["requester"] == NAME]
    assert (paid["title"], paid["purpose"], paid["known"]) == (f"'{TITLE}", PURPOSE, "signed")
    assert (paid["columns"], paid["own columns"]) == ("bank.segment telco.plan", "bank.segment")
    assert float(paid["epsilon"]) == pytest.approx(0.25)
    assert paid["written"][:4].isdigit()
    whole = json.loads(call("ledger", "export", folder, "--format", "json").output)
    (same,) = [row for row in whole if row["row"] == int(paid["row"])]
    assert same["title"] == TITLE
    assert [step["columns"] for step in same["whole plan"]["steps"]] == [["segment"], ["plan"]]

    explained = done("ledger", "explain", folder, paid["row"])
    for words in (NAME, "known signed", PURPOSE, "bank (you)", "segment", "telco", "plan", "ε 0.25", "data version 1"):
        assert words in explained


def test_an_officer_sees_what_was_refused_approves_what_waits_and_finds_the_decision_in_the_ledger(site, tmp_path):
    analyst = introduced(site)
    with_rule(site, "approve_above = 0.3\nmax_epsilon = 1.0")
    with opened(site, analyst=analyst) as federation:
        asking = federation.asking(title="Churn", purpose="planning")
        counts(0.25).fit(asking)
        with pytest.raises(PolicyRefusal):
            counts(4.0).fit(asking)
        with pytest.raises(ApprovalNeeded) as waits:
            counts(0.5).fit(asking)
        assert waits.value.spent is None
        spent = federation.budget()

        listed = done("party", "refused", site.members["bank"].path)
        assert "ε 4 · refused: policy-refusal" in listed
        assert "ε 0.5 · refused: approval-needed" in listed
        preview = done("party", "approve", site.members["bank"].path)
        for words in ("Churn: pair tables", f"asked by {NAME}", "for: planning", "ε 0.5", "bank.segment, telco.plan"):
            assert words in preview
        assert "promise ε=0.5, δ=0 per person; 300 people of bank, telco" in preview
        assert "remaining ε=" in preview
        status = done("party", "status", site.members["bank"].path)
        assert "Churn: pair tables with noise in shares, of 2 columns (1 of yours) · asked by analyst@telco" in status
        assert "waiting 1 for your approval" in status
        name = preview.split()[0]
        done("party", "approve", site.members["bank"].path, name)  # only shows it
        with pytest.raises(ApprovalNeeded):
            counts(0.5).fit(asking)
        done("party", "approve", site.members["bank"].path, name, "--yes", "--reason", "asked the board")
        assert federation.budget().equals(spent)  # an approval spends nothing
        counts(0.5).fit(asking)
        assert done("party", "approve", site.members["bank"].path) == "nothing waits for an approval"
    folder = only(site, tmp_path)
    shown = done("ledger", "show", folder)
    assert "decided by the owner, signed: approved: the study of plan" in shown
    assert "(asked the board)" in shown
    assert shown.index("approved: the study") < shown.rindex("Churn: pair tables")
    verified = done("ledger", "verify", folder)
    assert "2 signed" in verified
    assert "decisions 1, signed with the key of bank" in verified
    shutil.copy(site.members["telco"].path / "identity.key", folder / "identity.key")  # somebody else's
    done("ledger", "raise", folder, "--purpose", "churn", "--epsilon", "9")
    refused(call("ledger", "verify", folder), "ledger-corrupt")


def test_caps_are_raised_by_signed_decisions(site, tmp_path):
    analyst = introduced(site)
    with_rule(site, f'requesters = {{ "{NAME}" = 0.3 }}')
    bank = site.members["bank"].path
    with opened(site, analyst=analyst) as federation:
        counts(0.25).fit(federation)
        with pytest.raises(cn.BudgetExceeded):
            counts(0.5).fit(federation)
        done("ledger", "raise", bank, "--requester", NAME, "--epsilon", "1.0", "--reason", "second quarter")
        counts(0.5).fit(federation)
    refused(call("ledger", "raise", bank), "bad-input")
    refused(call("ledger", "raise", bank, "--epsilon", "1.0"), "bad-input")
    policy = bank / "policy.toml"
    policy.write_text(policy.read_text().replace("epsilon = 10.0", "epsilon = 12.0", 1))
    assert "the cap is ε=12" in done("ledger", "raise", bank, "--reason", "renewed")
    shown = done("ledger", "show", only(site, tmp_path))
    assert f"the cap of requester {NAME} is ε 1 (second quarter)" in shown
    assert "the cap was changed (renewed); the cap is ε 12" in shown


def test_a_forged_signature_is_refused_and_kept_for_the_officer_to_see(site, tmp_path):
    introduced(site)
    with (
        opened(site, analyst=cn.Analyst(NAME, Identity.from_seed(b"x" * 32))) as federation,
        pytest.raises(ProtocolError),
    ):
        counts().fit(federation)
    listed = done("party", "refused", site.members["bank"].path)
    assert f"asked by {NAME}, signed with a key that the papers do not name now" in listed


def test_a_revoked_analyst_asks_for_nothing_more_and_what_was_asked_stays_readable(site, tmp_path):
    analyst = introduced(site)
    with opened(site, analyst=analyst) as federation:
        counts().fit(federation)
    before = site.papers
    done("federation", "revoke", site.papers_path, NAME, "--party", site.folder / "insurer")
    assert site.papers.identity == before.identity  # plans, kept answers and budgets are as they were
    hand_out(site)
    with opened(site, analyst=analyst) as federation, pytest.raises(ProtocolError):
        counts().fit(federation, repeat=2)
    folder = only(site, tmp_path)
    assert f"asked by {NAME}, signed with a key that the papers do not name now" in done("ledger", "show", folder)
    done("ledger", "verify", folder)
    (site.folder / "old.toml").write_text(before.text())
    site.papers_path.write_text(before.text())
    with pytest.raises(BadInput, match="forget"):
        site.members["bank"].install(site.folder)


def test_an_expelled_member_takes_part_in_nothing_more(site):
    stale = site.papers
    done("federation", "revoke", site.papers_path, "insurer", "--party", site.folder / "bank")
    assert site.papers.identity == stale.identity
    for name in ("bank", "telco"):
        site.members[name].install(site.folder)
    assert site.papers.parties == ("bank", "telco")
    assert "OUT insurer, by bank" in done("federation", "check", site.papers_path)
    with opened(site, papers=stale) as federation:  # of a coordinator that does not want to know
        with pytest.raises((PlanMismatch, ProtocolError)):
            cn.PatternCount(["bank.segment", "insurer.product"], epsilon=0.25).fit(federation)
        assert federation.budget().loc["bank", "spent"] == 0
    with pytest.raises(BadInput, match="do not name insurer"):
        site.members["insurer"].install(site.folder)


def test_introductions_and_revocations_that_their_member_has_not_signed_are_refused(site):
    analyst = introduced(site)
    papers = site.papers
    assert FederationAgreement.read(papers.text()) == papers
    good = papers.analysts[NAME]
    bad = [
        {"analysts": {NAME: Introduction(identity=good.identity, member="bank", signature=good.signature)}},
        {"analysts": {"another": good}},
        {"analysts": {NAME: Introduction(identity="11" * 32, member="telco", signature=good.signature)}},
        {"analysts": {NAME: Introduction(identity=good.identity, member="nobody", signature=good.signature)}},
        {"analysts": {NAME: Introduction(identity=good.identity, member="telco", signature="zz")}},
        {"revocations": {NAME: Revocation(member="telco", signature=good.signature)}},
        {"revocations": {"bank": Revocation(member="insurer", signature="00" * 64)}},
    ]
    for change in bad:
        with pytest.raises((ProtocolError, BadInput)):
            msgspec.structs.replace(papers, **change).check()
    assert papers.check().analyst_keys() == {NAME: analyst.public}
    again = call(
        "federation", "introduce", site.papers_path, site.folder / f"{NAME}.card.toml", "--party", site.folder / "bank"
    )
    refused(again, "bad-input")
    assert read_agreement(site.papers_path) == papers


def test_a_person_is_erased_from_table_orders_and_scores_and_is_told_what_stays(site, tmp_path):
    person = str(site.tables["bank"]["person_id"].iloc[0])
    bank = site.members["bank"].path
    with opened(site) as federation:
        counts().fit(federation)
    shown = done("party", "erase", bank, person)
    assert "what would stay" in shown
    assert f"{person} --yes" in shown
    assert "1 of the table has one of these ids" in shown
    assert "0 of the table have one of these ids" in done("party", "erase", bank, "nobody")
    with opened(site) as federation:
        assert federation._driver.data_versions["bank"] == 1
    orders = bank / "alignments"
    orders.mkdir(exist_ok=True)
    (orders / "old.alignment").write_bytes(b"names people")
    scores = bank / "alignments.deliveries"
    scores.mkdir(exist_ok=True)
    table = pa.table({"id": pa.array([int(person), 5]), "score": [0.1, 0.2]})
    feather.write_feather(table, scores / "one.feather", compression="uncompressed")
    told = done("party", "erase", bank, person, "--yes")
    assert "erased: 1 row; the table is data version 2" in told
    assert "1 delivered scores" in told
    assert "never rewritten" in told
    assert feather.read_table(scores / "one.feather").column("id").to_pylist() == [5]
    assert not list(orders.glob("*.alignment"))
    held = [path.read_bytes() for path in bank.rglob("*.parquet")]
    assert len(held) == 1
    (left,) = (pd.read_parquet(path) for path in bank.rglob("*.parquet"))
    assert person not in set(left["person_id"].astype(str))
    assert len(left) == len(site.tables["bank"]) - 1
    with opened(site) as federation:
        assert federation._driver.data_versions["bank"] == 2
        counts().fit(federation)  # a new release, of the table without them


def test_a_new_version_does_not_tell_whether_whoever_asked_to_be_erased_was_there(site):
    """The version is public. A coordinator may know who asked, and must not read from it who had a row."""
    bank, somebody = site.members["bank"].path, str(site.tables["bank"]["person_id"].iloc[0])
    for version, person in ((2, "nobody"), (3, somebody), (4, "nobody else")):
        assert f"the table is data version {version}" in done("party", "erase", bank, person, "--yes")
        with opened(site) as federation:
            assert federation._driver.data_versions["bank"] == version
