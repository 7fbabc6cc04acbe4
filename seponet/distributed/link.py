"""One connection between two processes: messages with a kind, some entries, and bytes."""

import contextlib
import json
import socket
import struct
import threading
import time
from typing import Any

HEAD = struct.Struct("!4sIQ")
"""A mark, the length of the entries, and that of the bytes."""
MARK = b"sepo"
MOST_ENTRIES, MOST_BYTES = 2**26, 2**36
"""What a message may have: more is no message of ours."""


class Link:
    """A TCP connection that carries whole messages; any thread may send.

    Entries are JSON and bytes are arrays of numbers: nothing that arrives is ever run.

    **Arguments:**

    - `connection`: the socket.
    - `silence`: seconds after which the system gives up on what the other side doesn't confirm.
    """

    def __init__(self, connection: socket.socket, silence: float) -> None:
        self.connection, self.heard = connection, time.monotonic()
        self._sending = threading.Lock()
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * silence))

    def send(self, kind: str, entries: Any = None, content: bytes = b"") -> None:
        """An `OSError` if the other side has gone."""
        text = json.dumps([kind, entries]).encode()
        with self._sending:
            self.connection.sendall(HEAD.pack(MARK, len(text), len(content)) + text)
            self.connection.sendall(content)

    def receive(self) -> tuple[str, Any, bytes]:
        """The next message; an `OSError` if there will be none."""
        mark, length, size = HEAD.unpack(self._read(HEAD.size))
        if mark != MARK or length > MOST_ENTRIES or size > MOST_BYTES:
            raise ConnectionError("what came is no message of seponet's")
        try:
            kind, entries = json.loads(self._read(length))
        except (ValueError, TypeError) as error:
            raise ConnectionError(f"what came can't be read ({error})") from None
        return str(kind), entries, bytes(self._read(size))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()

    def _read(self, size: int) -> bytearray:
        content = bytearray(size)
        view, done = memoryview(content), 0
        while done < size:
            count = self.connection.recv_into(view[done:])
            if not count:
                raise ConnectionError("the connection was closed")
            # A long message is a sign of life all the time.
            self.heard = time.monotonic()
            done += count
        return content


def reason_of(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
