"""Two runs against each other: what differs, what it costs, what explains it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import jsonschema
import pytest
from pair_runs import ROOT, npudiag, pairs, write

import npudiag as package
from npudiag.comparison.model import Comparison, decode, encode, json_schema
from npudiag.comparison.run import judge
from npudiag.result import decode as decode_result
from npudiag.result import encode as encode_result

Compared = Callable[[str], tuple[Comparison, Path, Path]]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """Comparisons of the pairs, each made once."""
    folder = tmp_path_factory.mktemp("pairs")

    @cache
    def compare(name: str) -> tuple[Comparison, Path, Path]:
        before, after = write(name, folder)
        return package.compare(before, after), before, after

    return compare


def measure(comparison: Comparison, area: str, name: str) -> tuple[float | None, float | None]:
    (found,) = [item for item in comparison.measures if (item.area, item.name) == (area, name)]
    return found.a, found.b


def test_a_slower_step_is_explained_by_the_setting_that_is_gone(compared: Compared) -> None:
    found, _, _ = compared("overlap")
    assert found.step is not None and found.step.change_pct == pytest.approx(16, abs=1)
    (cause,) = found.causes
    assert (cause.part, cause.settings, cause.certain) == ("communication", ["--overlap-grad-reduce"], True)
    assert cause.ms == pytest.approx(found.step.change, rel=0.05)
    assert cause.share_pct == pytest.approx(100, abs=3)
    assert found.headline.en == (
        "B is 16 % slower: of +2.60 ms per step 2.59 ms is uncovered dp communication "
        "(2.60 ms of it ran under kernels before), since --overlap-grad-reduce is gone."
    )
    assert "未掩盖的 dp 通信" in found.headline.zh and "去掉了 --overlap-grad-reduce" in found.headline.zh
    (setting,) = found.settings
    assert (setting.a, setting.b, setting.touches) == ("", None, ["communication"])
    path, line = setting.at_a.rsplit(":", 1)
    script = (Path(compared("overlap")[1]).parent / path).read_text().splitlines()
    assert "--overlap-grad-reduce" in script[int(line) - 1]


def test_parts_of_the_step_add_up(compared: Compared) -> None:
    found, _, _ = compared("overlap")
    for side in (0, 1):
        parts = [measure(found, "step", name)[side] for name in ("computing", "communication", "pipeline", "free")]
        assert sum(part or 0 for part in parts) == pytest.approx(measure(found, "step", "step")[side] or 0, rel=1e-3)
    assert measure(found, "communication", "dp allReduce")[0] == pytest.approx(5.2, abs=0.1)
    assert measure(found, "memory", "APP reserved") == (26176.0, 26176.0)
    assert not any(item.name.startswith("hcom") for item in found.measures if item.area == "kernel")


def test_the_same_loss_is_said_to_be_the_same(compared: Compared) -> None:
    found, _, _ = compared("overlap")
    assert found.loss is not None and (found.loss.state, found.loss.points) == ("identical", 200)


def test_new_and_gone_findings(compared: Compared) -> None:
    found, before, after = compared("overlap")
    assert {item.name for item in found.findings if item.state == "new"} >= {"communication-not-overlapped"}
    back = package.compare(after, before)
    assert {item.name for item in back.findings if item.state == "gone"} >= {"communication-not-overlapped"}
    assert back.headline.en.startswith("B is 14 % faster: of -2.60 ms per step")
    assert "--overlap-grad-reduce was added" in back.headline.en


def test_a_run_against_itself_shows_nothing(compared: Compared) -> None:
    _, before, _ = compared("overlap")
    found = package.compare(before, before)
    assert not found.causes and not found.settings and not found.findings
    assert found.headline.en == "B is as fast as A: 0 ms per step (0.0 %)."


def test_scaling_from_8_to_16_cards(compared: Compared) -> None:
    found, _, _ = compared("scaling")
    scaled = found.scaling
    assert scaled is not None and (scaled.cards_a, scaled.cards_b, scaled.basis) == (8, 16, "samples")
    assert scaled.efficiency_pct == pytest.approx(81.1, abs=0.5)
    assert scaled.ideal_ms == pytest.approx(16.21, abs=0.05)
    assert scaled.lost_ms is not None and scaled.lost[0].part == "communication"
    assert scaled.lost[0].ms == pytest.approx(scaled.lost_ms, rel=0.05)
    assert found.headline.en.startswith("8 to 16 NPUs: 81 % of linear; of 3.77 ms per step lost: 3.78 ms uncovered dp")
    assert found.step is not None and found.step.name == "card time per sample"
    assert found.loss is not None and found.loss.by == "samples" and found.loss.state != "diverged"


def test_different_models_are_told_apart_from_slow_runs(tmp_path: Path) -> None:
    for name, layers in (("small", "32"), ("large", "64")):
        pairs.run(profile=False, changed={"num-layers": ("num-layers", layers)}).write(tmp_path / name)
    found = package.compare(tmp_path / "small", tmp_path / "large")
    assert found.step is None and found.causes == [] and found.scaling is None
    assert any("so their speed is not compared: --num-layers" in note.en for note in found.notes)
    assert judge(found, regression_pct=5, severity=None).status == "incomplete"


def test_losses_that_part_are_found(compared: Compared) -> None:
    found, _, _ = compared("losses")
    assert found.loss is not None and found.loss.state == "diverged" and found.loss.by == "step"
    assert found.loss.divergence is not None and 120 <= found.loss.divergence.at <= 124
    assert found.loss.first_difference is not None and found.loss.first_difference.at == 1
    assert "(at the end 2.663 -> 4.285, +61 %). New in B: The loss diverges" in found.headline.en
    assert any("where the time of a step goes" in text.en for text in found.a.untold)


def test_a_saved_document_stands_for_its_run(compared: Compared, tmp_path: Path) -> None:
    live, before, after = compared("overlap")
    saved = tmp_path / "before.json"
    saved.write_bytes(encode_result(package.load(before).result))
    found = package.compare(saved, after)
    assert found.a.kind == "document" and found.b.kind == "run"
    assert found.headline == live.headline
    assert [setting.name for setting in found.settings] == ["--overlap-grad-reduce"]
    assert found.causes == live.causes and found.measures == live.measures
    # The same as a value.
    assert package.compare(decode_result(saved.read_bytes()), package.load(after)).headline == live.headline


def test_an_older_document_says_what_it_lacks(compared: Compared) -> None:
    live, before, after = compared("overlap")
    old = package.load(before).result
    old.snapshot = {}
    found = package.compare(old, after)
    assert found.step is not None and live.step is not None
    assert found.step.change_pct == pytest.approx(live.step.change_pct, abs=1)
    assert [cause.part for cause in found.causes] == ["communication"]
    assert {text.en for text in found.a.untold} >= {"options and variables", "the loss"}
    assert not found.settings and found.loss is None
    old.snapshot = {"version": "x", "cards": []}
    assert package.compare(old, after).step is not None, "a damaged snapshot is none"


def test_the_loss_of_a_long_run_is_thinned_in_the_document_only(tmp_path: Path) -> None:
    pairs.run(profile=False, steps=1000).write(tmp_path / "long")
    pairs.run(profile=False, steps=1500).write(tmp_path / "longer")
    document = package.load(tmp_path / "long").result
    assert len(document.snapshot["losses"]["steps"]) <= 320
    found = package.compare(document, tmp_path / "longer")
    assert found.loss is not None and found.loss.state == "identical" and found.loss.points >= 200
    assert any("a document keeps some" in text.en for text in found.a.untold)
    whole = package.compare(tmp_path / "long", tmp_path / "longer").loss
    assert whole is not None and whole.points == 1000


@pytest.mark.parametrize("name", ["overlap", "scaling", "losses"])
def test_documents_keep_their_schema(name: str, compared: Compared) -> None:
    found, _, _ = compared(name)
    jsonschema.Draft202012Validator(json_schema()).validate(json.loads(encode(found)))
    assert decode(encode(found)) == found


def test_the_exported_schema_is_current() -> None:
    file = ROOT / "docs" / "compare.schema.json"
    assert json.loads(file.read_text()) == json_schema(), "run: python .ci/result_schema.py"


# Gate


def test_judging(compared: Compared) -> None:
    found, _, _ = compared("overlap")
    assert judge(found, regression_pct=20, severity=None).status == "passed"
    gate = judge(found, regression_pct=5, severity=None)
    assert gate.status == "failed" and gate.reasons[0].en == "step time +16 %, allowed +5 %"
    assert judge(found, regression_pct=None, severity="warning").status == "failed"
    assert judge(found, regression_pct=None, severity="error").status == "passed"


def test_what_cannot_be_judged_is_not_green(compared: Compared) -> None:
    found = decode(encode(compared("overlap")[0]))
    found.step = None
    assert judge(found, regression_pct=5, severity=None).status == "incomplete"
    assert judge(found, regression_pct=5, severity=None, allow_incomplete=True).status == "passed"
    found = decode(encode(compared("overlap")[0]))
    found.b.complete = False
    assert judge(found, regression_pct=50, severity=None).status == "incomplete"


def test_the_command_line(compared: Compared, tmp_path: Path) -> None:
    _, before, after = compared("overlap")
    done = npudiag("compare", before, after, cwd=tmp_path)
    assert done.returncode == 0 and "since --overlap-grad-reduce is gone" in " ".join(done.stdout.split())
    assert "\x1b" not in done.stdout and len(done.stdout.splitlines()) <= 50
    done = npudiag("compare", before, after, "--fail-on-regression", "5%", "--json", "c.json", "--html", "c.html", "-q",
                   cwd=tmp_path)  # fmt: skip
    assert done.returncode == 1 and done.stdout.count("\n") == 1
    written = decode((tmp_path / "c.json").read_bytes())
    assert written.gate is not None and written.gate.status == "failed"
    assert str(tmp_path) not in (tmp_path / "c.json").read_text().replace(" ".join(written.command), "")
    assert (tmp_path / "c.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert npudiag("compare", before, after, "--fail-on", "error", "-q", cwd=tmp_path).returncode == 0
    assert (
        "门禁未通过"
        in npudiag("compare", before, after, "--fail-on-regression", "5", "--lang", "zh", cwd=tmp_path).stdout
    )


def test_exit_codes_of_wrong_usage_and_unknown_input(compared: Compared, tmp_path: Path) -> None:
    _, before, after = compared("losses")
    (tmp_path / "list.txt").write_text("milk\nbread\n")
    (tmp_path / "quiet.log").write_text(
        "[INFO] HCCL(4711,python3):2026-01-02-03:04:05.123.456 [a.cc:1][4711]all is well\n" * 30
    )
    assert npudiag("compare", before, tmp_path / "list.txt", cwd=tmp_path).returncode == 3
    assert npudiag("compare", before, "quiet.log", "--fail-on-regression", "5", cwd=tmp_path).returncode == 4
    assert npudiag("compare", before, "quiet.log", cwd=tmp_path).returncode == 0
    for arguments in (
        [before],
        [before, tmp_path / "not-there"],
        [before, after, "--fail-on-regression", "much"],
        [before, after, "--json", "-", "--html", "-"],
        [before, after, "--json", tmp_path / "no" / "folder.json"],
    ):
        assert npudiag("compare", *arguments, cwd=tmp_path).returncode == 2, arguments


def test_a_healthy_run_against_one_that_died() -> None:
    samples = ROOT / "sample_logs"
    found = package.compare(samples / "healthy-8-ranks" / "logs", samples / "hccl-notify-timeout-dead-peer" / "logs")
    new = [item for item in found.findings if item.state == "new"]
    assert new and new[0].severity == "critical"
    assert found.headline.en.startswith("New in B: ") and "B 新增：" in found.headline.zh
    back = package.compare(samples / "hccl-notify-timeout-dead-peer" / "logs", samples / "healthy-8-ranks" / "logs")
    assert "Gone in B: " in back.headline.en
