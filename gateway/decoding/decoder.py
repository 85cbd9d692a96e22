"""One decoder: does jobs, one after the other, within limits that the system enforces."""

from __future__ import annotations

import errno
import math
import os
import resource
import signal
import socket
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass

from lookhear.gateway.decoding.jobs import Encoded, Job
from lookhear.gateway.decoding.parcel import Header, pack, unpack
from lookhear.media.base import MediaError

DO, DONE = b"J", b"R"
NICE = 5  # below what hears live speech: a third of its share where both want the processor
DESCRIPTORS = 64  # that a decoder may have open
NO_ROOM = (errno.EFBIG, errno.ENOMEM, errno.ENOSPC)


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one decoder. memory_bytes: of the process, and of what it hands over. seconds: of
    processor time, for one job."""

    memory_bytes: int
    seconds: float


def serve(connection: socket.socket, jobs: Mapping[str, Job], limits: Limits) -> None:
    """Do what is asked until the other side hangs up. A job's parcel comes with one byte, and so
    does its answer. A job that takes too much time ends the process by SIGXCPU."""
    _confine(limits)
    while True:
        asked, descriptors, *_ = socket.recv_fds(connection, 1, 1)
        if not asked or not descriptors:
            return
        _allow_seconds(limits.seconds)
        answer = _answer(descriptors[0], jobs)
        try:
            socket.send_fds(connection, [DONE], [answer])
        except BrokenPipeError:
            return
        finally:
            os.close(answer)


def _confine(limits: Limits) -> None:
    os.nice(NICE)
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for kind, most in (
        # Private memory, mapped or not; of address space decoders' libraries alone take gigabytes.
        (resource.RLIMIT_DATA, limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.memory_bytes),
        (resource.RLIMIT_NOFILE, DESCRIPTORS),
    ):
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def _allow_seconds(seconds: float) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    end = math.ceil(time.process_time() + seconds)
    end = end if hard == resource.RLIM_INFINITY else min(end, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (end, hard))


def _answer(descriptor: int, jobs: Mapping[str, Job]) -> int:
    """-> the descriptor of a parcel that tells how the job went."""
    told: Header
    try:
        header, [data] = unpack(descriptor)
        os.close(descriptor)
        encoded = Encoded(data.tobytes(), header["media_type"])
        del data
        told, arrays = jobs[header["job"]](encoded, header["options"])
        return pack({"done": told}, arrays)
    except MediaError as error:
        told = {"refused": [error.reason, error.detail]}
    except MemoryError:
        told = {"limit": "memory"}
    except OSError as error:
        told = {"limit": "memory"} if error.errno in NO_ROOM else _bug()
    except Exception:
        told = _bug()
    # Out here all that the job held is free again.
    return pack(told, [])


def _bug() -> Header:
    return {"bug": traceback.format_exc()}
