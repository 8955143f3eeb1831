"""Command lines written to fool the judge: bash reads each differently from how it looks."""

import time
from pathlib import Path

import pytest
from shell_bench import Bench

from teamwright.host.shell.analysis import read_command
from teamwright.host.shell.cwd import ShellContext


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    bench = Bench(tmp_path_factory.mktemp("spellings"))
    (bench.root / "tools").mkdir()
    (bench.root / "-delete").write_text("")
    (bench.root / "up").symlink_to("..")
    return bench


SPELLINGS = {
    "an escaped blank before a comment": [
        "ls \\ #; touch PW", "git log -n1 \\ #|| touch PW", "echo a \\\t# b; touch PW", "ls\\\n#; touch PW",
        "ls a\\ \\\n#; touch PW", "ls a\\;\\\n#; touch PW", "cat b.txt\\ \\\n#||echo x > PW",
        "[ a ]#; touch PW", "bash -c 'ls \\ #; touch PW'",
    ],
    "descriptors by another name": [
        "echo x > /dev/fd/../cwd/PW", "cat /dev/fd/../cwd/../secret", "cat /dev/fd/0/../x",
        "cat /proc/self/cwd/../secret",
        "cat 2>&- ../outside/secret", "find 2>&- -delete",
    ],
    "a dash that the parser loses": [
        "sh - <<E\nls\nE", "cat - <<E && touch PW\n$(cat - <<F\nx\nF\n)\nE", "X=1 - <<E\nx\nE", "cd - <<E\nx\nE",
        "ls \\ - <<E\nx\nE", "sort -o - <<E\nx\nE",
    ],
    "signatures that git checks": [
        "git log --format='%h %G?'", "git log --pretty=format:%-GK", "git log --format=\"$x\"",
        "git show '--format=% GS'",
        "git stash list --format=%GG", "git for-each-ref --format '%(*signature:grade)'", "git tag --sort -signature",
        "git branch --sort=signature", "git tag --sort=v:signature", "git branch --sort=-version:signature",
        "git for-each-ref --sort '-v:*signature:grade'", "git tag '--sort=version:*signature'",
        "git rev-list --pretty=%GG HEAD", "git shortlog --group=%GS",
        "git shortlog --group 'format:%G?' HEAD", "git log --show-signature",
    ],
    "a program of the project": ["./env ls", "./bash -c true", "tools/timeout 5 ls", "echo a | ./xargs echo"],
    "words that split": [
        "find . -name {b.txt,-delete}", "find . -name $(echo a -delete)", "x='a -delete'; find . -name $x",
        "rg -e {a,--pre=./evil} .", "head -n $x b.txt", "echo 'a -delete' | xargs find . -name", "env a=$x ls",
        "git log -n {1,--output=PW}", "git log --format=%s$x", "git stash list $x", "git stash list \"$x\"",
        "sort -k {1,-oPW} b.txt", "bash -c 'find . -name \"$@\"' a b -delete", "find . -name [b-]*", "find . -name *",
        "head -n * b.txt", "x=(a -delete); find . -name \"${x[@]}\"",
    ],
    "values that are evaluated": [
        "[ $x ]", "[ \"$x\" \"$y\" ]", "[ \"$x\" 'a[$(touch PW)]' ]", "test ! \"$x\" \"$y\"", "[[ (-v $x) ]]",
        "[ -n a -a \"$x\" \"$y\" ]", "declare -a x='($(touch PW))'", "declare y=\"$x\"", "a=([$x]=1)", "echo $[x]",
        "printf '%n' 'a[$(touch PW)]'", "printf %ln PATH; ls", "printf '%hn' PATH", "echo ${x:-$[y]}",
        "echo \"${x:-$[y]}\"", ": {PATH}</dev/null; ls", ": {PATH}>&1; ls", "cat b.txt {PA\\\nTH}<<< x; ls",
        "{ ls; } {PATH}</dev/null", "cat {x[y]}<b.txt", "printf \"a$x\" 'a[$(touch PW)]'",
    ],
    "optional values": [
        "echo x | xargs --eof flock echo touch PW", "echo x | xargs --max-lines flock echo touch PW",
        "echo x | xargs --replace rm echo b.txt", "od -c -w ../outside/secret", "du -a --time ..",
        "git diff --relative --output=PW", "git log --abbrev --output=PW", "git diff -U --output=PW",
        "git log --format --output=PW", "git blame -ML --contents=../outside/secret b.txt", "date -Id -s2030-01-01",
    ],
    "values that are flags": [
        "git log -pn --output=PW", "git log -rS --output=PW", "git diff -cS --output=PW", "git log -pn PW",
        "git rev-list -L --output=PW HEAD", "git branch --format --list PW", "git branch --sort --list PW",
        "git tag --sort -l PW", "git tag --format --list PW",
    ],
    "flags of another kind": [
        "xxd -al ../outside/secret PW", "xxd -al b.txt .git/HEAD", "xxd b.txt PW", "tree -iLo 2 PW", "strings @b.txt",
        "grep -d recurse x ..", "grep --directories=recurse x ..", "jq -n 'import \"a\" as $d; $d'", "file -p b.txt",
        "column -n x b.txt", "tee -- -a x", "git remote -v update", "git branch --merged -- -D x",
    ],
    "names by their bytes": ["cat $'\\xc3\\xa9'", "cat $'\\303\\251'", "cat $'\\u00e9'", "cat ~\\/root/b.txt"],
    "an environment without a path": [
        "env -i bash -c 'rg x'", "env -u PATH bash -c ls", "env - bash -c ls", "env -vi ls", "exec -c bash -c ls",
        "env --unset=PATH bash -c ls", "env --unset PATH bash -c ls",
    ],
    "locales": ["LC_ALL=zh_TW.BIG5; ls", "export LANG=zh_CN.GBK; ls", "read LC_ALL <<< x; ls", "LC_CTYPE=zh_TW ls"],
    "marks of xargs": ["echo ./evil | xargs -rI echo env echo x", "echo ./evil | xargs -0tI ls timeout 5 ls"],
    "a directory that code changes": [
        "cd tools && for i in 1 2; do cat ../outside/secret; eval 'cd ..'; done",
        "cd tools && until cat ../secret; eval cd ..; do :; done",
    ],
    "other shells": ["sh -c \"echo \\$'\\\\'; touch PW #'\"", "dash -c 'echo \"$x\"'", "zsh -c 'echo =ls'",
        "bash -c -- 'touch PW'", "bash -c -x 'touch PW'"],
    "what find runs": [
        "find . -maxdepth 0 -exec rg . + -user --pre=./evil -perm \\;", "find . -exec echo \"$x\" -delete \\;",
        "find . -exec echo a{} + -delete \\;", "find . -exec cat {}",
    ],
    "quotes that end elsewhere": [
        "echo $'\\\\'; touch PW #'", "echo ${x:-{}; touch PW; echo }", "echo \"${x:-'}\"; touch PW; echo \"'}\"",
        "cat <<'E\n' > PW\na\nE",
    ],
    "a directory that is another": [
        "cd -- && ls", "cd -P way/.. && cat secret", "cd up/project/.. && cat outside/secret", "cd src > ../PW",
        "cd up/../project && cat ../outside/secret",
    ],
    "names that wildcards show": ["echo way/*", "echo ~/*", "for x in way/*; do echo $x; done", "x=(way/*); echo $x"],
    "variables that name files": ["TZ=/etc/passwd date", "TZ=:../x date"],
}  # fmt: skip


CLEANS = [
    "git --work-tree=$HOME clean -fdx", "GIT_WORK_TREE=~ git clean -fd", "export GIT_WORK_TREE=~; git clean -fd",
    "git -c core.workTree=$HOME clean -fd", "git -C ~ clean -fdx .", "git -C ~ clean -fdx -e keep",
    "git -C ~ -C . clean -fdx", "git -C ~/x -C .. clean -fdx", "git -C ~ clean -fdx ':!x'", "git clean -fdx ~/x/..",
    "git -C ~ clean -fdx -e -n", "git -C ~ clean -fdxe keep", "git -C ~ clean -fdx --exclude -n",
    "git -C ~ clean -fdx --exc keep", "git -C ~ clean -fdx -- -n .", "git -C ~ clean -n --no-dry-run -fdx",
    "x=--no-dry-run; git -C ~ clean -fdxn $x", "git -C ~ clean -fdxn \"$x\"", "git -C ~ clean -fdx -e $x -n",
    "git -C ~ clean -fdx -$x -n", "git -C ~ clean -fdxn --$x", "git -C ~ clean -fdxn -e -- $x",
    "git -C ~ clean -fdxn {a,--no-dry-run}", "git -C ~ clean -fdxn *", "git --shallow-file x -C ~ clean -fdx",
    "git --attr-source HEAD -C ~ clean -fdx",
    "env GIT_WORK_TREE=~ git clean -fd", "sudo GIT_WORK_TREE=~ git clean -fd",
    "bash -c 'GIT_WORK_TREE=~ git clean -fd'",
    "GIT_WORK_TREE=~; export GIT_WORK_TREE; git clean -fd", "set -a; read GIT_WORK_TREE <<< ~; git clean -fd",
    "set -a; for GIT_WORK_TREE in ~; do git clean -fd; done", "eval \"export GIT_WORK_TREE=$d\"; git clean -fd",
    "git config core.workTree ~ && git clean -fd", "git --config-env=core.worktree=HOME clean -fd",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.worktree GIT_CONFIG_VALUE_0=~ git clean -fd",
    "git --git-dir=.git --work-tree=$HOME init && git clean -fd", "declare -x GIT_DIR=~/.git; git clean -fd",
    "git -C ~ -c clean.requireForce=false clean -dx", "npx -y rimraf ~", "setpriv --reuid 1 rm -rf ~",
]  # fmt: skip


@pytest.mark.spec("A6")
@pytest.mark.parametrize("command", CLEANS)
def test_what_may_empty_the_home_needs_approval_in_every_mode(bench: Bench, command: str) -> None:
    assert bench.kind(command, "bypassPermissions", allow=["Bash"]) != "allow"


@pytest.mark.spec("A6")
@pytest.mark.parametrize(
    "command",
    [
        "git clean -fdx", "git -C src clean -fdx", "git clean -fdx :/", "git clean -fdx -e .env", "git -C ~ clean -n",
        "git -C ~ clean -ndx", "git -C ~ clean --dry-run -d", "git clean -fdx -- src", "git clean -fdxe .env",
        "git -C ~ clean -n -- $x", "git -C ~ clean -n \"a$x\"", "git -C ~ clean -n -e \"$x\"",
        "git clean -fdx $x", "git clean -fdx -e \"$x\"",
        "git clean -n $x", "git -C src clean -fd \"$x\"", "cd src && git clean -fdx *.o",
        "git rev-parse --git-dir && git clean -fd", "git clean -fd && echo worktree=1",
        "cd \"$(git rev-parse --show-toplevel)\" && echo \"GIT_DIR and core.worktree\"; git clean -nd",
        "git log --grep=core.worktree && git clean -fd", "git commit -m 'about GIT_DIR' && git clean -fd",
        "git worktree add ../x && git clean -fd", "git diff -- --work-tree; git clean -fd",
    ],
)  # fmt: skip
def test_cleaning_the_project_is_left_to_the_mode(bench: Bench, command: str) -> None:
    assert bench.kind(command, "bypassPermissions") == "allow"


@pytest.mark.spec("M7")
@pytest.mark.parametrize("command", [line for lines in SPELLINGS.values() for line in lines])
def test_no_spelling_passes_unasked(bench: Bench, command: str) -> None:
    assert bench.judge(command).kind == "ask"
    assert bench.judge(command, "dontAsk").kind == "deny"


NEIGHBOURS = [
    "ls -la # a comment", "ls \\\n  -la", "grep -rn foo src", "grep -e a -e b b.txt", "find . -name '*.py' -type f",
    "find . -maxdepth 2 -name \"$x\"", "git diff --stat HEAD~1", "git log --oneline -n 5", "git log --format=%h -3",
    "git diff -U5 -M50 -- src", "git log --abbrev=8", "wc -l src/*.py", "ls s*", "head -n 3 b.txt", "echo $x \"$y\"",
    "printf '%s\\n' $x", "[ \"$x\" = a ] && echo yes", "[ -n \"$x\" ]", "[[ $x == a* ]]", "test ! -f \"$x\"",
    "echo a | xargs echo", "timeout 5 /usr/bin/env ls", "bash -c 'ls src'", "sh -c 'ls src'", "cat b.txt 2>&1 | head",
    "tree -L 2 src", "xxd -l 16 b.txt", "cd src/.. && ls", "cat /dev/null", "cat < /dev/stdin", "date -u +%F",
    "TZ=UTC date", "TZ=Europe/Berlin date", "for f in *.txt; do echo \"$f\"; done", "git remote -v", "jq -r .a b.txt",
    "x=${HOME:-/}; echo \"$x\"", "strings -n 8 b.txt", "column -t b.txt", "ls | tee /dev/null", "cat <<'E'\n$x\nE",
    "if [ -f b.txt ];then cat b.txt;fi", "ls 2>/dev/null", "echo {a,b}", "git branch --sort -committerdate",
    "git tag --sort=-version:refname", "git tag --sort=v:refname",
    "git branch --list 'v*' --format='%(refname)'", "git blame -w -M -C -L 1,2 b.txt", "git log -p -n 2 -S foo",
    "grep -rn -e -x src", "head -n -1 b.txt", "cut -d - -f 1 b.txt", "date -Iseconds", "date -d yesterday +%F",
    "echo ${x}>/dev/null", "{ ls; }>/dev/null", "cat $'b.txt'", "LC_ALL=C sort b.txt", "LANG=en_US.UTF-8 ls",
    "printf '%-5s|%5d\\n' a 3", "echo \"${x:-$HOME}\"", "find . -type f | xargs -I{} echo {}",
]  # fmt: skip


@pytest.mark.spec("M7")
@pytest.mark.parametrize("command", NEIGHBOURS)
def test_their_harmless_neighbours_run_unasked(bench: Bench, command: str) -> None:
    (bench.root / "-delete").unlink(missing_ok=True)
    for mode in ("default", "plan"):
        verdict = bench.judge(command, mode)
        assert verdict.kind == "allow", verdict


@pytest.mark.spec("M7")
def test_wildcards_do_not_match_what_the_line_itself_makes(bench: Bench) -> None:
    assert bench.kind("wc -l s*/*.py", "acceptEdits") == "allow"
    for line in (": > '--compress-program=bash'; sort s*/*.py", "echo a > a1; uniq s*/*.py", "ls | tee x; cat s*/*.py"):
        assert bench.kind(line, "acceptEdits") == "ask", line


@pytest.mark.spec("M7")
def test_git_is_unknown_where_the_line_itself_makes_a_repository(bench: Bench) -> None:
    assert bench.kind("git log > log.txt; cd src && git status", "acceptEdits") == "allow"
    for line in ("echo x > src/HEAD; cd src && git status", "ls | tee src/HEAD; cd src && command git log -p"):
        assert bench.kind(line, "acceptEdits") == "ask", line


DOUBTFUL = [
    'rm -rf "${HOME:?}"/*', "d=$HOME; rm -rf $d", "rm -rf $(echo ~)", 'rm -rf "$UNSET/"', "rm -rf {~,a}",
    "rm -rf ~/{*,.*}",
    'cd "$x" && rm -rf *', "echo ~ | xargs rm -rf", "find $(echo ~) -delete", "find \"$d\" -delete", "f=-rf; rm $f ~",
    "f=-rf; rm \"$f\" ~", "bash -c 'rm -rf ${d:-~}'", "$x -rf ~", "find ~ -mtime +1 -delete",
    "find . -exec rm -r {}/.. \\;",
    "ls \\ #; rm -rf build", "cd ~ && rm -rf /proc/self/cwd/*", "ln -s ~ x; rm -rf x/*", "ln -s $d x; find x/ -delete",
    "echo 'cd ~; rm -rf *' | bash", "bash <<< 'cd ..; rm -rf *'", ". <(echo 'cd ~; rm -rf *')",
    "c='cd ~; rm -rf *'; eval \"$c\"", "hash -p /bin/rm x; x -rf ~", "alias r='rm -rf'; r ~",
    "for i in 1 2; do rm -rf *; cd ..; done", "f() { rm -rf *; }; cd ~; f", "trap 'rm -rf *' EXIT; cd ~",
    "HOME=/; rm -rf ~/home", "find ~ -mindepth 1 -exec sh -c 'rm -rf {}' \\;", "cd ~ && mv {*,.*} /tmp",
    "d=~; mv \"$d\" /tmp/gone", "mv ${PWD%/*} /tmp/gone", "x=cd; $x ..; rm -rf *", "cd \"$d\"; mv * /tmp",
    "mv ~/[a-z]* /tmp", "find -L . -delete", "mv /proc/self/root$HOME /tmp/gone", "ls \\ #; mv x y",
]  # fmt: skip


@pytest.mark.spec("A6")
@pytest.mark.parametrize("command", DOUBTFUL)
def test_what_may_remove_a_home_is_asked_in_every_mode(bench: Bench, command: str) -> None:
    for mode in ("default", "acceptEdits", "bypassPermissions"):
        assert bench.judge(command, mode, allow=["Bash", "Bash(rm *)"]).kind in ("ask", "deny"), mode


RUIN = [
    "ls \\ #; rm -rf ~", "rm -rf up/home/ann", "cd && rm -rf ./*", "cd -- && rm -rf *", "rm -rf ~/*/*", "rm -rf ~//",
    "find ~ -name '*' -delete", "find ~ ! -name x -delete", "command rm -rf ~", "\\rm -r ~", "rm -rf -- ~",
    "bash -c -- 'rm -rf ~'", "find ~ -type f -exec rm {} +", "find ~ -exec env rm -rf {} +",
    "find ~ -path \"$HOME/*\" -delete", "find ~ -path '*/home/*' -delete", "find ~ -name '[a-zA-Z.]*' -delete",
    "find ~ -regex '.*[a-z].*' -delete", "find ~ -name '*[a-z]*' -exec nice rm {} +", "rm -rf ~/??*", "mv ~ /tmp/gone",
    "mv ~/* /tmp", "mv -t /tmp ~/*", "cd ~ && mv * /tmp",
]  # fmt: skip


@pytest.mark.spec("A6")
@pytest.mark.parametrize("command", RUIN)
def test_a_home_is_not_removed_by_any_spelling(bench: Bench, command: str) -> None:
    for mode in ("default", "bypassPermissions"):
        assert bench.judge(command, mode, allow=["Bash"]).kind == "deny", mode


REMOVALS = [
    "rm -rf build dist", "find ~ -name '*.pyc' -delete", "find ~ -path '*/.cache/pip/*' -delete", "mv *.md docs/",
    "for f in *.txt; do mv \"$f\" \"${f%.txt}.md\"; done", "mv $x docs/", "mv src/{a,b}.py x",
    "mv src/[ab]* x", "$VENV/bin/python -m build; rm -rf build",
    "find . -name __pycache__ -type d -exec rm -rf {} +", "export PATH=$PWD/bin:$PATH; rm -rf build && make",
    "ln -s src/a.py x && rm -rf build", "mv \"$x\" \"$y\"", "f() { echo hi; }; f; rm -rf build", "curl -s x | bash",
    "trap 'rm -rf /tmp/x' EXIT; make", "git rm -r --cached x", "git commit -m 'never rm -rf ~'", "mv src/* lib/",
]  # fmt: skip


@pytest.mark.spec("A6")
@pytest.mark.parametrize("command", REMOVALS)
def test_what_removes_no_home_is_not_asked_in_bypass(bench: Bench, command: str) -> None:
    assert bench.kind(command, "bypassPermissions") == "allow"


@pytest.mark.spec("A6")
def test_a_home_behind_a_link_or_a_wildcard_is_a_home(bench: Bench) -> None:
    (bench.root / "link").symlink_to(bench.home)
    for command in (
        "rm -rf link/",
        "rm -rf link/*",
        f"rm -rf {bench.home.parent}/*/*",
        f"rm -rf {bench.home.parent}/a*",
    ):
        assert bench.kind(command, "bypassPermissions") == "deny", command
    for command in ("rm -rf link", "rm -rf link/x/build", "find . -name '*.pyc' -exec rm -rf {} +", 'rm "$x"'):
        assert bench.kind(command, "bypassPermissions") == "allow", command


@pytest.mark.spec("A9", "M7")
@pytest.mark.parametrize(
    "command",
    [
        "echo " + "${a:-" * 1000 + "}" * 1000, "(" * 5000, "ls " + "*/" * 2000, "xargs " * 15_000,
        "env " * 15_000 + "ls",
        "a " * 49_000, "find . " + "-exec find . " * 900 + "{} +", "ls " + "*a* " * 1500, "ls; " * 20_000,
        "x=1 " * 20_000,
        "cd src; " * 4000,
    ],
    ids=lambda command: command[:12],
)  # fmt: skip
def test_a_command_that_is_hard_to_judge_is_asked_and_soon(bench: Bench, command: str) -> None:
    before = time.process_time()
    verdict = bench.judge(command, deny=["Bash(git push origin *)", "Bash(rm *)"])
    assert verdict.kind == "ask" and time.process_time() - before < 5


@pytest.mark.spec("M7")
def test_git_is_known_only_where_its_configuration_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    config = tmp_path / ".git/config"
    around = ShellContext(str(tmp_path), "/home/nobody", (str(tmp_path),))
    for text, harmless in (("[core]\n\tbare = false\n", True), ("[core]\n\tfsmonitor = ./x\n", False)):
        config.write_text(text)
        assert read_command("git status", "Bash", around).commands[0].harmless is harmless
    trusted = ShellContext(str(tmp_path), "/home/nobody", (str(tmp_path),), trusted=True)
    assert read_command("git status", "Bash", trusted).commands[0].harmless
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/HEAD").symlink_to("refs/heads/main")
    for at in (around, trusted):
        assert not read_command("cd docs && git status", "Bash", at).commands[-1].harmless
