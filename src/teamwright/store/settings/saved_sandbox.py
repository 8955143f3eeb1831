"""Writes into the person's own settings whether their commands run in the sandbox."""

from pathlib import Path

from teamwright.store.settings.saved_values import save_values


def save_sandbox(state: Path, *, on: bool) -> Path:
    """The file that says so now; everything else in it stays. Raises StoreError for one that cannot be read."""
    return save_values(state, {"sandbox.enabled": on, "sandbox.autoAllowBashIfSandboxed": on})
