"""The network of a box, as prepared by its creator."""

from collections.abc import Mapping

from msgspec import Struct


class Net(Struct, frozen=True):
    """`prefix`: a command that enters the network and then starts what follows. `env`: variables that programs need,
    such as the proxy. `fds` are inherited for that; `bwrap` are arguments that close them."""

    prefix: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    fds: tuple[int, ...] = ()
    bwrap: tuple[str, ...] = ()
