"""An engine on a Ray cluster, seen from the gateway: Ray finds its place and tells of its death."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
from typing import Any

from lookhear.engine.client.errors import EngineUnavailable
from lookhear.engine.client.ray_actor import CHUNK, EngineActor
from lookhear.engine.config import EngineConfig

CONNECT_SECONDS = 10.0  # for the cluster to be reached
PAUSE_BYTES = 1 << 20  # waiting to be sent, beyond which `drain` waits
GROUPS = {"read": 1, "write": 1, "control": 1}  # threads of the actor, by what they do
_connecting = asyncio.Lock()  # Ray has one connection per process


class RayProcess:
    """An engine's process on some node. module: as of `LocalProcess`."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._actor: Any = None
        self._reading: asyncio.Task[int] | None = None
        self._killed = False
        self._pid: int | None = None

    async def start(
        self, config: EngineConfig
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Waits for a place. Raises EngineUnavailable without Ray, a cluster or a node that can
        run it."""
        self._killed, self._actor, self._reading = False, None, None
        ray = await connect(config.ray)
        if self._killed:
            raise EngineUnavailable("the engine was ended before it had a place")
        if config.device.startswith("cuda"):  # Ray says which, and shows it no other
            config = dataclasses.replace(config, device="cuda")
        actor = ray.remote(concurrency_groups=GROUPS, max_restarts=0, **resources(config))
        self._actor = actor(EngineActor).remote(self._module, config)
        says = self._actor.read.options(concurrency_group="read", num_returns="streaming").remote()
        try:
            self._pid = await (await anext(says))
        except ray.exceptions.RayError as error:
            raise EngineUnavailable(f"Ray cannot run an engine: {error}") from error
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport = ActorTransport(self._actor, protocol)
        protocol.connection_made(transport)
        self._reading = loop.create_task(_read(says, protocol, transport, ray.exceptions.RayError))
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def end(self) -> int:
        """The actor is gone afterwards, and its place is free."""
        assert self._reading is not None
        status = await self._reading
        import ray

        with contextlib.suppress(ray.exceptions.RayError):
            ray.kill(self._actor)
        return status

    def kill(self) -> None:
        """The actor sees its engine end."""
        self._killed = True
        if self._actor is None:
            return
        if self._reading is None:  # it may wait for a place for ever
            import ray

            ray.kill(self._actor)
        else:
            self._actor.kill.options(concurrency_group="control").remote()

    @property
    def pid(self) -> int | None:
        """Of the actor, on its node."""
        return self._pid


async def _read(
    says: Any,
    protocol: asyncio.StreamReaderProtocol,
    transport: ActorTransport,
    gone: type[Exception],
) -> int:
    """Until the engine ends, or its actor, or the actor's node. Returns the exit status; -9 if
    nobody is left to tell it. gone: what Ray raises then."""
    status = -9
    try:
        async for said in says:
            chunk = await said
            if isinstance(chunk, int):
                status = chunk
            else:
                protocol.data_received(chunk)
    except gone:
        pass
    finally:
        transport.lost()
    return status


class ActorTransport(asyncio.Transport):
    """Bytes to an actor, in order: one call at a time, with all that came in the meantime."""

    def __init__(self, actor: Any, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._actor, self._protocol = actor, protocol
        self._waiting = bytearray()
        self._sending: asyncio.Task[None] | None = None
        self._is_closing = self._is_paused = self._is_lost = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Never waits."""
        if self._is_closing:
            return
        self._waiting += data
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send())
        if len(self._waiting) > PAUSE_BYTES and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_writing()

    async def _send(self) -> None:
        try:
            while self._waiting:
                data = bytes(self._waiting[:CHUNK])
                del self._waiting[:CHUNK]
                await self._actor.write.options(concurrency_group="write").remote(data)
                if self._is_paused and len(self._waiting) <= PAUSE_BYTES:
                    self._is_paused = False
                    self._protocol.resume_writing()
            if self._is_closing:
                await self._actor.hang_up.options(concurrency_group="control").remote()
        except Exception:  # the actor is gone, as its reader is told, too
            self._is_closing = True
            self._waiting.clear()
        finally:
            self._sending = None

    def get_write_buffer_size(self) -> int:
        """Bytes that no call has taken yet."""
        return len(self._waiting)

    def is_closing(self) -> bool:
        """Whether what is written now is lost."""
        return self._is_closing

    def close(self) -> None:
        """What waits is sent, then the engine hears that nothing more comes."""
        if not self._is_closing:
            self._is_closing = True
            if self._sending is None:
                self._sending = asyncio.get_running_loop().create_task(self._send())

    def lost(self) -> None:
        """The engine is gone."""
        self._is_closing = True
        if not self._is_lost:
            self._is_lost = True
            self._protocol.connection_lost(None)


def resources(config: EngineConfig) -> dict[str, float]:
    """What an engine takes of its node: a core for each of its threads; with CUDA, a GPU."""
    return {
        "num_cpus": float(max(1, config.threads)),
        "num_gpus": 1.0 if config.device.startswith("cuda") else 0.0,
    }


async def connect(address: str) -> Any:
    """Ray, connected. address: HOST:PORT of a cluster's head, or "auto". Raises
    EngineUnavailable."""
    try:
        import ray
    except ImportError:
        raise EngineUnavailable(
            "--ray needs the package ray: pip install 'lookhear[scale]'"
        ) from None
    async with _connecting:
        if not ray.is_initialized():
            if address != "auto":
                await _reach(address)
            try:
                # In a thread, so that signals stay ours, and the event loop free.
                await asyncio.to_thread(
                    ray.init, address, log_to_driver=True, logging_level="warning"
                )
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise EngineUnavailable(
                    f"ray: cannot connect to {address}: {error}; a node of the cluster must run "
                    "on this machine: ray start --address HOST:PORT --num-cpus 0"
                ) from error
    return ray


async def _reach(address: str) -> None:
    """Whether somebody listens there; Ray itself would try for a minute."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host, int(port))
    except (OSError, TimeoutError, socket.gaierror) as error:
        raise EngineUnavailable(
            f"ray: expected a cluster at {address}, nothing answers there: "
            f"{error or f'{CONNECT_SECONDS:g} seconds have passed'}"
        ) from error
    writer.close()
