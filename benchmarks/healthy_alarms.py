"""Print every alarm on logs of healthy runs: what is printed is a false alarm.

usage: python benchmarks/healthy_alarms.py FOLDER [--level warning]

Every file below the folder is analysed on its own, as somebody would do who doubts one log.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from npudiag.analyze import Options, analyze
from npudiag.engine.load import load_pack
from npudiag.result import SEVERITIES


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the number of files with an alarm, 100 at most."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder with logs, or one log")
    parser.add_argument("--level", choices=SEVERITIES, default="warning", help="mildest severity that counts")
    options = parser.parse_args(argv)
    files = sorted(path for path in options.folder.rglob("*") if path.is_file()) or [options.folder]
    pack = load_pack()
    least = SEVERITIES.index(options.level)
    loud = unread = 0
    for path in files:
        result, _ = analyze([str(path)], pack, Options(workers=1))
        alarms = [finding for finding in result.findings if SEVERITIES.index(finding.severity) >= least]
        loud += bool(alarms)
        unread += not result.coverage.recognised
        for finding in alarms:
            print(f"{path.name}: {finding.code} {finding.severity} {finding.title}")
        for failure in result.errors:
            print(f"{path.name}: rule {failure.code} broke: {failure.message}")
    print(f"{len(files)} files, {loud} with an alarm, {unread} not recognised")
    return min(loud, 100)


if __name__ == "__main__":
    sys.exit(main())
