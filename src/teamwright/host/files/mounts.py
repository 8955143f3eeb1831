"""Tells whether a directory is on a local disk, where looking at a file is cheaper than a thread."""

from pathlib import Path

_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "f2fs", "bcachefs", "apfs"})
_devices: dict[int, bool] = {}  # by device number, so that the mount table is read once per device


def is_near(path: Path) -> bool:
    """Looks in the mount table, by the text of the path, so links in it must be resolved.

    A file system that is not known to be local might hang, so it counts as remote.
    """
    try:
        device = path.stat().st_dev
        if device in _devices:
            return _devices[device]
        table = Path("/proc/self/mountinfo").read_text(errors="replace")
    except OSError:
        return False
    found, kind = -1, ""
    for line in table.splitlines():
        fields, _, rest = line.partition(" - ")
        place = fields.split(" ")[4].replace("\\040", " ")
        if len(place) >= found and (path == Path(place) or path.is_relative_to(place)):
            found, kind = len(place), rest.split(" ")[0]
    _devices[device] = kind in _LOCAL
    return _devices[device]
