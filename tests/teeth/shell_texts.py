"""Shapes that are mostly text: noise, here-documents, arithmetic and subscripts, odd paths, ruin, depth."""

from pathlib import Path

from shell_pools import Dice
from shell_spell import JOINTS, disturb

PIECES = ["echo", "a", "zz", " ", "  ", "\n", ";", "&&", "||", "|", "&", "(", ")", "{", "}", "{ ", "; }", "$(", "`", "<(", ">(", "'", '"', "\\",
    "\\\n", "$", "${x:-", "}", "$((", "))", "x=", "x=zz", "$x", "<<E\n", "\nE\n", "<<'E'\n", "<<-E\n", "\tE", "<<<", "> f", "#", "!", "[[ ", " ]]",
    "[ ", " ]", "if ", "; then ", "; fi", "for x in ", "; do ", "; done", "while ", "case a in a) ", ";; esac", "eval ", "bash -c ", "f() ", "$'",
    '$"', "*", "?", "~", "time ", "env ", "command ", "cd .", "\\'", '\\"', "E", "\tzz", "=~", "[", "]", ",", "..", "\\ ", "\\\t", " #", "; zz",
    " zz", "\nzz", "$'\\'", "; zz #'", "$'\\''", "\\\\", "'\\'", "${", "@P}", "${a[", "]}", "sh -c ", "&> f", "|& zz", ";;", "esac", "$\\", "\\$", "${!x}",
    "${x/", "${#", "$#", "$$", "$[", "zz]", "coproc ", "until ", "function ", "select ", "((", "let ", "declare ", "\r", "\\\r\n", "<&", ">&", "1>&2",
    "-", "=", "+=", "(zz)", "a=(", "'zz'", "\x0b", "\xa0"]  # fmt: skip
HEADS = [
    "echo ",
    "cat ",
    "ls ",
    "x=",
    "[ ",
    "[[ ",
    "case ",
    "for x in ",
    "echo a; ",
    "printf ",
    "( ",
    "{ ",
    "if ",
    ": ",
    "true ",
    "git log ",
    "",
]


def soup(dice: Dice) -> str:
    text = dice.choice(HEADS) + "".join(dice.choices(PIECES, k=dice.randrange(2, 12)))
    return text + dice.choice(["", "", "; zz", " zz", "\nzz", "' zz", '" zz', ") zz", "} zz"])


def document(dice: Dice) -> str:
    """Here-documents: where they end, what they expand, what comes after."""
    end = dice.choice(["E", "EOF", "_", "E-F", "E F", "1", "-", "", "é"])
    spelt = dice.choice(
        [
            end,
            f"'{end}'",
            f'"{end}"',
            f"\\{end}",
            f'{end}""',
            f"{end[:1]}'{end[1:]}'",
            f"${end}",
            f"`{end}`",
            f"$'{end}'",
            f"'{end}\n'",
            f"{end}\\\n",
        ]
    )
    operator = dice.choice(["<<", "<<", "<<-", "<<", "<< ", "<<- ", "0<<", "3<<", "<<<", "<<\\\n"])
    lines = ["touch PW", "$(touch PW)", "`zz`", "hi $x", f"{end} ", f" {end}", f"\t{end}", end + ";", "a\\", "\\$(zz)", "\\\\$(zz)", "${x:-$(zz)}", "'", '"', "zz", "$((a[$(zz)]))",
        "\\", "$(cat <<X\nzz\nX\n)", f"{end}\\", "# $(zz)", "$'", "\\`zz\\`", "${a[$(zz)]}", "$x", f"{end}\r"]  # fmt: skip
    body = "\n".join(dice.choices(lines, k=dice.randrange(4)))
    user = dice.choice(
        [
            "cat",
            "cat",
            "cat",
            "wc -l",
            "grep foo",
            "bash",
            "sh",
            "read -r x",
            "cat README.md",
            "tee",
            "xargs cat",
            "head -n 1",
            "while read x; do cat; done",
            "$(cat",
            "sort",
        ]
    )
    rest = dice.choice(
        ["", "", " | head", " && ls", "; ls", " > PW", " | bash", " & zz", f" <<{end}2", " # zz", " \\\n", ")"]
    )
    closing = dice.choice(
        [
            end,
            end,
            end,
            f"\t{end}",
            f"{end} ",
            "",
            f"{end}\nzz",
            f"{end}\ntouch PW",
            f"{end}\nls",
            f"{end})",
            f"{end}\n)",
            f"{end}2\n{end}",
        ]
    )
    return f"{user} {operator}{spelt}{rest}\n{body}\n{closing}"


def evaluation(dice: Dice) -> str:
    """Places where bash evaluates text once more: subscripts, arithmetic, tests, prompts, indirection."""
    code = dice.choice(["touch${IFS}PW", "./evil", "zz", "touch PW", "cat ../secret >&2"])
    name = dice.choice(["x", "y", "HOME", "a"])
    value = dice.choice(
        [
            f"a[$({code})]",
            f"-v a[$({code})]",
            f"a[$({code})]=1",
            f"-f README.md -a -v a[$({code})]",
            f"$({code})",
            f"`{code}`",
            f"x[$({code})]+1",
            f"-R a[$({code})]",
            f"1 -eq a[$({code})]",
        ]
    )
    use = dice.choice(["[ $x ]", "test $x", "[[ $x ]]", "[[ -v $x ]]", "[[ $x -eq 1 ]]", "[[ 1 -lt $x ]]", "[ -v $x ]", 'test -v "$x"', "(( x ))", "echo $(( x ))", "echo $((x+1))", "let x", 'let "$x"', "echo ${a[x]}", "echo ${a[$x]}",
        'printf -v "$x" a', "read $x <<< a", "read -r $x <<< 1", "unset $x", "unset -v $x", "declare -i y=$x", 'declare "$x"', "export $x", "echo ${!x}", "echo ${x@P}", "a[$x]=1", "a[x]=1", "echo ${x:x}", "echo ${HOME:x}", "echo ${HOME:0:x}",
        "for ((i=x;i<1;i++)); do ls; done", "echo ${a[@]:x}", "eval $x", 'eval "$x"', "$x", "mapfile -C $x a < README.md", "wait -p $x", "test -f a -o $x", "[ -n a -a $x ]", "[ ! $x ]", "[ ( $x ) ]", "[ \"$x\" ]", "[ -n \"$x\" ]",
        "[ x$x ]", "[ a = $x ]", "[[ a == $x ]]", "[[ a =~ $x ]]", "[[ -f $x ]]", "echo $[x]", "echo {1..$x}", "seq $x", "sleep 0 $x", "exit $x", "return $x", "break $x", "shift $x", "set -- $x", "cd $x", "exec $x", "command $x", "printf $x", "printf '%d' $x",
        "printf %d \"$x\"", "test $x = $x", "[ 1 -eq $x ]", "[ 1 -eq \"$x\" ]", "test 1 -lt \"$x\"", "[ -t \"$x\" ]", "ulimit $x", "read -t \"$x\" y", "readonly $x", "typeset $x", "local $x", "echo ${x[0]}", "echo ${#x}", "echo ${#a[x]}", "nl -v $x README.md",
        "declare -n r=$x; echo $r", "x+=1", "echo \"${x@A}\"", "echo ${x^^}", "echo ${a[-1]}", "((a=1))", "[[ $x > 1 ]]", "[[ $x && 1 -eq $x ]]", "echo $((16#$x))", "PS4='$(zz)'; set -x; ls", "trap \"$x\" EXIT", "getopts a $x", "printf '%*d' \"$x\" 1"])  # fmt: skip
    before = dice.choice(
        [
            f"{name}='{value}'; ",
            f"x='{value}'; ",
            f"x='{value}'; ",
            f"read -r x <<< '{value}'; ",
            f"export x='{value}'; ",
            f"for x in '{value}'; do ",
            f'x="{value}"; ',
            f"x=({value}); ",
            f"x='{value}' ",
        ]
    )
    return before + use + ("; done" if before.endswith("do ") else "")


def place(dice: Dice) -> str:
    """The same few files by roads that a judge may not follow."""
    roads = ["/dev/fd/../cwd/", "/dev/fd/../../self/cwd/", "/proc/self/cwd/", "/proc/self/root/tmp/ground-plain/home/project/", "/dev/fd/../root$HOME/project/", "/dev/fd/../../..$HOME/project/", "//dev//fd/../cwd/", "/dev/./fd/../cwd/",
        "/dev/fd/0/../cwd/", "/dev/fd/./../cwd/", "/proc/thread-self/cwd/", "/dev/stdin/../", "/dev/stdout/../cwd/", "/dev/fd//../cwd/", "$PWD/", "~+/", "~/project/", "./", "src/../", "/dev/null/../", "/dev/fd/63/../", "/dev/fd/1/../../cwd/",
        "/proc/$$/cwd/", "/proc/self/task/../cwd/", "${PWD}/", "/tmp/ground-plain/home/project/", "docs/../", "way/../project/", "/dev/tty/../fd/../cwd/", "/dev/../dev/fd/../cwd/", "\\/dev/fd/../cwd/", "'/dev/fd/../cwd/'", "/dev/fd/{..,1}/cwd/",
        "/dev/f?/../cwd/", "/dev/shm/../fd/../cwd/", "/dev/../proc/self/cwd/", "/proc/1/root$HOME/project/", "/DEV/FD/", ""]  # fmt: skip
    targets = ["../secret", "PW", "../.secret/key", ".env", ".git/config", "../.bashrc", "../vault/*", "README.md", "leak", "way", "../PW", "sub/../../secret", ".git/../../secret", "[.][.]/secret", ".?/secret", "..//secret", "src/../.env", ".e?v", ".[e]nv",
        ".GIT/config", "./.git/x", "way/../secret"]  # fmt: skip
    whole = ["/dev/fd/../../*/environ", "/proc/*/environ", "/proc/2/environ", "/proc/$PPID/environ", "/dev/fd/..", "/dev/fd/../environ", "/proc/self/environ", "/dev/tcp/127.0.0.1/9", "/dev/fd/", "/dev/fd/../../2/environ", "~root", "~nobody/x", "~-/secret",
        "/etc/passwd", "/dev/shm/PW", "/tmp/PW", "/dev/fd/../fd/../cwd/../secret", "/dev/fd/0", "/dev/fd/1", "/dev/stdin", "/dev/fd/00/../../cwd/../secret", "/dev/fd/3"]  # fmt: skip
    return dice.choice(whole) if dice.chance(0.2) else dice.choice(roads) + dice.choice(targets)


def ruin(dice: Dice) -> str:
    """A home that would be removed, with all questions off."""
    home = dice.choice(["~", "$HOME", '"$HOME"', "${HOME}", '"${HOME:?}"', "$(echo ~)", "$d", '"$d"', "~/.", "~/../home", "$PWD/..", "..", "../../home", "$(echo $HOME)", "`echo ~`", "${HOME%/}", "$HOME/project/..", "{~,a}", "$(cd ..; pwd)",
        "$(dirname $PWD)", "${PWD%/*}", "~+/..", "$OLDPWD", "$d/", "'$HOME'", "/tmp/ground-plain/ho*", "/tmp/ground-plain/home", "${d:-~}", "/tmp/ground-plain/hom[e]", "$(printf %s ~)", "../../hom?", "$1", "$@"])  # fmt: skip
    end = dice.choice(["", "", "", "/", "/*", "/.", "//", "/{*,.*}", "/*/..", "/.[!.]*"])
    flags = dice.choice(
        [
            "-rf",
            "-fr",
            "-r -f",
            "-Rf",
            "--recursive --force",
            "-rf --",
            "-rfv",
            "--recurs --force",
            "-r --interactive=never",
            "-df -R",
            "-rf --no-preserve-root",
        ]
    )
    before = dice.choice(
        [
            "",
            "",
            "",
            "d=$HOME; ",
            "d=~; ",
            "cd ..; d=.; ",
            "read -r d <<< ~; ",
            "ls \\ #; ",
            "for d in ~; do ",
            "set -- ~; ",
            "cd src; ",
            "cd ~; ",
        ]
    )
    how = dice.choice(["rm {0} {1}", "rm {0} {1}", "rm {0} {1}", "rm {1} {0}", "echo {1} | xargs rm {0}", "find {1} -delete", "bash -c 'rm {0} {1}'", "eval rm {0} {1}", "env rm {0} {1}", "\\rm {0} {1}", "find {1} -exec rm {0} {{}} +", "/bin/rm {0} {1}",
        "command rm {0} {1}", "timeout 5 rm {0} {1}", "xargs rm {0} <<< {1}", "r=rm; $r {0} {1}", "(rm {0} {1})", "rm {0} x {1}", "if true; then rm {0} {1}; fi", "rm {0} $(echo {1})", "f() {{ rm {0} {1}; }}; f"]).format(flags, home + end)  # fmt: skip
    return before + how + ("; done" if before.startswith("for") else "")


def deep(dice: Dice) -> str:
    """Long and deep, to be judged in no time."""
    n = dice.choice([50, 300, 1000, 2000, 4000])
    return dice.choice(["echo " + "${a:-" * n + "}" * n, "(" * n, "ls " + "*/" * n, "xargs " * n, "env " * n + "ls", "echo " + "$(" * n + "ls" + ")" * n, "ls " + "a " * n, "{ " * n + "ls" + "; }" * n, "echo " + '"$(' * n, "x=" * n, "! " * n + "ls",
        "a[" * n, "echo $((" + "(" * n + "1" + ")" * n + "))", "if true; then " * n + "ls" + "; fi" * n, "ls | " * n + "cat", "ls && " * n + "ls", "eval " * n + "ls", "bash -c " * n + "ls", "timeout 1 " * n + "ls", "echo " + "{a,b}" * n,
        "echo " + "'" * n, "echo " + "\\" * n, "cat " + "<<E " * n, "[ " + "! " * n + "a ]", "[[ " + "( " * n + "a" + " )" * n + " ]]", "find . " + "-exec echo " * n + "\\;", "echo " + "`" * n, "case a in " * n, "find . " + "\\( " * n,
        "nice " * n + "rm -rf /", "echo " + "~/" * n, "cat " + "../" * n, "f() { " * n + "ls" + "; }" * n, "echo " + "$x" * n, "ls;" * n, "ls\n" * n, "command " * n + "ls", "find . -exec " * n + "ls", "echo " + "$'\\x41'" * n, "> a " * n])  # fmt: skip


def everyday() -> list[str]:
    """The lines that must stay allowed."""
    text = Path(__file__).with_name("shell_corpus").joinpath("allowed.txt").read_text()
    return [line for line in text.splitlines() if line and not line.startswith("#")]


_EVERYDAY: list[str] = []


def tail(dice: Dice) -> str:
    """What people write, with an accident or something behind it."""
    if not _EVERYDAY:
        _EVERYDAY.extend(everyday())
    line = dice.choice(_EVERYDAY)
    match dice.randrange(4):
        case 0:
            return disturb(dice, line)
        case 1:
            return line + dice.choice(JOINTS) + dice.choice(_EVERYDAY)
        case 2:
            return disturb(dice, line + dice.choice(JOINTS) + "touch PW")
        case _:
            return line
