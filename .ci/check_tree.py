"""Refuses files that name the machine they were written on, or the package index they were installed from.

Usage: python .ci/check_tree.py
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 4 << 20
"""Bytes; the project has no larger file, so one is a mistake by itself."""

# Put together here, so that this file does not hold what it forbids.
_SLASH = "/"
FORBIDDEN: dict[str, re.Pattern[str]] = {
    "a path of the machine it was written on": re.compile(
        r"(?<![\w./~-])" + _SLASH + r"(?:work/|tmp/(?:v/|CONTRACT|bash_jobs)|root/\.pyenv/)"
    ),
    "a package index": re.compile(
        r"^\s*--?(?:index-url|extra-index-url|find-links|i|f)[ =]\S+:" + _SLASH, re.MULTILINE
    ),
    "a conflict marker": re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE),
}


def files() -> list[Path]:
    """Return what git tracks or would track."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return sorted(path for name in listing.split("\0") if name and (path := ROOT / name).is_file())


def faults(path: Path) -> list[str]:
    """Return what is wrong with one file, one line each."""
    name = path.relative_to(ROOT).as_posix()
    if path.stat().st_size > LIMIT:
        return [f"{name}: larger than {LIMIT >> 20} MiB"]
    text = path.read_bytes().decode("utf-8", "replace")
    found = []
    for what, pattern in FORBIDDEN.items():
        for match in pattern.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"{name}:{line}: {what}: {match[0].strip()}")
    return found


def main() -> int:
    """Print every fault; 1 where there is one."""
    paths = files()
    found = [fault for path in paths for fault in faults(path)]
    print("\n".join([*found, f"{len(paths)} files, {len(found)} faults"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
