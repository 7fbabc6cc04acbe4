"""How the processes of a launch find each other: process 0 waits at an address, and the others come."""

import contextlib
import errno
import platform
import selectors
import socket
import time
from collections.abc import Iterator
from importlib.metadata import version

from .. import __version__
from .group import ProcessLost
from .launch import Launch, is_loopback
from .link import Link, reason_of

PERSONAL = 5.0
"""Seconds that a message of a process has to come, once it has begun to."""

SIGN = 1.0
"""Seconds between two signs of life of process 0 to those that wait for the others."""


def meet(launch: Launch, seconds: float, silence: float) -> tuple[dict[int, Link], dict[int, str]]:
    """A link to process 0, or from it to all others; and the machines of all processes.

    **Arguments:**

    - `seconds`: in which all have to be there; a `ValueError` names who is missing.
    - `silence`: see `Link`.
    """
    return _assemble(launch, seconds, silence) if launch.index == 0 else _come(launch, seconds, silence)


def _assemble(launch: Launch, seconds: float, silence: float) -> tuple[dict[int, Link], dict[int, str]]:
    """Wait for all, in one loop over all connections: who was here and goes again is missed at once, and whoever
    connects and says nothing keeps nobody waiting."""
    links: dict[int, Link] = {}
    hosts = {0: platform.node()}
    deadline, next_sign = time.monotonic() + seconds, 0.0
    try:
        with _server(launch) as server, selectors.DefaultSelector() as selector:
            server.setblocking(False)
            selector.register(server, selectors.EVENT_READ)
            while len(links) < launch.count - 1:
                now = time.monotonic()
                if now > deadline:
                    missing = _numbers(sorted(set(range(1, launch.count)) - set(links)))
                    raise ValueError(
                        f"{missing} of {launch.count} did not come to {launch.address} within {seconds:.0f} s; if they "
                        "start later, give --wait 10min, and if there is only one process, --distributed off"
                    )
                if now > next_sign:
                    next_sign = now + SIGN
                    for index in links:
                        with _waiting(index, launch, hosts):
                            links[index].send("alive")
                for key, _ in selector.select(min(SIGN, deadline - now)):
                    if key.fileobj is server:
                        with contextlib.suppress(OSError):
                            connection, _ = server.accept()
                            selector.register(connection, selectors.EVENT_READ, Link(connection, silence))
                        continue
                    index = next((index for index, link in links.items() if link is key.data), None)
                    if index is None:
                        selector.unregister(key.fileobj)
                        if _welcome(launch, key.data, links, hosts):
                            selector.register(key.fileobj, selectors.EVENT_READ, key.data)
                    else:
                        # Who has said hello has nothing else to say but that it ends.
                        with _waiting(index, launch, hosts):
                            key.data.receive()
            for key in selector.get_map().values():
                if isinstance(key.data, Link) and key.data not in links.values():
                    key.data.close()
    except ValueError as error:
        for link in links.values():
            with contextlib.suppress(OSError):
                link.send("failed", str(error))
            link.close()
        raise
    for index, link in links.items():
        # One that goes right now is missed by whoever waits for it.
        with contextlib.suppress(OSError):
            link.send("welcome", {str(index): host for index, host in hosts.items()})
    return links, hosts


@contextlib.contextmanager
def _waiting(index: int, launch: Launch, hosts: dict[int, str]) -> Iterator[None]:
    """A block in which the connection to a process that waits with us may end."""
    try:
        yield
    except OSError as error:
        raise ValueError(
            f"process {index} of {launch.count} (on {hosts[index]}) was lost before all were there: {reason_of(error)}"
        ) from None


def _welcome(launch: Launch, link: Link, links: dict[int, Link], hosts: dict[int, str]) -> bool:
    """Take in a process that says who it is; anything else that connects is sent away."""
    link.connection.settimeout(PERSONAL)
    try:
        kind, who, _ = link.receive()
        index, count, host, versions = (who[key] for key in ("index", "count", "host", "versions"))
    except (OSError, TypeError, KeyError):
        link.close()
        return False
    link.connection.settimeout(None)
    wrong = ""
    if kind != "hello" or versions != _versions():
        wrong = f"process {index} on {host} has {versions}, and process 0 has {_versions()}"
    elif count != launch.count or index not in range(1, launch.count) or index in links:
        wrong = f"process {index} of {count} came from {host}, and processes 1 to {launch.count - 1} are expected"
    if wrong:
        with contextlib.suppress(OSError):
            link.send("failed", wrong)
        link.close()
        raise ValueError(wrong)
    links[index], hosts[index] = link, str(host)
    return True


def _come(launch: Launch, seconds: float, silence: float) -> tuple[dict[int, Link], dict[int, str]]:
    deadline, problem = time.monotonic() + seconds, ""
    while time.monotonic() < deadline:
        try:
            link = Link(socket.create_connection((launch.host, launch.port), timeout=PERSONAL), silence)
        except socket.gaierror as error:
            problem = f"the name {launch.host} is not known here ({error.strerror})"
        except OSError as error:
            problem = reason_of(error)
        else:
            return {0: link}, _introduce(launch, link, silence)
        time.sleep(0.2)
    itself = f"; {launch.host} is this machine itself" if is_loopback(launch.host) else ""
    raise ValueError(
        f"process {launch.index} found no process 0 at {launch.address} within {seconds:.0f} s ({problem}{itself})"
    )


def _introduce(launch: Launch, link: Link, silence: float) -> dict[int, str]:
    """Say who we are, and be told who all are once they are there. Until then process 0 gives signs of life."""
    who = {"index": launch.index, "count": launch.count, "host": platform.node(), "versions": _versions()}
    link.connection.settimeout(silence)
    try:
        link.send("hello", who)
        kind, entries, _ = link.receive()
        while kind == "alive":
            kind, entries, _ = link.receive()
    except OSError as error:
        link.close()
        gone = f"process 0 at {launch.address} has gone before all were there: {reason_of(error)}"
        raise ValueError(gone) from None
    link.connection.settimeout(None)
    if kind != "welcome":
        link.close()
        raise ProcessLost(str(entries), told=True)
    return {int(index): host for index, host in entries.items()}


def _server(launch: Launch) -> socket.socket:
    """Where process 0 waits, on all networks of its machine, which has to be the one that was named."""
    try:
        family, _, _, _, address = socket.getaddrinfo(launch.host, launch.port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise ValueError(f"the coordinator {launch.address} has no address here: {error.strerror}") from None
    loopback = is_loopback(str(address[0]))
    if launch.spans_hosts and loopback:
        raise ValueError(
            f"{launch.host} is {address[0]} on the machine of process 0, where no other machine finds it: give "
            "--coordinator HOST:PORT with an address of its network"
        )
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((address[0], 0))
        return socket.create_server((str(address[0]) if loopback else "", launch.port), family=family)
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            raise ValueError(
                f"process 0 runs on {platform.node()}, which is not {launch.host}: give --coordinator HOST:PORT with "
                "the machine of process 0"
            ) from None
        raise ValueError(
            f"process 0 can't wait at {launch.port} ({reason_of(error)}): give another port, --coordinator HOST:PORT"
        ) from None


def _versions() -> str:
    return f"seponet {__version__} with JAX {version('jax')}"


def _numbers(indices: list[int]) -> str:
    shown = ", ".join(map(str, indices[:8])) + (", ..." if len(indices) > 8 else "")
    return f"process {shown}" if len(indices) == 1 else f"processes {shown}"
