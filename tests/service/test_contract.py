"""The transport contract over NVIDIA FLARE: relays in processes of their own, mutual TLS, endpoints behind Unix sockets."""

import importlib
from contextlib import contextmanager

import pytest

from colonnade.errors import BadInput, ProtocolError
from colonnade.protocol import messages
from colonnade.transport.flare import Verb
from tests.service.lines import HOST, free_port, relays, until
from tests.transport.contract import PARTIES, TransportContract, echoes
from tests.transport.test_direct import Server

pytest.importorskip("nvflare", reason="needs the extra colonnade[network]")
provisioning = importlib.import_module("colonnade.service.federation_setup")
flare = importlib.import_module("colonnade.transport.flare")


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    """One coordinator and three relays for all tests of the contract; what is behind the sockets changes."""
    folder = tmp_path_factory.mktemp("n")
    port = free_port()
    kits = provisioning.provision(folder / "ws", host=HOST, sites=PARTIES, kits=folder / "kits")
    address = f"tcp://{HOST}:{port}"
    transport = flare.FlareTransport(PARTIES, address=address, kit=kits["coordinator"], host=HOST, patience=1.5)
    started = relays(folder, *PARTIES, address=address, kits=folder / "kits")
    try:
        until(lambda: set(transport.connected()) == set(PARTIES), what="three relays connecting")
        yield transport, folder
    finally:
        transport.close()
        started.stop()


class TestOverFlare(TransportContract):
    @pytest.fixture(autouse=True)
    def _line(self, line):
        self.transport, self.folder = line

    @contextmanager
    def bring_up(self, endpoints):
        servers = {name: Server(self.folder / f"{name}.sock", endpoint) for name, endpoint in endpoints.items()}
        try:
            yield self.transport
        finally:
            for server in servers.values():
                server.stop()

    def test_a_relay_passes_on_no_message_that_is_larger_than_any_message(self, monkeypatch):
        """The coordinator would not send one; a relay does not believe it."""
        endpoints = echoes()

        class Huge:
            def __len__(self) -> int:
                return messages.LARGEST_FRAME + 1

        letter = flare._Letter("bank", Huge(), 0.0)
        with self.bring_up(endpoints) as transport:
            with pytest.raises(ProtocolError, match="does not pass"):
                transport._until_done(letter, Verb.PUT, 0, b"x")
            monkeypatch.setattr(flare, "LARGEST_FRAME", 10)
            with pytest.raises(BadInput, match="too large"):
                transport.exchange({"bank": bytes(11)})
        assert not endpoints["bank"].asked
