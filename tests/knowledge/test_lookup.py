"""Codes are recognised by their shape, explained, and unknown ones by what is near."""

from __future__ import annotations

import pytest

from npudiag.engine.load import RulePack, load_pack
from npudiag.knowledge import decode
from npudiag.knowledge.catalogue import shipped
from npudiag.knowledge.lookup import codes_in, lookup, meanings


@pytest.fixture(scope="module")
def pack() -> RulePack:
    return load_pack()


@pytest.mark.parametrize(
    ("code", "family", "words"),
    [
        ("507015", "acl-507", "AI Core"),
        ("161002", "acl-161", "aclnn"),
        ("145003", "acl-145", "model"),
        ("EI0006", "EI", "socket"),
        ("ei0006", "EI", "socket"),
        ("EI0006:", "EI", "socket"),
        ("W40011", "E4", "cache"),
        ("WE0001", "EE", "supported"),
        ("EE9999", "EE", "Inner error"),
        ("0x0000000005010009", "hccl", "waited too long"),
        ("errNo[0x0000000005000006]", "hccl", "did not find"),
        ("errNo[0x0000000000000009]", "hccl", "waited too long"),
        ("EZ9042", "EZ", "inner error"),
        ("ERR02200", "torch_npu", "HCCL"),
        ("ERR01005", "torch_npu", "operator"),
        ("MIE05E01001A", "mindie", "KV cache"),
        ("MIE03E10070B", "mindie", "Controller"),
        ("0x80E01801", "event", "HBM"),
        ("80E01801", "event", "HBM"),
        ("0x80fa4e00", "event", "heartbeat"),
        ("0x40F84E00", "event", "heartbeat"),
        ("0x7110013", "runtime", "device"),
        ("0x07110013", "runtime", "device"),
        ("InnerCode=0x7110013", "runtime", "device"),
        ("0xA0058006", "dvpp", "null"),
        ("0xB4060007", "bbox", "task scheduler"),
        ("0000001D", "bmc", "CPU"),
        ("[0x00f1ff09,155913,npu,na]", "switch", "port"),
        ("hwPortFail_active", "switch", "port"),
        ("2162169857", "event", "HBM"),
        ("-2132797439", "event", "HBM"),
        ("error code is 9", "hccl", "waited"),
        ("errno 98", "hccp", "in use"),
        ("hccl_e_timeout", "hccl", "waited"),
        ("sigbus", "signal", "SIGBUS"),
        ("-9", "signal", "SIGKILL"),
        ("137", "signal", "SIGKILL"),
        ("exit code 139", "exit", "SIGSEGV"),
        ("exitcode: -11", "signal", "SIGSEGV"),
        ("signal 6", "signal", "SIGABRT"),
        ("exit code 127", "exit", "not found"),
        ("ret 9", "hccl", "waited"),
        ("ret(-67)", "hccp", "link"),
        ("-8008", "dcmi", "DCMI"),
        ("Health : Alarm", "npu-smi", "major"),
        ("ACL_ERROR_RT_AICORE_TIMEOUT", "acl-507", "timed out"),
        ("HCCL_E_REMOTE", "hccl", "error CQE"),
        ("RT_ERROR_TSFW_AICORE_EXCEPTION", "runtime", "AI Core"),
        ("SIGBUS", "signal", "shared memory"),
    ],
)
def test_codes_are_recognised(code: str, family: str, words: str) -> None:
    answer = lookup(code)
    assert answer.family is not None
    assert answer.family.id == family
    assert words in answer.entries[0].means.en


@pytest.mark.parametrize(
    ("code", "family", "near"),
    [
        ("EI0033", "EI", "EI0020"),
        ("507058", "acl-507", "507057"),
        ("EL0016", "EL", "EL0015"),
        ("W40013", "E4", "W40012"),
        ("ERR02201", "torch_npu", "ERR02200"),
        ("0x07050077", "runtime", "0x07050009"),
    ],
)
def test_unknown_codes_get_family_and_neighbours(code: str, family: str, near: str) -> None:
    answer = lookup(code)
    assert not answer.entries
    assert answer.family is not None
    assert answer.family.id == family
    assert near in [entry.code for entry in answer.nearest]


@pytest.mark.parametrize("word", ["", "hello", "12:30", "2026-01-02", "999999", "0xzz", "EX", "E1", "-", "(1,2,3,4)"])
def test_other_words_are_no_codes(word: str) -> None:
    answer = lookup(word)
    assert answer.family is None
    assert not answer.entries


def test_one_number_can_mean_several_things() -> None:
    meant = {entry.family for entry in lookup("-11").entries}
    assert meant == {"signal", "hccp"}


@pytest.mark.parametrize(
    ("code", "rule"),
    [("507015", "AIC001"), ("EI0006", "HCC110"), ("0x80E01801", "DEV002"), ("MIE05E01001A", "SRV209")],
)
def test_the_rules_that_know_a_code_are_named(pack: RulePack, code: str, rule: str) -> None:
    assert rule in [known.code for known in lookup(code, pack).rules]


# -- codes made of fields


@pytest.mark.parametrize("text", ["(0x800000, 0x0, 0x200000)", "0x800000,0,0x200000", "0x800000, 0, 0x200000"])
def test_registers_are_read_bit_by_bit(text: str) -> None:
    (entry,) = lookup(text).entries
    assert entry.family == "aicore"
    assert [detail.en.split(":")[0] for detail in entry.details] == ["register 1 bit 23", "register 3 bit 21"]
    assert entry.advice == "ac-bus"


def test_the_most_telling_bit_speaks() -> None:
    (entry,) = lookup("(0x800100, 0, 0)").entries
    assert entry.advice == "ac-ecc"
    assert len(entry.details) == 2


def test_no_bit_means_a_time_out() -> None:
    assert "time limit" in lookup("(0, 0, 0)").entries[0].means.en


def test_registers_that_are_none() -> None:
    known = shipped()
    assert decode.registers([1 << 64], known) is None
    assert decode.registers([], known) is None
    assert decode.registers([0, 0, 1 << 60], known) is not None


@pytest.mark.parametrize(
    ("value", "fields"),
    [(0x80E01801, (0x70, 0xC, 1)), (0x80C9800A, (0x64, 0xC0, 10)), (0x8C2FA009, (0x617, 0xD0, 9))],
)
def test_events_are_taken_apart(value: int, fields: tuple[int, int, int]) -> None:
    assert decode.event_fields(value) == fields


def test_events_nobody_listed_are_composed() -> None:
    (entry,) = lookup("0x80C98005").entries
    assert entry.means.en == "AI Core (AIC): parity or check error."
    (entry,) = lookup("0x80C981FF").entries
    assert "kind is not known" in entry.means.en
    assert not lookup("0xFFFFFFFF").entries


# -- in text


def test_codes_in_text_come_in_order_and_once() -> None:
    text = (
        "rtStreamSynchronize:ErrCode=507015, desc=[aicore exception], InnerCode=0x7150026\n"
        "errcode:(0x800000, 0x0, 0x0)\nEZ9999: Inner Error!\nERR00100 PTA call acl api failed, error code is 507015\n"
        "exitcode: -9 (pid: 4711), event_id=0x80c9800a, MIE04E020410, ACL_ERROR_RT_PARAM_INVALID"
    )
    assert codes_in(text) == [
        "507015",
        "0x7150026",
        "(0x800000, 0x0, 0x0)",
        "EZ9999",
        "ERR00100",
        "exit code -9",
        "0x80c9800a",
        "MIE04E020410",
        "ACL_ERROR_RT_PARAM_INVALID",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "elapsed 507015.25 ms, 1507015 tokens, v507015",
        "step 100000 of 207018000, loss 2.107001",
        "E0507 03:24:15.004211 controller.go:88] reconciled",
        "pointer 0x80123456789a mapped, mask 0x7fffffff",
        "MODEL_E10001_LARGE and EI0006x",
    ],
)
def test_what_only_looks_like_a_code_is_left_alone(text: str) -> None:
    assert [code for code in codes_in(text) if code not in ("100000",)] == []


def test_meanings_for_a_document() -> None:
    found = meanings(["EI0006", "nothing"])
    assert list(found) == ["EI0006"]
    assert set(found["EI0006"]) == {"en", "zh"}


def test_results_of_hccl_are_no_error_registers() -> None:
    assert lookup("0x0000000005010009").entries[0].symbol == "HCCL_E_TIMEOUT"
    assert lookup("0x0000000005020009").family is not None
    assert lookup("0x800000").family.id == lookup("0x0000000005020009").family.id  # type: ignore[union-attr]


def test_a_code_of_a_family_with_the_wrong_length_is_of_the_family() -> None:
    told = lookup("MIE05E99999")
    assert not told.entries and told.family is not None and told.nearest


@pytest.mark.parametrize("code", ["errno 98765", "ret = 4711", "3221225477", "-99999999999", "some_word"])
def test_what_only_looks_like_a_code_is_none(code: str) -> None:
    answer = lookup(code)
    assert answer.family is None and not answer.entries


@pytest.mark.parametrize(
    ("code", "near"), [("EI00061", "EI0006"), ("ei0O06", "EI0006"), ("MIE05E00001X", "MIE05E0000")]
)
def test_a_code_with_a_slip_is_told_with_its_neighbours(code: str, near: str) -> None:
    answer = lookup(code)
    assert not answer.entries and answer.family is not None
    assert any(entry.code.startswith(near) for entry in answer.nearest)


@pytest.mark.parametrize("word", ["EX9999", "rank12345", "abc1234", "bf16x2"])
def test_what_only_looks_like_a_code_is_nobodys(word: str) -> None:
    answer = lookup(word)
    assert not answer.entries and answer.family is None and not answer.nearest
