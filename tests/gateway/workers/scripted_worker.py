"""A worker without a gateway: it does what `script-N` in the folder of all says."""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import sys

from lookhear.gateway.workers.supervisor import CONNECTION, STATES, Setup


def main() -> int:
    control = socket.socket(fileno=int(sys.argv[2]))
    setup: Setup = pickle.load(sys.stdin.buffer)
    siblings = setup.siblings
    began_with = siblings.credentials
    assert siblings.folder is not None and began_with is not None
    script = (siblings.folder / f"script-{siblings.number}").read_text()
    if script.startswith("fail"):
        return int(script.removeprefix("fail"))
    held: list[socket.socket] = []
    received = 0

    def report() -> None:
        told = {"status": "ready", "working": len(held), "received": received}
        control.send(json.dumps({**told, "is_full": False}).encode())

    hang_ups: list[int] = []
    if script == "wait":
        (siblings.folder / "begun").touch()
        while not (siblings.folder / "go-on").exists():
            os.sched_yield()
    signal.signal(signal.SIGHUP, lambda number, _: hang_ups.append(number))
    report()
    if script == "die":
        return 1
    states = {}
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 65_536, 1)
        if not data:
            return 0
        told = json.loads(data)
        if told["kind"] == STATES:
            states = told["states"]
        else:
            assert told["kind"] == CONNECTION
            connection, received = socket.socket(fileno=descriptors[0]), received + 1
            says = {"number": siblings.number, "pid": os.getpid(), "states": states}
            says["hang_ups"] = len(hang_ups)
            says["keys"] = began_with.keys
            connection.sendall(json.dumps(says).encode() + b"\n")
            if script == "hold":
                held.append(connection)
            else:
                connection.close()
            report()


if __name__ == "__main__":
    sys.exit(main())
