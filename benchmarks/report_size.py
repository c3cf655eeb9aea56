"""Measure the HTML report of jobs with 8, 64 and 1,024 ranks: its size against the budget, and how fast it opens.

usage: python benchmarks/report_size.py [--ranks N...] [--keep DIR] [--no-browser]

The jobs are made up, and go through the whole pipeline: the process logs of every rank, of which one is dead and the
others wait for it, a profile of every rank, 1,000 steps logged by each of them, all links, and readings of all cards.
The same arguments give the same bytes.
"""

from __future__ import annotations

import argparse
import datetime
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
for place in (ROOT, ROOT / "sample_logs"):
    sys.path.insert(0, str(place))

from _gen import cann  # noqa: E402
from _gen.shapes import Clock, Process, make_ranks, name_stamp  # noqa: E402

from npudiag.analyze import analyze_texts  # noqa: E402
from npudiag.engine.load import load_pack, pack_sources  # noqa: E402
from npudiag.report.html import render  # noqa: E402
from npudiag.result import Result, encode  # noqa: E402

BUDGETS = {8: 150_000, 64: 500_000, 1024: 2_000_000}
"""Bytes allowed by number of ranks."""
START = datetime.datetime(2026, 5, 4, 8, 0, 0, 120_417)
_STEPS = 1000
_PER_NODE = 8
_BROWSER = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")

Rows = list[dict[str, Any]]


def logs(ranks: int, dead: int, rnd: random.Random) -> dict[str, str]:
    """Return the debug logs of a job in which all ranks wait, through their neighbours, for a dead one."""
    nodes = tuple(f"node-{number:03d}" for number in range(-(-ranks // _PER_NODE)))
    processes: list[Process] = make_ranks(rnd, nodes=nodes, per_node=_PER_NODE, first_pid=20_000)[:ranks]
    root = cann.root_info(processes, START)
    launched = START + datetime.timedelta(minutes=40)
    files = {}
    for process in processes:
        clock = Clock(START + datetime.timedelta(milliseconds=2 * process.rank), rnd)
        cann.start_up(process, clock, ranks, root, exec_timeout=600)
        clock.at(launched - datetime.timedelta(seconds=1))
        if process.rank != dead:
            clock.at(launched + datetime.timedelta(seconds=600, milliseconds=3 * process.rank))
            remote = (process.rank + 1) % ranks
            cann.notify_timeout(process, clock, ranks, root, remote, launched=launched, rnd=rnd)
        for kind, records in (("debug", process.debug), ("run", process.run)):
            if records:
                records.sort(key=lambda item: item[0])
                name = f"plog-{process.pid}_{name_stamp(records[0][0])}.log"
                files[f"job/{process.node}/ascend/log/{kind}/plog/{name}"] = "\n".join(line for _, line in records)
    return files


def tables(ranks: int, slow: int, rnd: random.Random) -> dict[str, Rows]:
    """Return a profile, logged steps, links and readings of all ranks; `slow` computes a third longer."""
    return {
        "prof_steps": list(_profile(ranks, slow, rnd)),
        "prof_links": list(_links(ranks, rnd)),
        "prof_memory": [
            {"job": "job", "rank": r, "device": r % 8, "component": "PTA", "peak_allocated_mb": 41_000.0 + r % 7 * 120,
             "peak_reserved_mb": 48_500.0, "samples": 900, "file": "job/profile"} for r in range(ranks)
        ],
        "npu_samples": list(_cards(ranks, slow, rnd)),
        "train_steps": list(_steps(ranks, slow, rnd)),
    }  # fmt: skip


def _profile(ranks: int, slow: int, rnd: random.Random) -> Iterator[dict[str, Any]]:
    for rank in range(ranks):
        for step in range(10, 20):
            computing = (27_200 if rank == slow else 20_150) + rnd.random() * 200
            free = 70 + rnd.random() * 20
            yield {
                "job": "job", "rank": rank, "device": rank % 8, "step": step, "computing_us": computing,
                "comm_not_overlapped_us": 28_300 - computing, "overlapped_us": 8000.0, "comm_us": 36_300 - computing,
                "free_us": free, "e2e_us": 28_300 + free, "last": step == 19, "source": "text", "file": "job/profile",
            }  # fmt: skip


def _links(ranks: int, rnd: random.Random) -> Iterator[dict[str, Any]]:
    """Yield all links within a node, and a ring of nodes."""
    for src in range(ranks):
        first = src // _PER_NODE * _PER_NODE
        for dst in range(first, min(first + _PER_NODE, ranks)):
            if src != dst:
                yield _link(src, dst, "HCCS", 18 + rnd.random())
        if ranks > _PER_NODE:
            yield _link(src, (src + _PER_NODE) % ranks, "RDMA", 3.0 if src == 11 else 21 + rnd.random())


def _link(src: int, dst: int, transport: str, speed: float) -> dict[str, Any]:
    return {
        "job": "job", "src": src, "dst": dst, "transport": transport, "size_mb": 150.0, "time_ms": 150.0 / speed,
        "bandwidth_gbps": speed, "median_gbps": 18.5, "links": 56, "file": "job/profile",
    }  # fmt: skip


def _cards(ranks: int, slow: int, rnd: random.Random) -> Iterator[dict[str, Any]]:
    for sample in range(60):
        for rank in range(ranks):
            hot = rank == slow and 20 <= sample < 45
            yield {
                "file": f"job/node-{rank // 8:03d}/npu.log", "line": 10 + sample * 8 + rank % 8, "sample": sample,
                "time": START + datetime.timedelta(seconds=30 * sample), "node": f"node-{rank // 8:03d}",
                "device": rank % 8, "util_pct": 86 + rnd.random() * 6, "hbm_used_mb": 51_000.0 + rnd.random() * 900,
                "hbm_total_mb": 65_536.0, "hbm_pct": 78.0, "temp_c": (88.0 if hot else 61.0) + rnd.random() * 3,
                "power_w": 280 + rnd.random() * 9, "clock_mhz": 1350.0 if hot else 1800.0, "health": "OK",
            }  # fmt: skip


def _steps(ranks: int, slow: int, rnd: random.Random) -> Iterator[dict[str, Any]]:
    """Yield the steps that every rank logs itself, which fill the heat map; large jobs log every fourth."""
    for rank in range(ranks):
        for step in range(1, _STEPS + 1, 1 if ranks <= 64 else 4):
            took = 2400 + rnd.random() * 60 + (700 if rank == slow and 300 <= step < 420 else 0)
            yield {
                "file": f"job/train-{rank}.log", "line": 40 + step, "worker": f"rank{rank}", "framework": "megatron",
                "step": step, "total_steps": 20_000, "time": START + datetime.timedelta(seconds=2.4 * step),
                "loss": 2.9 - step / 2000 + rnd.random() * 0.05 + (1.9 if step == 621 else 0),
                "grad_norm": 0.8 + rnd.random() * 0.1, "lr": 1e-4, "step_time_ms": took, "skipped": 0,
            }  # fmt: skip


def job(ranks: int, *, seed: int = 1) -> Result:
    """Return the result of a job of `ranks` ranks."""
    rnd = random.Random(seed)
    result = analyze_texts(
        logs(ranks, ranks * 3 // 5, rnd), load_pack(pack_sources((), ())), tables=tables(ranks, ranks // 3, rnd)
    )
    # What depends on the clock and the machine.
    result.created, result.timings = "2026-05-04T09:00:00+00:00", {"total": 1.0}
    result.command = ["npudiag", "analyze", "job", "--html", "report.html"]
    return result


def open_times(page: Path, repeat: int = 3) -> tuple[float, int] | None:
    """Return the seconds until a page can be read (best of `repeat`) and its elements; None without a browser."""
    path = next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if path is None:
        return None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_BROWSER))
        best, elements = float("inf"), 0
        for _ in range(repeat):
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            begin = time.perf_counter()
            tab.goto(page.as_uri(), wait_until="load")
            tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            best = min(best, time.perf_counter() - begin)
            elements = tab.evaluate("document.getElementsByTagName('*').length")
            tab.close()
        browser.close()
    return best, elements


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns 1 where a page is larger than its budget."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=list(BUDGETS), help="numbers of ranks")
    parser.add_argument("--keep", type=Path, help="write the pages and documents into this folder")
    parser.add_argument("--no-browser", action="store_true", help="do not open the pages")
    options = parser.parse_args(argv)
    over = 0
    with tempfile.TemporaryDirectory(prefix="npudiag-bench-") as name:
        folder = options.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        print(" ranks findings charts  JSON kB  HTML kB  budget render s  open s elements")
        for ranks in options.ranks:
            result = job(ranks)
            begin = time.perf_counter()
            page = render(result, lang="en")
            took = time.perf_counter() - begin
            file = folder / f"report-{ranks}.html"
            file.write_text(page, encoding="utf-8")
            document = encode(result)
            if options.keep:
                (folder / f"result-{ranks}.json").write_bytes(document)
            size = len(page.encode())
            budget = next((most for upto, most in BUDGETS.items() if ranks <= upto), BUDGETS[1024])
            over += size > budget
            opened = None if options.no_browser else open_times(file)
            seen = f"{opened[0]:7.2f} {opened[1]:8,}" if opened else f"{'-':>7} {'-':>8}"
            print(
                f"{ranks:6,} {len(result.findings):8,} {len(result.charts):6} {len(document) / 1000:8.1f} "
                f"{size / 1000:8.1f} {budget / 1000:7.0f} {took:8.2f} {seen}"
            )
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main())
