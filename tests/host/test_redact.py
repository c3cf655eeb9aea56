"""Pseudonyms: nothing identifying stays, the same thing gets the same name everywhere, structure is kept."""

from __future__ import annotations

import ipaddress
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from npudiag.discover.identity import identify
from npudiag.host.redact import Redactor
from npudiag.host.secrets import MASK, is_secret_name, mask

KEY = bytes(range(32))
WORDS = st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=4, max_size=10)
ADDRESSES = st.ip_addresses(v=4).filter(
    lambda address: 0 < int(str(address).split(".")[0]) < 224 and not str(address).startswith("127.")
)
GLUE = st.sampled_from([" ", "[", "(", "'", '"', "=", ", ", "ip[", "/", "//", ":", "\n"])


def redactor(**names: list[str]) -> Redactor:
    return Redactor(KEY, hosts=names.get("hosts", []), users=names.get("users", []))


@settings(max_examples=300, deadline=None)
@given(
    before=GLUE, address=ADDRESSES, after=st.sampled_from([" ", "]", ")", "'", ":29500", "/16", "%eth0", ".", "\n", ""])
)
def test_no_address_stays_whatever_stands_around_it(before: str, address: ipaddress.IPv4Address, after: str) -> None:
    one = redactor()
    clean = one.text(f"connect{before}{address}{after}")
    found = re.findall(r"(?:\d{1,3}\.){3}\d{1,3}", clean)
    assert len(found) == 1
    assert one.aliases[found[0]] == str(address)
    assert clean.replace(found[0], str(address)) == f"connect{before}{address}{after}"


@settings(deadline=None)
@given(first=ADDRESSES, second=ADDRESSES)
def test_addresses_keep_what_they_share(first: ipaddress.IPv4Address, second: ipaddress.IPv4Address) -> None:
    def shared(one: str, other: str) -> int:
        pairs = zip(one.split("."), other.split("."), strict=True)
        return next((index for index, (left, right) in enumerate(pairs) if left != right), 4)

    clean = redactor().text(f"{first} {second}").split(" ")
    assert shared(*clean) == shared(str(first), str(second))
    assert all(0 < int(text.split(".")[0]) < 224 for text in clean)


@settings(deadline=None)
@example(address=ipaddress.IPv6Address("::ffff:10.20.30.40"))
@given(address=st.ip_addresses(v=6))
def test_no_ipv6_address_stays(address: ipaddress.IPv6Address) -> None:
    kept = address.is_loopback or address.is_unspecified or address.is_multicast
    clean = redactor().text(f"listen on [{address}]:60000")
    assert (str(address) in clean) == kept
    assert "10.20.30.40" not in clean
    inner = clean[clean.index("[") + 1 : clean.index("]")]
    assert ipaddress.ip_address(inner).version == 6


@settings(deadline=None)
@given(text=st.text(max_size=300))
def test_any_text_is_survived_and_lines_stay_lines(text: str) -> None:
    assert redactor(hosts=["gpu-box-17"], users=["chenwei"]).text(text).count("\n") == text.count("\n")


@settings(deadline=None)
@given(text=st.lists(st.one_of(ADDRESSES.map(str), WORDS, st.just("gpu-box-17")), max_size=12).map(" ".join))
def test_the_same_key_gives_the_same_names_in_any_order(text: str) -> None:
    one, other = redactor(hosts=["gpu-box-17"]), redactor(hosts=["gpu-box-17"])
    other.text(" ".join(reversed(text.split(" "))))
    assert one.text(text) == other.text(text)
    assert redactor(hosts=["gpu-box-17"]).key_id == one.key_id


def test_another_key_gives_other_names() -> None:
    line = "10.20.30.40 gpu-box-17 /home/chenwei"
    other = Redactor(b"\1" * 32, hosts=["gpu-box-17"])
    assert other.text(line) != redactor(hosts=["gpu-box-17"]).text(line)
    assert other.key_id != redactor().key_id


@pytest.mark.parametrize(
    "text",
    [
        "Version=24.1.0.3",
        "firmware 7.1.0.11.220",
        "torch_npu==2.1.0.4",
        "package_version: 23.0.7.1",
        "0000:9D:00.0",
        "09:14:27.306",
        "listening on 127.0.0.1 and 0.0.0.0, mask 255.255.255.0",
        "std::string ge::Graph",
        "worker-0 node-3 localhost master-0",
        "rank 5 device 3 pid 48213 (Worker_TP0 pid=4821)",
        "https://www.hiascend.com/document https://github.com/x/y",
        "pad_token: <pad>, max_tokens=4096, num_tokens: 123456789, tokens_per_second=1234.5",
        "tokenizer_type ................ PretrainedFromHF",
        "installed torch@2.7.1 and mindspeed@2.3.0 from source",
        "the token expired, no password was given, secret not found",
        "/home/ and /Users are folders",
        "PWD=/data/ckpt OLDPWD=/data",
        '{"secret": ""}',
        "cookiecutter -p 8 torchrun -p 4",
    ],
)
def test_what_identifies_nobody_stays(text: str) -> None:
    assert redactor(hosts=["gpu-box-17"], users=["chenwei"]).text(text) == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrStUvWx", "hf_AbC"),
        ("Authorization: Bearer abcdef0123456789", "abcdef0123456789"),
        ("git clone https://chenwei:s3cr3t-pw@git.corp.lan/x", "s3cr3t-pw"),
        ("password=hunter2", "hunter2"),
        ("İ ẞ PASSWORD=hunter2", "hunter2"),
        ('{"api_key": "0123456789abcdef"}', "0123456789abcdef"),
        ("--wandb-api-key 0123456789abcdef0123", "0123456789abcdef0123"),
        ("AWS AKIAABCDEFGHIJKLMNOP", "AKIAABCDEFGHIJKLMNOP"),
        ("export SECRET_KEY='zzzzzzzz1'", "zzzzzzzz1"),
        ("token: eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeKKF2Q", "eyJhbGciOiJI"),
        ("export KEY_PASSPHRASE='one two three'", "two"),
        ('{"password": "one, two", "x": 1}', "two"),
        ("export DB_PWD=qwe123", "qwe123"),
        ("Server=db;Uid=sa;Pwd=qwe123;", "qwe123"),
        ("GET https://bucket.obs.lan/a?AccessKeyId=ABCDEF&Expires=1&Signature=abc%2Bdef", "abc%2Bdef"),
        ("GET https://bucket.obs.lan/a?AccessKeyId=ABCDEF&Expires=1", "ABCDEF"),
        ("https://s3.lan/x?X-Amz-Signature=0011aabb&y=1", "0011aabb"),
        ('{"auths": {"hub": {"auth": "dXNlcjpwYXNz"}}}', "dXNlcjpwYXNz"),
        ("Cookie: session=deadbeef; theme=dark", "deadbeef"),
        ("docker login -u someone -p Dock3r hub.lan", "Dock3r"),
        ("mysql -u root -pSuper1 -h db", "Super1"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----", "MIIEowIBAAKCAQEA"),
    ],
)
def test_secrets_are_masked(text: str, secret: str) -> None:
    clean = redactor().text(text)
    assert secret not in clean
    assert MASK in clean


def test_a_key_that_goes_over_blocks_is_masked_to_its_end() -> None:
    one = redactor()
    first = one.text("-----BEGIN PRIVATE KEY-----\nAAAA1111\n")
    second = one.text("BBBB2222\n-----END PRIVATE KEY-----\nafter\n")
    assert "AAAA" not in first
    assert "BBBB" not in second
    assert second.endswith("after\n")


def test_names_are_replaced_where_they_are_names() -> None:
    one = redactor(hosts=["gpu-box-17.prod.corp"], users=["chenwei"])
    clean = one.text(
        "chenwei@gpu-box-17 ran /home/chenwei/a.py on gpu-box-17.prod.corp\n"
        "Mar  4 01:00:00 db-host-3 kernel: out of memory\ndb-host-3 is gone\n"
        "db-host-3_481_20260304010000000_ascend_pt/x"
    )
    assert not re.search(r"chenwei|gpu-box-17|prod\.corp|db-host-3", clean)
    assert len(set(re.findall(r"user-[0-9a-f]{6}", clean))) == 1
    assert len(set(re.findall(r"node-\d{8}", clean))) == 2


@pytest.mark.parametrize(
    "text",
    [
        "  host      : gpu17.hpc.firm.cn\n  rank      : 3 (local_rank: 3)",
        "export MASTER_ADDR=gpu17.hpc.firm.cn\nlost gpu17",
        "HOSTNAME=gpu17\nNPU_HOSTS=gpu17:8",
        "timed out while trying to connect to (gpu17.hpc.firm.cn, 29500).",
    ],
)
def test_names_that_the_log_says_are_machines(text: str) -> None:
    clean = redactor().text(text)
    assert "gpu17" not in clean and "node-" in clean


def test_a_word_said_to_be_a_machine_is_no_name_elsewhere() -> None:
    clean = redactor().text("MASTER_ADDR=device\nset device 3, HOSTNAME=localhost, Hostname: worker-0")
    assert "set device 3, HOSTNAME=localhost, Hostname: worker-0" in clean
    assert "MASTER_ADDR=device" not in clean


def test_a_login_at_an_address_is_replaced_on_both_sides() -> None:
    clean = redactor().text("ssh chenwei@10.20.30.40: refused")
    assert "chenwei" not in clean
    assert "10.20.30.40" not in clean


def test_serial_numbers_of_hardware_are_replaced() -> None:
    clean = redactor().text(
        "        Serial Number                  : 2102314NMX10P4000123\n        VDie ID : 1A2B 3C4D 5E6F\n"
    )
    assert not re.search(r"2102314|1A2B|5E6F", clean)
    assert len(re.findall(r": sn-[0-9a-f]{8}\n", clean)) == 2


def test_users_with_everyday_names_are_replaced_in_their_folders_only() -> None:
    one = redactor(users=["train"])
    assert one.text("train step 3 in /home/train/x") == f"train step 3 in /home/{one._user('train')}/x"


def test_hosts_keep_their_place_in_the_job() -> None:
    one = redactor(hosts=["secretjob-worker-3", "secretjob-worker-11"])
    first, second = one.text("secretjob-worker-3 secretjob-worker-11").split(" ")
    assert first.endswith("-worker-3")
    assert second.endswith("-worker-11")
    assert first.rpartition("-worker-")[0] == second.rpartition("-worker-")[0]
    assert identify(f"{first}/a.log").node == first
    assert identify(f"{one.text('gpu-box-17')}/a.log").node is None
    assert identify(f"{one.host('gpu-box-17')}/a.log").node == one.host("gpu-box-17")


def test_a_pseudonym_is_left_alone() -> None:
    one = redactor(hosts=["gpu-box-17"])
    name = one.host("gpu-box-17")
    assert one.text(f"tcp://{name}:29500") == f"tcp://{name}:29500"


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "PASSWORD", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "GITHUB_TOKEN", "db.pwd"]
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["PWD", "OLDPWD", "TOKENIZERS_PARALLELISM", "MAX_TOKENS", "PATH", "HCCL_CONNECT_TIMEOUT"]
)
def test_names_of_no_secrets(name: str) -> None:
    assert not is_secret_name(name)


@settings(deadline=None)
@given(text=st.text(max_size=200))
def test_masking_survives_any_text(text: str) -> None:
    assert isinstance(mask(text), str)
