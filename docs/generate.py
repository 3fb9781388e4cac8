"""Writes the generated parts of the pages in this folder, from the code that they describe.

`python docs/generate.py` rewrites them in place; `--check` changes nothing and ends with 1 when a page is out of
date. A generated part stands between `<!-- generated: NAME -->` and `<!-- end of NAME -->`; all other text is
written by hand and left alone. What each part says is in `reference/`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

from reference import checks, events, exit_status, faults, mutants, rooms, scenario, trainer, verdict

HERE = Path(__file__).resolve().parent
PARTS: dict[str, Callable[[], str]] = {
    "scenario-keys": scenario.keys,
    "scenario-not-yet": scenario.not_yet,
    "faults": faults.catalogue,
    "checks": checks.checks,
    "verdict-keys": verdict.keys,
    "events": events.vocabulary,
    "exit-statuses": exit_status.statuses,
    "mutants": mutants.mutants,
    "rooms": rooms.rooms,
    "trainer-settings": trainer.settings,
}
_PART = re.compile(r"(<!-- generated: (?P<name>[\w-]+) -->\n).*?(<!-- end of (?P=name) -->)", re.DOTALL)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="change nothing; end with 1 when a page is out of date")
    options.add_argument("--docs", type=Path, default=HERE, help="the folder of the pages")
    arguments = options.parse_args()
    stale, used = [], set()
    for page in sorted(arguments.docs.glob("*.md")):
        old = page.read_text(encoding="utf-8")
        used |= {found["name"] for found in _PART.finditer(old)}
        new = _PART.sub(_filled, old)
        if new != old:
            stale.append(page.name)
            if not arguments.check:
                page.write_text(new, encoding="utf-8")
    for name in sorted(PARTS.keys() - used):
        print(f"no page holds the part {name}", file=sys.stderr)
    for name in stale:
        print(f"{name}: {'out of date; next: python docs/generate.py' if arguments.check else 'written'}")
    return 1 if PARTS.keys() - used or (arguments.check and stale) else 0


def _filled(found: re.Match[str]) -> str:
    name = found["name"]
    if name not in PARTS:
        raise SystemExit(f"a page asks for the part {name!r}; known: {', '.join(PARTS)}")
    return f"{found[1]}\n{PARTS[name]().strip()}\n\n{found[3]}"


if __name__ == "__main__":
    sys.exit(main())
