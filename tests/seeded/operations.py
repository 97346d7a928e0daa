"""Bugs in certificates, keys, permissions, back-ups and what an operator is told."""

import importlib.util
import inspect
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.seeded.bug import Bug, replaced, wrapped


def _with(test: Callable[..., None], **arguments: object) -> Callable[[], None]:
    """Run a test with what it asks for: a folder, a federation's folders, a party that lost its disk, a ledger, a clock."""

    def run() -> None:
        from colonnade.service.authority import CertificateAuthority
        from tests.cli.test_what_is_sent import follow_the_pages
        from tests.network.certificates import Clock
        from tests.network.served import Site
        from tests.network.test_restoring import a_loss
        from tests.party.test_ledger_backup import a_ledger
        from tests.side_by_side import Served

        with tempfile.TemporaryDirectory() as folder:
            more, place, clock = Path(folder) / "more", Path(folder) / "place", Clock()
            more.mkdir()
            place.mkdir()
            made: dict[str, Callable[[], object]] = {
                "tmp_path": lambda: more,
                "site": lambda: Site(place),
                "work": lambda: follow_the_pages(more, two=False),
                "lost": lambda: a_loss(more),
                "path": lambda: a_ledger(more),
                "clock": lambda: clock,
                "template": lambda: Served.template(place),
                "authority": lambda: CertificateAuthority.create(place / "authority", clock=clock),
            }
            with pytest.MonkeyPatch.context() as patch:
                made["monkeypatch"] = lambda: patch
                wanted = [name for name in inspect.signature(test).parameters if name in made and name not in arguments]
                test(**{name: made[name]() for name in wanted}, **arguments)

    return run


def _bugs() -> list[Bug]:
    import fcntl

    from colonnade.errors import BadInput, LedgerCorrupt
    from colonnade.party import party as party_module
    from colonnade.party.ledger import backup
    from colonnade.party.ledger import file as ledger_file
    from colonnade.party.ledger import words as ledger_words
    from colonnade.party.ledger.ledger import SqliteLedger
    from colonnade.protocol.agreement import FederationAgreement
    from colonnade.runtime import durable_file
    from colonnade.secure.keys import Identity, PublicIdentity
    from colonnade.service import attestation, decisions, federation_setup, health, processes
    from colonnade.service.authority import CertificateAuthority, SiteRequest
    from colonnade.service.processes import MonitoredEndpoint
    from colonnade.transport import direct
    from colonnade.transport.kit import Certificate, Kit
    from tests.cli import test_what_is_sent as sent
    from tests.network import test_certificates as certificates
    from tests.network import test_full_disk as full
    from tests.network import test_monitored as monitored
    from tests.network import test_operations as operations
    from tests.network import test_privacy_officer as officer
    from tests.network import test_restoring as restoring
    from tests.network import test_rotation as rotation
    from tests.party import test_caps_in_python as caps
    from tests.party import test_ledger_backup as copies
    from tests.party import test_ledger_faults as faults
    from tests.party import test_ledger_words as rows_in_words
    from tests.party import test_table_check as checks
    from tests.transport import test_tracing as traces

    def all_keys(papers: FederationAgreement, name: str) -> tuple[PublicIdentity, ...]:
        keys = [papers.members[name].identity, *(one.identity for one in papers.rotations.get(name, []))]
        return tuple(PublicIdentity(bytes.fromhex(key)) for key in keys)

    def _names_somebody(honest, self, kind, reply):
        honest(self, kind, reply)
        self._log.event("answered", people=self._endpoint._guard._row_orders.ids[0].as_py())

    def _only_who_is_there(honest, folder, people):
        if not decisions.rows_of(folder, people):
            raise BadInput("No row of the table has one of these ids.")
        return honest(folder, people)

    def _says_why(found: health.MemberStatus) -> str:
        if found.account is None:
            raise health.CheckFailed(found.stopped)
        return "answers"

    def _with_any_cap(honest, names, *given, **options):
        return honest(names, *given, **(options | {"deciding": dict.fromkeys(names, Identity.from_seed(bytes(32)))}))

    def _with_its_key(honest, authority, papers, keys, kits, days):
        made = honest(authority, papers, keys, kits, days)
        (made["coordinator"] / "server.key").write_bytes(Path("coordinator", "server.key").read_bytes())
        return made

    return [
        Bug(
            "the coordinator's private key is sent to everybody",
            wrapped(federation_setup, "_certify", _with_its_key),
            _with(sent.test_nothing_that_is_sent_holds_a_private_key),
        ),
        Bug(
            "the authority lies in the folder that is sent to everybody",
            replaced(federation_setup, "authority_folder", lambda folder: folder / "authority"),
            _with(sent.test_nothing_that_is_sent_holds_a_private_key),
        ),
        Bug(
            "a guard whose disk was full waits for a person",
            replaced(MonitoredEndpoint, "_end_once_there_is_room", lambda self: None),
            _with(full.test_a_guard_ends_to_be_started_again_once_there_is_room_and_not_before),
        ),
        Bug(
            "after a failed sync a guard opens its ledger again by itself",
            replaced(processes.DiskFull, "code", LedgerCorrupt.code),
            _with(full.test_a_failed_sync_is_never_tried_again_by_itself),
        ),
        Bug(
            "a member whose ledger refuses everything says that it is well",
            replaced(health.MemberStatus, "refusal", ""),
            _with(full.test_a_ledger_that_refuses_for_another_reason_is_neither_live_nor_ready),
        ),
        Bug(
            "the ledger says of an intersection that only a number left",
            replaced(ledger_words, "TOLD_BY", {"intersection": "discrete Laplace on the number of people"}),
            _with(
                rows_in_words.test_an_intersection_says_that_membership_left_and_to_whom, size={"epsilon": 0.5}, rows=2
            ),
        ),
        Bug(
            "another budget changes the cap without a word",
            wrapped(party_module, "open_ledgers", _with_any_cap),
            _with(caps.test_another_budget_is_refused_with_the_remedy_and_changes_no_ledger, epsilon=4.0),
        ),
        Bug(
            "renewing hands out what there was",
            replaced(federation_setup, "renew", lambda folder, _: Kit(folder / "kits" / "bank").certificates()),
            _with(certificates.test_renewing_makes_new_certificates_to_the_keys_in_use_and_leaves_the_papers),
        ),
        Bug(
            "certificates last for ever",
            replaced(Certificate, "refuse_outside", lambda *_: None),
            _with(certificates.test_a_certificate_outside_its_time_names_itself_and_the_date),
        ),
        Bug(
            "anybody asks for a certificate in a member's name",
            replaced(SiteRequest, "key_of_member", lambda self, _: self.key()),
            _with(certificates.test_a_request_that_the_member_did_not_sign_is_refused),
        ),
        Bug(
            "a new authority comes without a bridge",
            replaced(CertificateAuthority, "_read", lambda *_: b""),
            _with(certificates.test_sites_change_over_to_a_new_authority_one_by_one_until_the_former_is_forgotten),
        ),
        Bug(
            "keys and policies may be open to others",
            replaced(durable_file, "_open_to_others", lambda *_: False),
            _with(
                operations.test_what_others_could_read_or_change_is_refused_with_the_command_to_type, name="policy.toml"
            ),
        ),
        Bug(
            "a monitor hears why a guard has stopped",
            replaced(health, "_answers", _says_why),
            _with(operations.test_why_a_guard_has_stopped_is_for_its_owner_and_no_monitor_passes_it_on),
        ),
        Bug(
            "a log says whom a party has",
            wrapped(MonitoredEndpoint, "_note", _names_somebody),
            _with(monitored.test_log_status_and_metrics_are_the_same_on_neighbouring_tables, name="nobody in common"),
        ),
        Bug(
            "exact counts are written for everybody",
            replaced(durable_file, "replace_file", lambda path, content: path.write_bytes(content)),
            _with(checks.test_a_partys_folder_is_checked_at_the_command_line),
        ),
        Bug(
            "a trace quotes what members say",
            wrapped(direct, "_answered", lambda honest, replies: {**honest(replies), "colonnade.message": "No."}),
            _with(traces.test_every_round_of_a_study_is_a_span_of_public_facts),
        ),
        Bug(
            "a version tells whether a person was there who asked to be erased",
            wrapped(decisions, "erase", _only_who_is_there),
            _with(officer.test_a_new_version_does_not_tell_whether_whoever_asked_to_be_erased_was_there),
        ),
        Bug(
            "two processes serve one folder",
            replaced(fcntl, "flock", lambda *_: None),
            _with(operations.test_a_lock_ends_with_its_process),
        ),
        Bug(
            "a full disk is called a damaged ledger",
            replaced(ledger_file, "DiskFull", LedgerCorrupt),
            _with(faults.test_a_full_disk_refuses_and_the_ledger_then_refuses_everything),
        ),
        Bug(
            "any back-up is as good as the ledger",
            replaced(SqliteLedger, "continues", lambda *_: True),
            _with(copies.test_a_back_up_that_has_forgotten_releases_is_refused_and_nothing_changes),
        ),
        Bug(
            "a forfeit charges what a row costs at least",
            replaced(backup.Evidence, "nano", lambda *_: 1),
            _with(copies.test_a_forfeit_charges_the_highest_total_and_its_owner_signs_for_it, lost=2),
        ),
        Bug(
            "a restored ledger stands where the back-up did",
            replaced(backup.Evidence, "sequence", property(lambda _: 0)),
            _with(copies.test_a_forfeit_charges_the_highest_total_and_its_owner_signs_for_it, lost=25),
        ),
        Bug(
            "what peers have seen is taken for all there was",
            replaced(
                attestation,
                "Evidence",
                lambda heads, total, delta, spent: backup.Evidence(
                    heads, 0.0 if total is None else total, delta, spent
                ),
            ),
            _with(restoring.test_peers_do_not_know_the_last_study_so_their_word_alone_never_bounds_the_charge),
        ),
        Bug(
            "anybody attests for a member",
            replaced(attestation.Attestation, "check", lambda *_: None),
            _with(restoring.test_what_a_member_did_not_sign_is_no_evidence),
        ),
        Bug(
            "a new identity key needs no signature of the old one",
            replaced(FederationAgreement, "keys_of", all_keys),
            _with(rotation.test_a_new_key_that_the_old_one_did_not_sign_is_refused, forge=rotation.stranger),
        ),
    ]


BUGS = _bugs() if importlib.util.find_spec("nvflare") else []
"""None where the extra that carries messages between machines is not installed."""
