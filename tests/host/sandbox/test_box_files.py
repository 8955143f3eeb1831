"""What a program in a box can write and read: its roots, but nothing that must stay as it is or stay secret."""

import os
import stat
from pathlib import Path

import pytest
from box_kit import House, snapshot

pytest_plugins = ("box_fixtures",)  # no conftest here: its name would hide the one that all tests use

SWAP = """import ctypes, os
libc = ctypes.CDLL(None)
theirs = os.environb[b"D"] + b"/n/file"
for flags in (0, 1, 2):
    libc.renameat2(-100, b"README", -100, theirs, flags)
    libc.renameat2(-100, theirs, -100, b"taken", flags)
"""
OUTWARD = """
echo x > $H/planted; echo x >> $H/.bashrc; rm -f $H/notes; mv $H/notes $H/moved; truncate -s 0 $H/notes
mkdir $H/dir; ln -s /etc $H/link; ln $H/notes $H/hard; mkfifo $H/pipe
echo x > ../n/planted; echo x > $D/n/file; rm -rf $D/n; mv $D/n $D/m; mv README $D/n/
echo x > /proc/self/root$H/planted; echo x > /proc/$$/cwd/../n/planted
exec 3< $D/n; echo x > /proc/self/fd/3/planted; exec 3<&-
ln -s $H mine; echo x > mine/planted; ln $H/.bashrc hard && echo x >> hard
ln -s ../n/file swap; for i in 1 2 3; do echo x > swap; done; cp /etc/hostname swap
python3 swap.py
mknod disk b 8 0; mknod mem c 1 1; echo x > /usr/local/planted-by-a-test; echo x > /etc/planted-by-a-test
mount -t tmpfs none $P; mount --bind $P $H; umount /proc; chroot / true; unshare -Ur true; nsenter -t 1 -m true
echo inside > inside; mkdir -p a/b && echo deep > a/b/c && cat a/b/c; echo ended
"""


def around(house: House) -> tuple[object, object]:
    """Everything outside the project except our own state."""
    home = {name: found for name, found in snapshot(house.home).items() if not name.startswith(".teamwright")}
    return snapshot(house.neighbour), home


@pytest.mark.spec("V3")
def test_nothing_outside_the_roots_can_be_written(house: House) -> None:
    house.write("p/README", "mine\n")
    house.write("p/swap.py", SWAP)
    before = around(house)
    told = house.one(OUTWARD)
    assert "deep\n" in told.text and told.text.endswith("ended\n"), told
    assert around(house) == before and (house.project / "inside").read_text() == "inside\n"
    assert not Path("/usr/local/planted-by-a-test").exists() and not Path("/etc/planted-by-a-test").exists()
    modes = [path.lstat().st_mode for path in house.project.iterdir()]
    assert not [mode for mode in modes if stat.S_ISBLK(mode) or stat.S_ISCHR(mode)]


@pytest.mark.spec("V3")
def test_modes_and_times_outside_stay(house: House) -> None:
    if house.tier == "landlock":
        pytest.skip("landlock does not cover modes, owners and times")
    house.one("chmod 777 $H/notes; touch -d 2001-01-01 $H/notes; chown 1:1 $H/notes; true")
    after = (house.home / "notes").stat()
    assert stat.S_IMODE(after.st_mode) == 0o644 and after.st_mtime > 1.2e9 and after.st_uid != 1


@pytest.mark.spec("V6")
def test_secrets_are_not_there_by_any_way(house: House) -> None:
    ways = """cat $H/.ssh/id; cat ~/.netrc; cp -r ~/.ssh copied; cat copied/*; ln -s ~/.ssh s; cat s/*; cat s; ls ~/.ssh
    grep -r canary ~; tar cf - ~ | grep -a canary; cat /proc/self/root$H/.ssh/id; cat $D/home/.ssh/id
    cd ~/.ssh && cat id; ln $H/.ssh/id k; mv $H/.ssh here; cat k here/*; true"""
    (house.base / "home").symlink_to(house.home)
    told = house.play(ways, "cat ~/notes; cat $D/home/notes")
    assert "canary-" not in told[0].text and told[1].text == "harmless\nharmless\n"


@pytest.mark.spec("V6", "V22")
def test_denied_reads_and_what_is_shown_again(house: House) -> None:
    house.write("h/work/hidden", "canary-h\n")
    house.write("h/work/shown/f", "to-be-seen\n")
    (house.base / "other").symlink_to(house.home / "work")
    rules = {"deny_read": [f"{house.base}/other"], "allow_read": [f"{house.home}/work/shown"]}
    told = house.one("cat ~/work/hidden $D/other/hidden; cat ~/work/shown/f; echo x > ~/work/shown/f", rules=rules)
    assert "canary" not in told.text and "to-be-seen" in told.text
    assert (house.home / "work/shown/f").read_text() == "to-be-seen\n"


@pytest.mark.spec("V6")
def test_what_is_denied_inside_a_root(house: House) -> None:
    house.write("p/keys/k", "canary-key\n")
    ways = "cat keys/k; find . -name k -exec cat {} +; cp keys/k c; cat c; mv keys x; cat x/*"
    told = house.one(ways, rules={"deny_read": [f"{house.project}/keys"]})
    assert "canary" not in told.text
    assert bool(told.fault) == (house.tier == "landlock"), "landlock cannot hold it, and says so"


@pytest.mark.spec("V3", "V4")
def test_allowed_and_denied_writes(house: House) -> None:
    house.write("p/a/closed/f", "as it was\n")
    (house.base / "more").mkdir()
    closed = [f"{house.project}/a/closed", f"{house.project}/none"]
    told = house.one(
        """echo x > $D/more/f; echo x > a/closed/f; echo x > a/closed/new; rm -rf a/closed; mv a/closed b; mv a c
        mkdir -p a/closed; echo evil > a/closed/f; echo x > none; true""",
        rules={"allow_write": [f"{house.base}/more"], "deny_write": closed},
    )
    assert (house.base / "more/f").exists() and not told.fault
    assert (house.project / "a/closed/f").read_text() == "as it was\n"
    assert os.listdir(house.project / "a/closed") == ["f"] and not (house.project / "none").exists()


@pytest.mark.spec("V11")
def test_plan_writes_nothing_but_its_tmp(house: House) -> None:
    house.repository()
    before = snapshot(house.project)
    ways = "echo x > new; git status --short; git commit -q --allow-empty -m x; echo t > $TMPDIR/f && cat $TMPDIR/f"
    told = house.one(ways, mode="plan")
    assert snapshot(house.project) == before and told.text.endswith("t\n")


@pytest.mark.spec("V20")
def test_a_tmp_of_its_own_that_stays(house: House) -> None:
    place = "/tmp" if house.tier == "bwrap" else "$TMPDIR"
    name = f"by-a-test-{os.getpid()}"
    told = house.play(f"echo kept > {place}/{name}; echo x > /var/tmp/{name}", f"cat {place}/{name}; mktemp")
    assert told[1].text.startswith("kept\n") and told[1].status == 0 and (house.base / "t" / name).exists()
    assert not (Path("/tmp") / name).exists() and not (Path("/var/tmp") / name).exists()


@pytest.mark.spec("V20")
def test_a_cache_of_its_own_in_a_hidden_place(house: House) -> None:
    house.write("h/.teamwright/state.db", "canary-state\n")
    told = house.one("cd $H/.teamwright; echo c > sandbox/p/f; cat state.db; echo junk >> state.db; true")
    assert (house.home / ".teamwright/sandbox/p/f").read_text() == "c\n" and "canary" not in told.text
    assert (house.home / ".teamwright/state.db").read_text() == "canary-state\n"


@pytest.mark.spec("V3")
def test_odd_names(house: House) -> None:
    odd, deep = "od d\n\"q'$x\t\\", "/".join("abcdefghij")
    house.write(f"p/{odd}/f", "as it was\n")
    house.write(f"p/{deep}/f", "as it was\n")
    bad = os.fsencode(house.project) + b"/\xff\xfe"
    os.mkdir(bad)
    Path(os.fsdecode(bad), "f").write_text("as it was\n")
    closed = [f"{house.project}/{name}" for name in (odd, deep, "a")]
    closed += [os.fsdecode(bad)] if house.user == "me" else []  # another user gets its order as JSON
    script = r"""for d in od* a/b/c/d/e/f/g/h/i/j a $'\xff\xfe'
    do echo x > "$d/f"; echo x > "$d/new"; done; echo x > fine"""
    told = house.one(script, rules={"deny_write": closed})
    assert not told.fault and (house.project / "fine").exists()
    assert (house.project / odd / "f").read_text() == (house.project / deep / "f").read_text() == "as it was\n"
    assert not list(house.project.glob("a/**/new")) and not (house.project / odd / "new").exists()
    if house.user == "me":
        assert os.listdir(bad) == [b"f"]


@pytest.mark.spec("V3")
def test_a_root_below_the_machines_tmp(namespaced: House, tmp_path: Path) -> None:
    """Its mount point is in the box's own /tmp; a link that a program puts there leads nowhere and breaks nothing."""
    root = tmp_path / "p"
    root.mkdir()
    (root / "f").write_text("seen\n")
    top = tmp_path.parts[2]
    first = namespaced.play("cat f; ls /tmp", roots=(str(root),))
    assert first[0].fault == "" and first[0].text == f"seen\n{top}\n"
    place = namespaced.base / "t" / top
    place.rename(namespaced.base / "t" / "moved")
    place.symlink_to("../etc")
    after = namespaced.play("cat f; echo x > g", roots=(str(root),))
    assert after[0].text == "seen\n" and (root / "g").read_text() == "x\n"


@pytest.mark.spec("V2")
def test_a_root_that_is_gone_is_an_error_of_that_command(mine: House) -> None:
    told = mine.play("echo ran > $H/x", roots=("gone",))
    assert "gone" in told[0].fault and not (mine.home / "x").exists()


@pytest.mark.spec("V3")
def test_a_project_below_a_link(mine: House) -> None:
    (mine.base / "link").symlink_to(mine.project)
    told = mine.one("echo x > new; pwd -P", roots=("link",))
    assert told.text == f"{mine.project}\n" and (mine.project / "new").exists()


EVIL = r"""#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) void begin(void) {
    char path[512]; snprintf(path, 512, "%s/ran", getenv("WHERE")); FILE *f = fopen(path, "w"); if (f) fclose(f); }
"""


@pytest.mark.spec("V21")
def test_the_environment_of_a_program_is_not_that_of_the_fence(namespaced: House) -> None:
    """A library in `LD_PRELOAD` would run outside, before the fence stands."""
    source, made = namespaced.write("p/evil.c", EVIL), namespaced.project / "evil.so"
    if os.system(f"cc -shared -fPIC -o {made} {source} 2>/dev/null"):
        pytest.skip("no compiler")
    told = namespaced.one("echo ran", env={"LD_PRELOAD": str(made), "WHERE": str(namespaced.neighbour)})
    assert "ran\n" in told.text and not (namespaced.neighbour / "ran").exists()
