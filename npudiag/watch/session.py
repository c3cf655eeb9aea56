"""The watch itself: follow, sample, judge within a budget, tell what is new."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npudiag.analyze import Options, Timings, choose, conclude, read
from npudiag.host.resources import decide
from npudiag.host.sampler import Sampler
from npudiag.judging import literals
from npudiag.parsers.snapshot import HEADER, fact_line
from npudiag.result import SEVERITIES, Finding, Result
from npudiag.watch.follow import Following

if TYPE_CHECKING:
    from npudiag.engine.load import RulePack

JUDGING_SHARE = 0.005
"""Share of one CPU that judging may take in the long run, beside following and sampling."""
_CREDIT_S = 4.0
"""CPU seconds of judging that may be had at once: at the beginning, and after a long quiet time."""
_DEBT_S = 4.0
"""How far an alarming record may overdraw that credit."""
_LOOK_EVERY_S = 10.0
UNEXPLAINED = "insufficient-evidence"
_WORTH_TELLING = SEVERITIES.index("warning")


@dataclass(slots=True)
class State:
    """What a view shows.

    Attributes:
        started: Seconds since 1970.
        step, total_steps, loss, grad_norm, step_time_ms: Of the latest training step, None where no log tells.
        host: Latest row of ``host_samples``.
        npus: Latest rows of ``npu_samples``.
        findings: New ones in the order they appeared.
        lines, size: What was read.
        quiet_s: Seconds since anything was written.
    """

    started: float
    step: int | None = None
    total_steps: int | None = None
    loss: float | None = None
    grad_norm: float | None = None
    step_time_ms: float | None = None
    host: dict[str, Any] = field(default_factory=dict)
    npus: list[dict[str, Any]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    lines: int = 0
    size: int = 0
    quiet_s: float = 0.0


class Session:
    """Watches paths.

    Attributes:
        state: What there is to show.
        result: The latest judgement, None before the first.
    """

    def __init__(
        self,
        paths: Sequence[str],
        pack: RulePack,
        options: Options,
        *,
        samples: Path,
        output: Path | None = None,
        written: Sequence[Path] = (),
        node: str,
        job: int | None,
        tell: Callable[[Finding], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            paths: Logs to follow.
            pack: The rules.
            options: How to judge.
            samples: File that gets the readings of the machine, itself followed.
            output: File that holds what the command prints, followed too.
            written: Further files that the watch writes; they are no logs.
            node: Name of this machine.
            job: Process whose use of the machine is sampled with that of its descendants.
            tell: Called with each new finding of severity warning or worse.
            clock: Seconds that never go back; replaced in tests.
        """
        self._rules = choose(pack.rules, options)
        self._table = literals(self._rules)
        self._pack = pack
        self._options = options
        self._tell = tell
        self._clock = clock
        self._samples = samples.open("a", encoding="utf-8")
        self._samples.write(f"{HEADER}\n{fact_line('snapshot', 'node', None, node)}\n")
        self._samples.flush()
        self._own = [samples, *([output] if output else [])]
        self._paths = paths
        self.following = Following(paths, self._table.literals(), self._own, written)
        self.sampler = Sampler(job)
        self.state = State(started=time.time())
        self.result: Result | None = None
        self._told: set[str] = set()
        self._credit = _CREDIT_S
        self._at = self._looked = clock()
        self._written = self._at
        self._dirty = False
        self._urgent = False

    def start(self) -> None:
        """Read what is there already, and judge it."""
        self.following.start(lambda: decide(self._options.workers, self._options.memory_mb))
        self._note()
        self.judge()

    def step(self) -> None:
        """Do what is due once per interval."""
        now = self._clock()
        self._credit = min(_CREDIT_S, self._credit + JUDGING_SHARE * (now - self._at))
        self._at = now
        reading = self.sampler.step()
        with contextlib.suppress(OSError):
            # The disk may be full for a while: one more reason to go on looking.
            self._samples.write("".join(f"{line}\n" for line in reading.lines()))
            self._samples.flush()
        self.state.host = reading.host
        if reading.npus:
            self.state.npus = reading.npus
        if now - self._looked >= _LOOK_EVERY_S:
            self._looked = now
            self.following.look_for_new()
        before = self.state.size
        self._urgent |= self.following.poll()
        self._note()
        if self.state.size != before:
            self._dirty = True
            self._written = now
        self.state.quiet_s = now - self._written
        if (self._urgent and self._credit > -_DEBT_S) or (self._dirty and self._credit > 0):
            self.judge()

    def judge(self, *, last: bool = False) -> None:
        """Judge what was read so far, and tell what is new."""
        begin = time.process_time()
        result, _ = conclude(self.following.ingested(), self._pack, self._rules, self._table, self._options, Timings())
        self.result = result
        self._dirty = self._urgent = False
        for finding in result.findings:
            if finding.suppressed is not None or SEVERITIES.index(finding.severity) < _WORTH_TELLING:
                continue
            if finding.category == UNEXPLAINED and not last:
                continue  # a job that is silent for a while, or half a traceback, may yet explain itself
            if finding.fingerprint not in self._told:
                self._told.add(finding.fingerprint)
                self.state.findings.append(finding)
                self._tell(finding)
        self._credit -= time.process_time() - begin

    def finish(self) -> None:
        """Take what is still there, and judge it."""
        self.sampler.close()
        with contextlib.suppress(OSError):
            self._samples.close()
        self.following.look_for_new()
        self.following.poll()
        self.following.finish()
        self._note()
        self.judge(last=True)

    def whole(self) -> Result:
        """Read all that is there once more, pieces that were judged as they came put together, and judge it.

        Of logs that are there no more, what was followed of them counts.
        """
        own = [str(path) for path in self._own]
        there = [path for path in self._paths if Path(path).exists()]
        ingested = read([*there, *own], self._table.literals(), self._options)
        ingested.partials = [
            partial for partial in ingested.partials if not self.following.is_left_out(partial.source.location)
        ]
        ingested.partials += self.following.gone()
        result, _ = conclude(ingested, self._pack, self._rules, self._table, self._options, Timings())
        result.facts["workers"] = ingested.workers
        return result

    def _note(self) -> None:
        """Keep the latest numbers of the training, whoever printed them."""
        state = self.state
        latest: tuple[int, dict[str, Any]] | None = None
        state.lines = state.size = 0
        for follower in self.following.followers:
            if follower.source.location == self._samples.name:
                continue
            state.lines += follower.partial.lines
            state.size += follower.offset
            steps = follower.partial.columns.get("train_steps")
            if steps is None or not len(steps):
                continue
            row = {
                name: steps.value(name, len(steps) - 1)
                for name in ("step", "total_steps", "loss", "grad_norm", "step_time_ms")
                if steps.has(name)
            }
            if row.get("step") is not None and (latest is None or row["step"] > latest[0]):
                latest = (row["step"], row)
        if latest is not None:
            for name, value in latest[1].items():
                setattr(state, name, value)
