"""Describes to a model the sandbox in which its commands run."""

from msgspec import Struct, structs

from teamwright.core.data.message import ToolSpec
from teamwright.core.text import few
from teamwright.runtime.permissions.call_facts import LEAVES

MOST_HOSTS = 12
LEAVING = "Run outside of the sandbox; a person must agree each time"


class SandboxWords(Struct, frozen=True):
    """`own_tmp`: commands have a private /tmp. `network`: there is a proxy. `asks`: somebody can allow further hosts.

    `leaves`: a command may ask to run outside.
    """

    own_tmp: bool
    network: bool
    hosts: tuple[str, ...] = ()
    asks: bool = False
    leaves: bool = True

    def tell(self, spec: ToolSpec) -> ToolSpec:
        """The tool that runs commands, with the sandbox added to its description."""
        schema = dict(spec.schema)
        if self.leaves:
            schema["properties"] = {**schema["properties"], LEAVES: {"type": "boolean", "description": LEAVING}}
        return structs.replace(spec, description=spec.description + self.text(), schema=schema)

    def text(self) -> str:
        tmp = "which is /tmp, theirs alone" if self.own_tmp else "not in the machine's /tmp"
        by = ", through the proxy that HTTPS_PROXY names" if self.network and (self.hosts or self.asks) else ""
        lines = [
            f"- Commands run in a sandbox: they write only in the working directories and in $TMPDIR, {tmp}. They "
            f"do not see keys and other secrets, and reach {self.reach()}{by}. What it refuses fails with an error of "
            "the program's own; the result says so below.",
        ]
        if self.leaves:
            lines.append(
                "- dangerouslyDisableSandbox: true asks a person whether this one command may run outside, and is "
                "refused in plan mode. Use it only for what the sandbox refused or certainly will, and say why in the "
                "description."
            )
        return "".join(f"\n{line}" for line in lines)

    def reach(self) -> str:
        """Which hosts commands reach."""
        if not self.network:
            return "no network"
        if not self.hosts:
            return "a host only after a person's yes" if self.asks else "no host"
        others = " and, after a person's yes, others" if self.asks else " and no other host"
        return few(self.hosts, MOST_HOSTS) + others
