"""Helper in a root's network that opens sockets there for the program that started it: `PYTHON -I -S FILE FD`.

Orders arrive as messages on FD: `L PORT` for a listener (port 0: any), `C PORT` for a connection. Each is answered with
`ok PORT` and the socket, or with `no REASON`. It starts with `ok 0` and its directory of namespaces. Uses only the
standard library, because `-I -S` allows nothing else. Ends when the other side closes.
"""

import errno
import os
import socket
import sys

_LOOPBACK = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
_CONNECT_SECONDS = 2.0


def main(number: int) -> None:
    orders = socket.socket(fileno=number)
    place = os.open("/proc/self/ns", os.O_PATH | os.O_DIRECTORY)
    socket.send_fds(orders, [b"ok 0"], [place])
    while order := orders.recv(64):
        try:
            made = _obey(order.decode())
        except (OSError, ValueError) as error:
            words = getattr(error, "strerror", None) or str(error)
            orders.send(f"no {words}".encode()[:200])
            continue
        with made:
            port = made.getsockname()[1]
            socket.send_fds(orders, [b"ok %d" % port], [made.fileno()])


def _obey(order: str) -> socket.socket:
    verb, _, number = order.partition(" ")
    if verb == "L":
        return _listener(int(number))
    if verb == "C":
        return _connection(int(number))
    raise ValueError("no such order")


def _listener(port: int) -> socket.socket:
    """A listener for both address families, if both exist. All addresses in this network are loopback."""
    try:
        return socket.create_server(("::", port), family=socket.AF_INET6, backlog=128, dualstack_ipv6=True)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise
    except ValueError:
        pass  # one family only
    return socket.create_server(("127.0.0.1", port), backlog=128)


def _connection(port: int) -> socket.socket:
    refused: OSError = ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens there")
    for family, address in _LOOPBACK:
        try:
            made = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            refused = error
            continue
        try:
            made.settimeout(_CONNECT_SECONDS)
            made.connect((address, port))
        except OSError as error:
            made.close()
            if family == socket.AF_INET:
                refused = error
        else:
            return made
    raise refused


if __name__ == "__main__":
    main(int(sys.argv[1]))
