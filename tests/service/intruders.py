"""Cells that should not get through, each a process of its own: FLARE lets cells of one process talk past the network."""

INTRUDER = """
import sys, time, json, logging
logging.getLogger("nvflare").setLevel(logging.CRITICAL + 1)
from nvflare.fuel.f3.cellnet.cell import Cell
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.message import Message
name, address, kit, host, what = sys.argv[1:]
import pathlib
kit = pathlib.Path(kit)
server = (kit / "server.crt").exists()
role = "server" if server else "client"
credentials = {
    "ca_cert": str(kit / "rootCA.pem"),
    "client_cert": str(kit / f"{role}.crt"),
    "client_key": str(kit / f"{role}.key"),
}
if what == "no-certificate":  # alone in a folder: FLARE looks beside it for the others
    import shutil, tempfile
    alone = pathlib.Path(tempfile.mkdtemp()) / "rootCA.pem"
    shutil.copy(kit / "rootCA.pem", alone)
    credentials = {"ca_cert": str(alone)}
secure = what != "plaintext"
try:
    credentials = credentials if secure else {}
    names = {"server": host}
    cell = Cell(fqcn=name, root_url=address, secure=secure, credentials=credentials, auth_identity_map=names)
    cell.start()
except Exception as error:
    print("refused", type(error).__name__, "done", flush=True)
    sys.stdin.read()
    import os; os._exit(0)
deadline = time.time() + 2.5
while time.time() < deadline and "server" not in cell.core_cell.agents:
    time.sleep(0.05)
print("connected" if "server" in cell.core_cell.agents else "refused", flush=True)

def said(target, message, channel="colonnade", topic="block"):
    reply = cell.core_cell.send_request(channel, topic, target, message, timeout=3)
    print("reply", reply.get_header(MessageHeaderKey.RETURN_CODE), flush=True)

if what == "other-party":
    said("telco", Message({}, b"hello"))
elif what == "objects":
    said("server", Message({}, {"any": "object"}))
elif what == "channel":
    said("server", Message({}, b"hello"), channel="aux_communication", topic="x")
elif what == "origin":
    core = cell.core_cell
    original = core._send_to_endpoint
    def spoofed(endpoint, message):
        message.set_header(MessageHeaderKey.ORIGIN, "telco")
        return original(endpoint, message)
    core._send_to_endpoint = spoofed
    said("server", Message({}, b"hello"))
elif what == "malformed":
    cell.core_cell.fire_and_forget("colonnade", "block", "server", Message({}, b"hello"))
elif what == "oversized":
    said("server", Message({}, bytes(8 << 20)))
elif what == "reply":
    core = cell.core_cell
    original = core._send_to_endpoint
    def as_reply(endpoint, message):
        message.set_header(MessageHeaderKey.MSG_TYPE, "reply")
        return original(endpoint, message)
    core._send_to_endpoint = as_reply
    cell.core_cell.fire_and_forget("colonnade", "block", "server", Message({}, {"any": "object"}))
print("done", flush=True)
sys.stdin.read()
import os; os._exit(0)
"""
