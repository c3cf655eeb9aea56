"""Replaces what identifies people and machines by pseudonyms, the same everywhere for the same thing.

Analysis goes on to work on what comes out: addresses stay addresses and share prefixes where they did, host names stay
names of nodes and keep their number in the job, ranks, devices and process ids are left alone. The pseudonyms follow
from a key: whoever has it gets the same ones on another node, whoever has not cannot undo them.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache

from npudiag.host.secrets import Masker

_MAPPED = 100_000

_IPV4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?!\d|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}(?![\w:])")
_IPV6_SHORT = re.compile(
    r"(?<![\w:.])(?:[0-9A-Fa-f]{1,4}:){0,7}:(?::?[0-9A-Fa-f]{1,4}){0,7}(?::(?:\d{1,3}\.){3}\d{1,3})?(?![\w:]|\.\d)"
)
_COLON_PAIR = re.compile(r"[0-9A-Fa-f]:[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]")
"""Three colons close together: times of day have two."""
_MAC = re.compile(r"(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:])")
_VERSION_AHEAD = re.compile(r"""(?i)(?:version["']?\s*[=:\[(]?\s*["']?|==|>=|<=|[^a-z]v)\Z""")
_HOME = re.compile(r"(?<=/home/)[^/\s:'\"\\,;)\]]+|(?<=/Users/)[^/\s:'\"\\,;)\]]+")
_USER = re.compile(r"\b((?:USER|LOGNAME|user(?:name)?)=[\"']?)([A-Za-z_][\w.-]{1,31})")
_SERIAL = re.compile(r"(?i)\b((?:serial number|vdie id|uuid)\s*[:=]\s*)([0-9A-Za-z][0-9A-Za-z -]*)")
_SERIAL_WORDS = ("erial", "ERIAL", "Die", "UUID", "uuid")
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,12}\b")
_LOGIN = re.compile(r"(?<![\w.+/@-])([a-z_][\w.-]{1,31})@([A-Za-z0-9][\w.-]{1,62})(?=[:\s\]])")
_URL_HOST = re.compile(r"(?<=://)(?:[^\s/@]*@)?([A-Za-z][A-Za-z0-9.-]{1,250})(?=[:/\s\"')\]]|$)")
_INNER = re.compile(
    r"(?<![\w.-])(?=[A-Za-z0-9])(?:[A-Za-z0-9-]{1,63}\.)+(?:local|internal|localdomain|lan|corp|intra|svc)(?![\w-])"
)
_INNER_ENDINGS = (".local", ".internal", ".lan", ".corp", ".intra", ".svc")
_SYSLOG_HOST = re.compile(r"(?m)^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) (\S{2,63}) (?=[\w./-]+(?:\[\d+\])?:)")
# Where launchers, rendezvous and Kubernetes say the name of a machine.
_TOLD_HOST = re.compile(
    r"(?m)(?:^[ \t]+host {2,}: |\b(?:MASTER_ADDR|HOSTNAME|HOST_NAME|NODE_NAME|NODENAME)=[\"']?|\b[Hh]ostname: "
    r"|\bconnect to \(|\bHost: )([A-Za-z][\w.-]{2,250})(?![\w/(])"
)
_TELLING = ("host", "HOST", "Host", "MASTER_ADDR", "NODE", "connect to (")
_PROFILE_HOST = re.compile(r"(?<![^/\s'\"=])([A-Za-z][A-Za-z0-9.-]{1,62})(?=_\d{1,7}_\d{14,20}_ascend_(?:pt|ms))")

_PUBLIC = re.compile(
    r"(?i)(?:^|\.)(?:hiascend\.com|huawei\.com|huaweicloud\.com|mindspore\.cn|modelscope\.cn|huggingface\.co|hf-mirror\.com"
    r"|github\.com|githubusercontent\.com|gitee\.com|gitcode\.com|pytorch\.org|python\.org|pypi\.org|readthedocs\.io"
    r"|kubernetes\.io|docker\.io|w3\.org|example\.com)\.?$"
)
_GENERIC_HOST = re.compile(
    r"(?i)(?:localhost\w*|ip6-\w+|(?:worker|node|master|host|server|pod|ps|launcher|rank)[-_]?\d{0,6}|kernel|systemd"
    r"|broadcasthost|none|null|unknown|debian|ubuntu|linux)(?:\.localdomain\d?)?\Z"
)
_JOB_HOST = re.compile(r"(?i)(.+?)[-.]((?:worker|node|master|server|ps|launcher)[-_]?\d{1,6})\Z")
_GENERIC_USER = frozenset(
    ("root", "hwhiaiuser", "nobody", "daemon", "user", "admin", "test", "guest", "ubuntu", "docker", "shared", "public")
)
_COMMON_WORDS = frozenset(
    (
        "data", "model", "models", "train", "training", "worker", "work", "node", "rank", "step", "loss", "ascend",
        "cann", "torch", "python", "info", "error", "debug", "host", "home", "local", "main", "trainer", "server",
        "service", "hccl", "device", "master", "launch", "mind", "mindspore", "logs", "runtime", "system", "kernel",
        "default",
    )
)  # fmt: skip


class Redactor:
    """Gives out pseudonyms and remembers them for the key file.

    Attributes:
        aliases: Pseudonym to what it stands for, as many as are remembered.
        counts: Replacements by kind.
    """

    def __init__(self, key: bytes, *, hosts: Iterable[str] = (), users: Iterable[str] = ()) -> None:
        self._key = key
        self.aliases: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self._names: dict[str, str] = {}
        self._addresses: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None
        self._secrets = Masker()
        self._octets = lru_cache(maxsize=65_536)(self._permutation)
        for host in hosts:
            self.learn_host(host)
        for user in users:
            if len(user) >= 4 and user.lower() not in _COMMON_WORDS | _GENERIC_USER:
                self._learn(user, self._user(user))

    @property
    def key_id(self) -> str:
        """What names the key without telling it."""
        return hashlib.sha256(b"npudiag key id" + self._key).hexdigest()[:12]

    def learn_host(self, name: str) -> None:
        """Replace a host name wherever it stands from now on, its short form as well."""
        for form in dict.fromkeys((name, name.partition(".")[0])):
            if len(form) >= 3 and not _GENERIC_HOST.match(form) and not re.fullmatch(r"[\d.]+", form):
                self._learn(form, self._host(name.partition(".")[0]))

    def _learn(self, name: str, alias: str) -> None:
        if name not in self._names and len(self._names) < 4096:
            self._names[name] = alias
            self._pattern = None

    def text(self, text: str) -> str:
        """Return whole lines of text without what identifies anybody and without secrets."""
        text = self._secrets.text(text)
        self.counts["secret"] = self._secrets.count
        for match in _SYSLOG_HOST.finditer(text):
            self.learn_host(match[1])
        if any(word in text for word in _TELLING):
            text = _TOLD_HOST.sub(self._told_host, text)
        # Most blocks hold none of most kinds, and looking for a fixed text costs next to nothing.
        if "_ascend_" in text:
            text = _PROFILE_HOST.sub(lambda match: self._named_host(match[0]), text)
        if "://" in text:
            text = _URL_HOST.sub(self._url_host, text)
        if "@" in text:
            text = _LOGIN.sub(self._login, _MAIL.sub(self._mail, text))
        if _COLON_PAIR.search(text):
            text = _MAC.sub(lambda match: self._put("hardware", match[0], self._mac), text)
            text = _IPV6.sub(self._address6, text)
        if "::" in text:
            text = _IPV6_SHORT.sub(self._address6, text)
        text = _IPV4.sub(self._address, text)
        if any(word in text for word in _SERIAL_WORDS):
            text = _SERIAL.sub(lambda match: match[1] + self._put("hardware", match[2].strip(), self._serial), text)
        if any(ending in text for ending in _INNER_ENDINGS):
            text = _INNER.sub(lambda match: self._named_host(match[0]), text)
        if "/home/" in text or "/Users/" in text:
            text = _HOME.sub(lambda match: self._named_user(match[0]), text)
        if "USER" in text or "LOGNAME" in text or "user" in text:
            text = _USER.sub(lambda match: match[1] + self._named_user(match[2]), text)
        return self._known_names(text)

    def path(self, path: str) -> str:
        """Return a path without names of hosts and users."""
        return "/".join(self.text(part) for part in path.split("/"))

    def host(self, name: str) -> str:
        """Return the pseudonym of a host."""
        self.learn_host(name)
        return self._named_host(name)

    # -- names

    def _known_names(self, text: str) -> str:
        if self._pattern is None:
            if not self._names:
                return text
            names = sorted(self._names, key=len, reverse=True)
            self._pattern = re.compile(rf"(?<![A-Za-z0-9-])(?:{'|'.join(map(re.escape, names))})(?![A-Za-z0-9-])")

        def replaced(match: re.Match[str]) -> str:
            self.counts["name"] += 1
            return self._note(self._names[match[0]], match[0])

        return self._pattern.sub(replaced, text)

    def _named_host(self, name: str) -> str:
        short = name.partition(".")[0]
        if _GENERIC_HOST.match(name) or _GENERIC_HOST.match(short) or name in self.aliases:
            return name
        self.counts["host"] += 1
        return self._note(self._host(short), name)

    def _told_host(self, match: re.Match[str]) -> str:
        """Replace a name that is said to be a machine's, and remember it where it cannot be a word of the log."""
        name = match[1].rstrip(".")
        if _PUBLIC.search(name):
            return match[0]
        for form in dict.fromkeys((name, name.partition(".")[0])):
            if (
                re.search(r"\d|\.", form)
                and len(form) >= 4
                and not _GENERIC_HOST.match(form)
                and form not in self.aliases
            ):
                self._learn(form, self._host(name.partition(".")[0]))
        return match[0].replace(name, self._named_host(name))

    def _host(self, short: str) -> str:
        job = _JOB_HOST.match(short)
        if job:
            # The number within the job is structure, the job's name is not.
            return f"x{self._digest('job', job[1])[:8]}-{job[2].lower()}"
        return f"node-{int(self._digest('host', short)[:15], 16) % 90_000_000 + 10_000_000}"

    def _named_user(self, name: str) -> str:
        if name.lower() in _GENERIC_USER or name.startswith("user-") or not re.search(r"[A-Za-z]", name):
            return name
        self.counts["user"] += 1
        return self._note(self._user(name), name)

    def _user(self, name: str) -> str:
        return f"user-{self._digest('user', name)[:6]}"

    def _mail(self, match: re.Match[str]) -> str:
        return self._put("mail", match[0], lambda text: f"mail-{self._digest('mail', text)[:6]}")

    def _login(self, match: re.Match[str]) -> str:
        user, host = match.groups()
        if _IPV4.fullmatch(host):
            return f"{self._named_user(user)}@{host}"
        if host[0].isdigit() and re.fullmatch(r"[\d.]+(?:rc|post|dev|a|b)?[\d.]*", host):
            # A package and its version.
            return match[0]
        return f"{self._named_user(user)}@{self._named_host(host)}"

    def _url_host(self, match: re.Match[str]) -> str:
        host = match[1]
        if _PUBLIC.search(host) or ("." not in host and _GENERIC_HOST.match(host)):
            return match[0]
        return match[0][: len(match[0]) - len(host)] + self._named_host(host)

    # -- addresses

    def _address(self, match: re.Match[str]) -> str:
        text = match[0]
        start = match.start()
        if _VERSION_AHEAD.search(match.string[max(0, start - 24) : start]):
            return text
        alias = self._addresses.get(text)
        if alias is None:
            octets = text.split(".")
            wrong = any(int(octet) > 255 or (len(octet) > 1 and octet[0] == "0") for octet in octets)
            kept = wrong or int(octets[0]) in (0, 127) or int(octets[0]) >= 224
            alias = text if kept else self._note(self._ipv4(text), text)
            if len(self._addresses) < _MAPPED:
                self._addresses[text] = alias
        if alias is not text:
            self.counts["address"] += 1
        return alias

    def _ipv4(self, text: str) -> str:
        octets = [int(octet) for octet in text.split(".")]
        out: list[int] = []
        for index, octet in enumerate(octets):
            out.append(self._octets(bytes(octets[:index]))[octet])
        return ".".join(map(str, out))

    def _permutation(self, prefix: bytes) -> tuple[int, ...]:
        """Return what the octets behind `prefix` become: one to one, so that nothing is mixed up."""
        # The first octet stays one of an ordinary address.
        moved = [octet for octet in range(1, 224) if octet != 127] if not prefix else list(range(256))
        table = list(range(256))
        shuffled = sorted(moved, key=lambda octet: hmac.digest(self._key, bytes((*prefix, octet)), "sha256"))
        for octet, value in zip(moved, shuffled, strict=True):
            table[octet] = value
        return tuple(table)

    def _address6(self, match: re.Match[str]) -> str:
        text = match[0]
        try:
            address = ipaddress.IPv6Address(text)
        except ValueError:
            return text
        if address.is_loopback or address.is_unspecified or address.is_multicast:
            return text
        return self._put("address", text, self._ipv6)

    def _ipv6(self, text: str) -> str:
        packed = ipaddress.IPv6Address(text).packed
        net, own = self._digest("net6", packed[:8].hex()), self._digest("host6", packed.hex())
        return str(ipaddress.IPv6Address(bytes.fromhex("fd" + net[:14] + own[:16])))

    def _mac(self, text: str) -> str:
        digest = self._digest("mac", text.lower())
        return ":".join(["02", *(digest[at : at + 2] for at in range(0, 10, 2))])

    def _serial(self, text: str) -> str:
        return f"sn-{self._digest('serial', text)[:8]}"

    # -- pseudonyms

    def _digest(self, kind: str, text: str) -> str:
        return hmac.digest(self._key, f"{kind}\0{text}".encode("utf-8", "surrogatepass"), "sha256").hex()

    def _put(self, kind: str, text: str, make: Callable[[str], str]) -> str:
        self.counts[kind] += 1
        return self._note(make(text), text)

    def _note(self, alias: str, text: str) -> str:
        if len(self.aliases) < _MAPPED:
            self.aliases.setdefault(alias, text)
        return alias
