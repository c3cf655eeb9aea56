"""Checks that a built sdist and wheel hold everything they must.

Usage: python .ci/check_dist.py DIST_DIR
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

from check_tree import ROOT, files


def missing(dist: Path) -> list[str]:
    """Return what the archives in `dist` lack, one line each."""
    (sdist,) = dist.glob("npudiag-*.tar.gz")
    (wheel,) = dist.glob("npudiag-*.whl")
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as bundle:
        in_wheel = set(bundle.namelist())
    tracked = [path.relative_to(ROOT).as_posix() for path in files()]
    lacking = [f"sdist lacks {name}" for name in tracked if name not in in_sdist]
    for name in tracked:
        if name.startswith("npudiag/") and name not in in_wheel:
            lacking.append(f"wheel lacks {name}")
        if name.startswith("rules/") and f"npudiag/{name}" not in in_wheel:
            lacking.append(f"wheel lacks npudiag/{name}")
    for name in in_wheel:
        if not name.startswith(("npudiag/", "npudiag-")):
            lacking.append(f"wheel puts {name} beside the package")
    return lacking


def main() -> int:
    """Print what is lacking; 1 where something is."""
    lacking = missing(Path(sys.argv[1]))
    print("\n".join(lacking) or "sdist and wheel are complete")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
