"""The network of a box, as whoever made it hands it over."""

from collections.abc import Mapping

from msgspec import Struct


class Net(Struct, frozen=True):
    """`prefix`: the program and its words that enter the network and then start what follows. `env`: what programs
    must be told of it, such as the proxy. `fds` are inherited for that, and `bwrap` are arguments that close them."""

    prefix: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    fds: tuple[int, ...] = ()
    bwrap: tuple[str, ...] = ()
