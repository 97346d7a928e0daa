"""A bare Cell that sends back what it is sent, with FLARE's own request and reply: the pipe without anything of ours."""

import logging
import os
import sys

from nvflare.fuel.f3.cellnet.cell import Cell
from nvflare.fuel.f3.cellnet.defs import ReturnCode
from nvflare.fuel.f3.cellnet.utils import make_reply

logging.getLogger("nvflare").setLevel(logging.CRITICAL + 1)


def main() -> None:
    name, address, kit, host = sys.argv[1:]
    credentials = {
        "ca_cert": f"{kit}/rootCA.pem",
        "client_cert": f"{kit}/client.crt",
        "client_key": f"{kit}/client.key",
    }
    cell = Cell(fqcn=name, root_url=address, secure=True, credentials=credentials, auth_identity_map={"server": host})
    cell.core_cell.register_request_cb(
        channel="echo", topic="echo", cb=lambda message: make_reply(ReturnCode.OK, body=bytes(message.payload))
    )
    cell.start()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
