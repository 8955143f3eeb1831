"""Commands that run what their words name, in ways that depend on their flags and subcommands."""

import pytest
from shell_bench import Bench


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("launchers"))


RUNNERS = [
    "setpriv --reuid 1 touch PW", "linux32 touch PW", "gtimeout 5 touch PW", "tmux new -d 'touch PW'",
    "sg a -c 'touch PW'",
    "/lib64/ld-linux-x86-64.so.2 /usr/bin/touch PW", "npm exec -c 'touch PW'", "bundle exec touch PW",
    "tar -I 'touch PW' -cf a .",
    "tar --info-script='touch PW' -cf a .", "rsync -e 'touch PW' a b:c", "git rebase -x 'touch PW' HEAD",
    "git bisect run touch PW", "git submodule foreach 'touch PW'", "git difftool -x 'touch PW'",
    "unset 'a[$(touch PW)]'",
    "git --no-pager bisect run touch PW", "git -C . bisect run env touch PW",
    "git submodule foreach --recursive touch PW",
    "git -C . submodule --quiet foreach 'touch PW'", "git -p filter-branch --tree-filter 'touch PW'",
    "git -C . difftool -yx 'touch PW'", "git difftool --ext 'touch PW'", "git --no-pager grep -nO'touch PW' a",
    "git grep --open='touch PW' a", "git rebase -vx 'touch PW'", "git rebase --ex='touch PW'",
    "git fetch --upload-p 'touch PW'", "git clone -nu 'touch PW' . x",
    "npm -w a exec touch PW", "npm --silent x -- touch PW", "npm exec -y --package=a -- touch PW",
    "npm exec a --script-shell touch PW", "npx env touch PW", "pnpm -r exec touch PW",
    "pnpm -c exec echo 'a; touch PW'",
    "pnpm exec -c 'touch PW'", "yarn workspace a exec touch PW",
    "yarn workspaces foreach -A exec touch PW", "pnpm --filter a dlx touch PW", "yarn --cwd a dlx touch PW",
    "bundle --gemfile=G exec touch PW", "bundle exec 'touch PW'", "bundle e bash -c 'touch PW'",
    "mise x node@20 -- touch PW", "op run --env-file=a -- touch PW", "ccache find . -exec touch PW ;",
    "gtimeout -k 1 5 touch PW", "genv -i touch PW", "genv -S 'touch PW'", "cross-env A=b touch PW",
    "tmux -L a new 'touch PW'", "tmux kill-session -t a \\; run 'touch PW'",
    "tmux send-keys -t a 'touch PW' Enter", "nc -lp 80 -e touch PW", "ncat -lc 'touch PW' 80",
    "at now <<< 'touch PW'", "crontab - <<E\n* * * * * touch PW\nE", "zip a.zip b -T -TT 'touch PW'",
]  # fmt: skip


@pytest.mark.spec("M3", "M7")
@pytest.mark.parametrize("command", RUNNERS)
def test_a_denied_command_is_found_behind_what_runs_it(bench: Bench, command: str) -> None:
    assert bench.kind(command, "bypassPermissions", deny=["Bash(touch *)"]) == "deny"


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "command",
    [
        "npm run touch", "npm run x touch", "yarn add exec touch",
        "tar -cf touch.tar b.txt", "git commit -m 'touch PW'", "make touch", "git clean -xdf touch",
        "git -C . clean -fdx touch", "git ls-files -o -x touch", "git rm -x touch", "git cherry-pick -x touch",
        "git diff -O order touch", "git rebase -Xours touch", "git grep -eTODO touch", "git bisect good touch",
        "git submodule add touch", "bundle exec rspec touch", "nc -z touch 80", "tmux kill-session -t touch",
    ],
)  # fmt: skip
def test_a_word_alone_is_no_denied_command(bench: Bench, command: str) -> None:
    assert bench.kind(command, "bypassPermissions", deny=["Bash(touch *)"]) == "allow"


@pytest.mark.spec("A6")
@pytest.mark.parametrize(
    "command",
    [
        "git -C . bisect run rm -rf ~", "git -C . submodule foreach 'rm -rf ~'", "git rebase -ix 'rm -rf ~' HEAD",
        "git rebase --exe='rm -rf ~' HEAD", "npm --silent exec -- rm -rf ~", "npx nice rm -rf ~",
        "pnpm -r exec rm -rf ~", "yarn workspace a exec rm -rf ~", "bundle --gemfile=G exec rm -rf ~",
        "mise -C a x -- rm -rf ~", "gnice rm -rf ~", "git -c alias.x='!rm -rf ~' x",
        "git -c 'alias.x=!rm -rf ~' x", "git -c 'core.editor=rm -rf ~' commit", "git rebase '--exec=rm -rf ~' HEAD",
    ],
)  # fmt: skip
def test_no_option_hides_the_removal_of_a_home(bench: Bench, command: str) -> None:
    for mode in ("default", "bypassPermissions"):
        assert bench.judge(command, mode, allow=["Bash"]).kind == "deny", mode


@pytest.mark.spec("M3")
@pytest.mark.parametrize(
    "command",
    [
        "nc -z localhost $PORT", "git bisect good $sha", "git bisect start HEAD $sha", "git bisect run pytest $f",
        "git submodule update --init $path", "git submodule add $url vendor/x", "git submodule foreach git checkout $b",
        "git -C $d submodule update", "tmux kill-session -t $s", "tmux capture-pane -pt $s", "npm exec -- tsc -p $d",
        "npm -w $w exec -- tsc", "npx tsc -p $d", "pnpm -r exec tsc -p $d", "pnpm dlx create-x $x", "yarn exec tsc $x",
        "bundle exec rspec $f", "mise exec node@20 -- node $x", "ccache gcc -c $f", "gtimeout 5 ./x $y",
        "chronic make $x", "cross-env A=b npm run $x", "rlwrap sqlite3 $db", "crontab $f", "npm install $p",
    ],
)  # fmt: skip
def test_a_variable_behind_a_known_command_is_no_denied_command(bench: Bench, command: str) -> None:
    for rules in ({"deny": ["Bash(rm *)"]}, {"ask": ["Bash(rm *)"], "allow": ["Bash"]}):
        assert bench.kind(command, "bypassPermissions", **rules) == "allow", rules


@pytest.mark.spec("M3")
@pytest.mark.parametrize("command",
    ["npm exec -- $x a", "npx $x", "git bisect run $x", "bundle exec env $x a", "ccache bash -c \"$x\"",
        "pnpm -c exec echo \"$x;\"", "gtimeout $x make", "tmux new \"$x a\""])  # fmt: skip
def test_a_command_that_only_run_time_shows_is_asked_about(bench: Bench, command: str) -> None:
    assert bench.kind(command, "bypassPermissions", deny=["Bash(rm *)"]) == "ask"
