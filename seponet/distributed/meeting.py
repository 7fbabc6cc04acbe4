"""How the processes of a launch find each other: process 0 waits at an address, and the others come."""

import contextlib
import errno
import platform
import socket
import time
from importlib.metadata import version

from .. import __version__
from .group import ProcessLost
from .launch import Launch, is_loopback
from .link import Link, reason_of

PERSONAL = 5.0
"""Seconds that a process has to say who it is."""


def meet(launch: Launch, seconds: float, silence: float) -> tuple[dict[int, Link], dict[int, str]]:
    """A link to process 0, or from it to all others; and the machines of all processes.

    **Arguments:**

    - `seconds`: in which all have to be there; a `ValueError` names who is missing.
    - `silence`: see `Link`.
    """
    return _assemble(launch, seconds, silence) if launch.index == 0 else _come(launch, seconds, silence)


def _assemble(launch: Launch, seconds: float, silence: float) -> tuple[dict[int, Link], dict[int, str]]:
    links: dict[int, Link] = {}
    hosts = {0: platform.node()}
    deadline = time.monotonic() + seconds
    try:
        with _server(launch) as server:
            while len(links) < launch.count - 1:
                server.settimeout(max(deadline - time.monotonic(), 0.01))
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    missing = _numbers(sorted(set(range(1, launch.count)) - set(links)))
                    raise ValueError(
                        f"{missing} of {launch.count} did not come to {launch.address} within {seconds:.0f} s; if "
                        "there is only one process, give --distributed off"
                    ) from None
                _welcome(launch, connection, silence, links, hosts)
    except ValueError as error:
        for link in links.values():
            with contextlib.suppress(OSError):
                link.send("failed", str(error))
            link.close()
        raise
    for link in links.values():
        link.send("welcome", {str(index): host for index, host in hosts.items()})
    return links, hosts


def _welcome(
    launch: Launch, connection: socket.socket, silence: float, links: dict[int, Link], hosts: dict[int, str]
) -> None:
    """Take in a process that says who it is; anything else that connects is sent away."""
    link = Link(connection, silence)
    connection.settimeout(PERSONAL)
    try:
        kind, who, _ = link.receive()
        index, count, host, versions = (who[key] for key in ("index", "count", "host", "versions"))
    except (OSError, TypeError, KeyError):
        link.close()
        return
    connection.settimeout(None)
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
            return {0: link}, _introduce(launch, link, deadline - time.monotonic())
        time.sleep(0.2)
    itself = f"; {launch.host} is this machine itself" if is_loopback(launch.host) else ""
    raise ValueError(
        f"process {launch.index} found no process 0 at {launch.address} within {seconds:.0f} s ({problem}{itself})"
    )


def _introduce(launch: Launch, link: Link, seconds: float) -> dict[int, str]:
    """Say who we are, and be told who all are once they are there."""
    who = {"index": launch.index, "count": launch.count, "host": platform.node(), "versions": _versions()}
    # Process 0 gives up by itself; its clock may have started later.
    link.connection.settimeout(max(seconds, 1.0) + 60.0)
    try:
        link.send("hello", who)
        kind, entries, _ = link.receive()
    except OSError as error:
        gone = f"process 0 at {launch.address} has gone before all were there: {reason_of(error)}"
        raise ValueError(gone) from None
    link.connection.settimeout(None)
    if kind != "welcome":
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
