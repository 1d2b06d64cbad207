"""The coordinator of labgrid: finds places, acquires and releases them.

A place that this user has already acquired, or is allowed to use, is neither acquired nor released.
Must not know ssh: it returns the resources of a place as labgrid's own objects.
"""

import asyncio
import concurrent.futures
import contextlib
import fnmatch
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import click

from roundtrip_lab.errors import LabError
from roundtrip_lab.reach.kind import Failed
from roundtrip_lab.words import inert

# How long the coordinator may take to answer. It waits 10 s for each resource of an exporter.
ANSWER_S = 60
# Releases a place if this process dies: standard input then ends without a line.
WATCH = 'read -r released || exec "$@" > /dev/null 2>&1'


class Session:
    """A connection to the coordinator. One thread uses it, on behalf of the others."""

    def __init__(self, coordinator: str) -> None:
        # Otherwise log messages of labgrid and gRPC would appear among our lines.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        logging.getLogger().addHandler(logging.NullHandler())
        try:
            from labgrid.remote import client
        except ImportError as error:
            raise LabError("places of labgrid need its package: pip install './lab[labgrid]'") from error
        self.coordinator = coordinator
        self.loop = asyncio.new_event_loop()
        # gRPC uses the current event loop.
        asyncio.set_event_loop(self.loop)
        try:
            self.client = client.start_session(coordinator, loop=self.loop)
        except Exception as error:
            raise LabError(f"cannot reach labgrid's coordinator at {coordinator}") from error
        self.user = f"{self.client.gethostname()}/{self.client.getuser()}"
        self.proxies = {}
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def ask(self, question: Coroutine) -> Any:
        """Runs a coroutine in the session's thread. Raises `Failed` with labgrid's reason."""
        import grpc
        from labgrid.remote.client import Error

        asked = asyncio.run_coroutine_threadsafe(question, self.loop)
        try:
            return asked.result(ANSWER_S)
        except concurrent.futures.TimeoutError as error:
            asked.cancel()
            raise Failed("labgrid's coordinator does not answer", again=True) from error
        except grpc.aio.AioRpcError as error:
            lost = error.code() == grpc.StatusCode.UNAVAILABLE
            raise Failed(f"labgrid: {error.details()}", again=lost) from error
        except Error as error:
            raise Failed(f"labgrid: {' '.join(error.args)}") from error

    async def matching(self, address: str) -> list[str]:
        """The places that match a pattern or tags (`KEY=VALUE,...`), or else the place that labgrid finds."""
        places = self.client.places
        if address in places or not set("*?[=") & set(address):
            return [self.client.get_place(address).name]
        if "=" in address:
            wanted = {tuple(tag.partition("=")[::2]) for tag in address.split(",")}
            found = [name for name, place in places.items() if wanted <= set(place.tags.items())]
        else:
            found = fnmatch.filter(places, address)
        if not found:
            raise LabError(f"labgrid has no place for {address}")
        return sorted(found)

    @contextlib.contextmanager
    def held(self, name: str) -> Iterator[Any]:
        """Acquires a place and releases it at the end. Does neither if this user may already use it."""
        place, usable = self.ask(self.find(name))
        if usable:
            yield place
            return
        watch = self.watch(place.name)
        try:
            self.ask(self.acquire(place))
        except Failed as failed:
            # Without an answer, the place may have been acquired nevertheless.
            if failed.again:
                self.release(place.name, watch)
            else:
                watch.communicate(b"released\n")
            raise
        try:
            yield place
        finally:
            self.release(place.name, watch)

    async def find(self, name: str) -> tuple[Any, bool]:
        """The place, and whether this user may use it without acquiring it."""
        if self.client.stopping.is_set():
            raise Failed("the connection to labgrid's coordinator was lost")
        place = self.client.get_place(name)
        usable = self.user == place.acquired or self.user in place.allowed
        if place.acquired and not usable:
            raise Failed(f"{place.acquired} has acquired this place")
        return place, usable

    async def acquire(self, place: Any) -> None:
        """Acquires a place if it is free and all of its resources are available."""
        from labgrid.remote.generated import labgrid_coordinator_pb2 as messages

        self.client.check_matches(place)
        await self.client.stub.AcquirePlace(messages.AcquirePlaceRequest(placename=place.name))
        await self.client.sync_with_coordinator()

    def release(self, name: str, watch: subprocess.Popen) -> None:
        """Releases a place if this user still holds it."""
        from labgrid.remote.generated import labgrid_coordinator_pb2 as messages

        async def release() -> None:
            await self.client.stub.ReleasePlace(messages.ReleasePlaceRequest(placename=name, fromuser=self.user))
            # Otherwise a retry would see the place as still acquired.
            if not self.client.stopping.is_set():
                await self.client.sync_with_coordinator()

        try:
            self.ask(release())
        except Failed as failed:
            # The watch process tries again when this process ends.
            click.echo(f"place {inert(name)} may still be acquired: {inert(str(failed))}", err=True)
        else:
            watch.communicate(b"released\n")

    def watch(self, name: str) -> subprocess.Popen:
        """Starts a process that releases the place if this process dies."""
        client = [sys.executable, "-m", "labgrid.remote.client", "-x", self.coordinator, "-p", name]
        return subprocess.Popen(
            ["sh", "-c", WATCH, "sh", *client, "release-from", self.user],
            stdin=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def service(self, place: Any) -> Any:
        """The place's NetworkService, as an object of labgrid."""
        from labgrid import Target
        from labgrid.resource import NetworkService

        async def resources() -> list[tuple[str, Any]]:
            entries = self.client.get_target_resources(place)
            return [(name, entry) for (name, kind), entry in entries.items() if kind == "NetworkService"]

        found = self.ask(resources())
        if not found:
            raise Failed("this place has no NetworkService")
        if len(found) > 1:
            names = ", ".join(name for name, _ in found)
            raise Failed(f"this place has several NetworkServices: {names}")
        service = NetworkService(Target(place.name), None, **found[0][1].args)
        service.extra = found[0][1].extra
        return service

    def proxy(self, service: Any) -> list[str] | None:
        """The command that connects through the exporter's host, if labgrid requires that."""
        from labgrid.util.proxy import proxymanager

        address, _, interface = service.address.partition("%")
        host = service.extra.get("proxy")
        try:
            # The first caller makes labgrid open the connection to a host, which others then share.
            with self.proxies.setdefault(host, threading.Lock()):
                return proxymanager.get_command(service, address, service.port, interface or None)
        except Exception as error:
            raise Failed(f"labgrid has no ssh connection to the exporter's host {host}", again=True) from error

    def close(self) -> None:
        """Closes the connection."""

        async def end() -> None:
            await self.client.stop()
            await self.client.close()

        with contextlib.suppress(Failed):
            self.ask(end())
        self.loop.call_soon_threadsafe(self.loop.stop)
