"""The vendor's tools: asked without a shell, never waited for too long, their answers judged by the rules."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from vendor_outputs import FakeTools, board, common, info

from npudiag.analyze import Options, inspect_texts
from npudiag.engine.load import RulePack, load_pack
from npudiag.host import vendor
from npudiag.result import Finding, Result


@pytest.fixture(scope="module")
def pack() -> RulePack:
    return load_pack()


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTools]:
    yield FakeTools(tmp_path, monkeypatch)


BEFORE = '# npudiag host snapshot 1\nsnapshot.purpose = "preflight"\n'


def judged(pack: RulePack, text: str) -> Result:
    rules = [rule for rule in pack.rules if rule.code.startswith(("PRE", "DEV018", "DEV028"))]
    return inspect_texts({"host/snapshot.txt": BEFORE, "host/vendor-tools.txt": text}, pack, rules, Options())[0]


def found(result: Result) -> dict[str, Finding]:
    return {finding.name: finding for finding in result.findings}


def test_a_healthy_machine_has_no_findings(tools: FakeTools, pack: RulePack) -> None:
    tools.machine()
    result = judged(pack, vendor.ask_all({}))
    assert not result.findings
    passed = {item.name for item in result.passed}
    assert {
        "npu-port-down", "npu-network-check-fails", "npu-tls-switch-differs", "npu-fec-mode-differs",
        "npu-address-wrong", "npu-link-flaps", "npu-optics-fault", "npu-packet-errors", "npu-firmware-mixed",
        "npu-memory-capacity-low",
        "npu-memory-errors-counted", "vendor-tool-fails",
    } <= passed  # fmt: skip


def test_every_fault_is_found_where_it_stands(tools: FakeTools, pack: RulePack) -> None:
    tools.machine()
    tools.answer("npu-smi info", info(health={3: "Critical"}))
    tools.answer("npu-smi info -t board -i 1", board(1, firmware="7.1.0.11.220"))
    tools.answer("npu-smi info -t common -i 0", common(0, current=800, use=97))
    tools.answer("hccn_tool -i 2 -link -g", "link status: DOWN\n")
    tools.answer("hccn_tool -i 1 -net_health -g", "net health status: Receive timeout\n")
    tools.answer(
        "hccn_tool -i 3 -tls -g", "dev_id:3, tls switch[1](0:disable, 1:enable), tls alarm time threshold[60]days\n"
    )
    text = vendor.ask_all({})
    faults = found(judged(pack, text))
    lines = text.split("\n")
    for name, devices in {
        "npu-health-critical": [3], "npu-firmware-mixed": [1], "npu-clock-below-rated": [0], "npu-port-down": [2],
        "npu-network-check-fails": [1], "npu-tls-switch-differs": [3],
    }.items():  # fmt: skip
        finding = faults.pop(name)
        assert finding.scope.devices == devices, name
        proof = finding.evidence[0]
        assert proof.line is not None and proof.text is not None
        assert lines[proof.line - 1].strip() == proof.text.strip(), name
    assert not faults


def test_what_is_not_there_is_not_judged(tools: FakeTools, pack: RulePack) -> None:
    result = judged(pack, vendor.ask_all({}))
    assert not result.findings
    skipped = {item.name: item.missing for item in result.skipped}
    assert skipped["npu-port-down"] == ["hccn_tool"]
    assert skipped["npu-memory-capacity-low"] == ["npu-smi"]


def test_a_hanging_tool_is_killed_with_its_children_and_not_asked_again(
    tools: FakeTools, pack: RulePack, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    tools.script("npu-smi", f"#!/bin/sh\nsleep 600 &\necho $$ $! >> {pids}\nwait\n")
    begin = time.monotonic()
    text = vendor.ask_all({}, timeout_s=0.3)
    assert time.monotonic() - begin < 20
    assert "# npudiag: tool npu-smi timeout after 0.3 s" in text
    calls = pids.read_text().split("\n")
    assert len([call for call in calls if call]) == 1
    for pid in calls[0].split():
        assert gone(int(pid))
    faults = found(judged(pack, text))
    assert faults["vendor-tool-fails"].severity == "error"


def gone(pid: int) -> bool:
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_a_failing_tool_is_a_finding(tools: FakeTools, pack: RulePack) -> None:
    tools.script("npu-smi", "#!/bin/sh\necho 'dcmi module initialize failed. ret is -8005'\nexit 255\n")
    text = vendor.ask_all({})
    assert "dcmi module initialize failed" in text
    assert found(judged(pack, text))["vendor-tool-fails"].captures["tool"] == "npu-smi"


def test_nothing_goes_through_a_shell(tools: FakeTools, tmp_path: Path) -> None:
    tools.script("npu-smi", '#!/bin/sh\nprintf "%s\\n" "$@"\n')
    marker = tmp_path / "made"
    output = vendor.Session().ask("npu-smi", f"info; touch {marker}", "$(touch made)")
    assert output.text == f"info; touch {marker}\n$(touch made)"
    assert not marker.exists()


def test_endless_and_binary_output_is_cut(tools: FakeTools) -> None:
    tools.script("npu-smi", "#!/bin/sh\nhead -c 3000000 /dev/zero\nprintf '\\377\\376'\n")
    output = vendor.run([str(tools.bin / "npu-smi")], 20)
    assert output.status == "ok"
    assert len(output.text) <= 1 << 20


def test_a_tool_that_cannot_be_started_is_reported(tools: FakeTools) -> None:
    tools.script("npu-smi", "#!/no/such/interpreter\n")
    assert vendor.run([str(tools.bin / "npu-smi")], 5).status == "failed"


def test_the_session_has_a_bound_of_its_own(tools: FakeTools) -> None:
    tools.machine()
    session = vendor.Session(timeout_s=5, budget_s=-1)
    assert session.ask("npu-smi", "info").status == "skipped"


def test_cards_of_two_chips_have_their_physical_numbers() -> None:
    table = (
        "| 0     Ascend910           | OK            | 161.8       34                0    / 0             |\n"
        "| 0     0                   | 0000:9D:00.0  | 12          0    / 0          3165 / 65536         |\n"
        "| 0     Ascend910           | OK            | -           36                0    / 0             |\n"
        "| 1     1                   | 0000:9F:00.0  | 0           0    / 0          2880 / 65536         |\n"
    )
    assert vendor.cards(table) == [0]
    assert vendor.network_devices(table) == [0, 1]


def test_device_logs_are_exported_into_the_folder_given(tools: FakeTools, tmp_path: Path) -> None:
    assert vendor.device_logs(str(tmp_path)).status == "absent"
    tools.script("msnpureport", "#!/bin/sh\nmkdir -p 2026-03-04/slog && echo x > 2026-03-04/slog/a.log\n")
    folder = tmp_path / "export"
    folder.mkdir()
    assert vendor.device_logs(str(folder)).status == "ok"
    assert (folder / "2026-03-04/slog/a.log").is_file()


def test_the_environment_of_the_tools_is_english(tools: FakeTools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    tools.script("npu-smi", "#!/bin/sh\necho $LC_ALL\n")
    assert vendor.run([str(tools.bin / "npu-smi")], 5).text == "C"
    assert os.environ["LC_ALL"] == "zh_CN.UTF-8"
