"""The long form of the shell's oracle: `make long`, or `python tests/teeth/shell_oracle.py --lines 500000`.

Command lines are made, judged, and what the judge allows is run by real bash in a cage full of traps. A difference is
a line that was allowed and did more than the judge said. Each is printed with its seed and number, which play it again.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import shell_cage
from shell_pools import entries

HERE = Path(__file__).resolve().parent
CORPUS = HERE / "shell_corpus"
LINES, WORKERS = 500_000, 2
KINDS = {
    "ask": {},
    "allowed": {"must": True},
    "accepted": {"edits": True},
    "bypass": {"bypass": True},
    "judge": {"still": True},
    "spared": {"must": True, "guard": "spared"},
    "kept": {"guard": "kept"},
}


def corpus() -> list[dict[str, Any]]:
    """Every line that ever fooled the judge and must not pass, and those that must keep passing."""
    return [line for path in sorted(CORPUS.glob("*.txt")) for line in _lines(path)]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The file's name begins with the required verdict on its lines; `@` names the ground that a line is for."""
    kind = path.stem.partition("_")[0]
    for entry in entries(path.name):
        ground, text = entry[1:].split(" ", 1) if entry.startswith("@") else ("plain", entry)
        if kind == "judge":
            before, opening, n, middle, closing = msgspec.json.decode(entry)
            text = before + opening * n + middle + closing * n
        yield {"text": text, "shape": path.stem, "ground": ground, **KINDS[kind]}


def given(lines: list[dict[str, Any]], workers: int) -> list[dict[str, Any]]:
    return [{"given": share} for n in range(workers) if (share := lines[n::workers])]


def made(seed: str, lines: int, workers: int, **more: Any) -> list[dict[str, Any]]:
    return [{"seed": seed, "start": n, "stop": lines, "step": workers, **more} for n in range(workers)]


def shown(seed: str, found: dict[str, Any]) -> str:
    where = f"seed {seed}, line {found['n']}" if seed else "corpus"
    line, faults = msgspec.json.encode(found["line"]).decode(), "; ".join(found["faults"][:4])
    return f"{where} ({found['shape']}, {found['ground']}, {found['how']}): {line[:2000]}\n    {faults}"


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=LINES)
    parser.add_argument("--seed", default="", help="a fresh one unless given")
    parser.add_argument("--line", type=int, help="play this line of the seed alone")
    parser.add_argument("--text", action="append", help="judge and run this text alone")
    parser.add_argument("--workers", type=int, default=min(WORKERS, os.cpu_count() or 1))
    parser.add_argument("--shape", action="append", default=[], help="only lines of this shape")
    parser.add_argument("--source", type=Path, help="another copy of the package's source")
    parser.add_argument("--most", type=int, default=0, help="differences at which each worker stops")
    return parser.parse_args()


def play(seed: str, orders: list[dict[str, Any]], source: Path | None) -> int:
    """The number of differences; prints each of them."""
    began = time.monotonic()
    report = shell_cage.work(orders, source, lambda found: print(shown(seed, found), flush=True))
    counts, shapes = report.counts, Counter(found["shape"] for found in report.differences)
    lines, asked = counts.pop("lines", 0), counts.pop("asked", 0)
    ran = ", ".join(f"{number:,} by {how}" for how, number in counts.most_common())
    what, took = f"seed {seed}" if seed else "corpus", time.monotonic() - began
    print(f"{what}: {lines:,} lines in {took:.0f} s ({report.cpu:.0f} s of the processor), {asked:,} asked; run: {ran}")
    print(f"{len(report.differences)} differences {dict(shapes) if shapes else ''}".rstrip(), flush=True)
    return len(report.differences)


def main() -> int:
    asked = options()
    if why := shell_cage.why_not():
        print(f"Nothing was run: {why}.", file=sys.stderr)
        return 2
    seed = asked.seed or os.urandom(4).hex()
    if asked.text:
        return bool(play("", given([{"text": text, "bypass": True} for text in asked.text], 1), asked.source))
    if asked.line is not None:
        return bool(play(seed, [{"seed": seed, "start": asked.line, "stop": asked.line + 1}], asked.source))
    wrong = 0 if asked.shape else play("", given(corpus(), asked.workers), asked.source)
    wrong += play(seed, made(seed, asked.lines, asked.workers, shapes=asked.shape, most=asked.most), asked.source)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
