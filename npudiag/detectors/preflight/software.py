"""Driver, CANN, Python packages: whether they are there, found by the environment, and belong together."""

from __future__ import annotations

import re
from collections.abc import Sequence

from npudiag.advice import compatibility
from npudiag.analyses.host import Fact, Host
from npudiag.detectors.preflight.answer import Answer, Params, Words, all_hosts, both, each_host, hit
from npudiag.engine.hits import CannotJudge, Hit

_CANN = ("toolkit", "nnae")
_RELEASE_IN_PATH = re.compile(r"(?:ascend-toolkit|cann|nnae|Ascend)[/-](\d+\.\d+(?:\.\w+)*)(?=/|\Z)")
_GLIBC = re.compile(r"manylinux(?:_(\d+)_(\d+)|(1|2010|2014))_")
_MANYLINUX = {"1": (2, 5), "2010": (2, 12), "2014": (2, 17)}
_COMPARED = ("torch", "torch-npu", "vllm", "vllm-ascend", "transformers", "mindspeed", "mindspore", "deepspeed")


def _package(host: Host, name: str) -> Fact:
    """Return an installed package.

    Raises:
        CannotJudge: It is not installed, as far as is known.
    """
    fact = host.one("python", "package", name)
    if fact is None:
        raise CannotJudge(name)
    return fact


def _cann(host: Host) -> Fact | None:
    """Return the version of CANN that is in use."""
    return next((fact for name in _CANN if (fact := host.one("version", name, "version")) is not None), None)


def _needs_npu(host: Host) -> None:
    if not host.npus and host.one("python", "package", "torch-npu") is None:
        raise CannotJudge("NPU")


@each_host
def driver(host: Host, params: Params) -> Answer:
    """There are NPUs and no driver."""
    if not host.npus:
        raise CannotJudge("NPU")
    fact = host.one("version", "driver", "version")
    if fact is not None:
        return Answer(both(fact.value))
    nodes = host.one("device", "node_count")
    if nodes is None or nodes.number or host.cards or host.number("system", "container") == 1:
        # Where cards work the driver is there, wherever its files lie; a container need not see them.
        raise CannotJudge("/usr/local/Ascend/driver/version.info")
    return Answer(both("-"), [hit(host, [nodes, host.one("device", "pci_count")], npus=host.npus)])


@each_host
def cann_installed(host: Host, params: Params) -> Answer:
    """CANN is not found, though torch_npu or NPUs are there."""
    _needs_npu(host)
    installed = host.one("cann", "installed")
    if installed is None:
        raise CannotJudge("cann.installed")
    version = _cann(host)
    if version is not None or installed.number or host.one("cann", "variable", "ASCEND_HOME_PATH"):
        return Answer(both(version.value if version else f"{installed.value} set_env.sh"))
    return Answer(both("-"), [hit(host, [installed, host.one("python", "package", "torch-npu")])])


@each_host
def cann_environment(host: Host, params: Params) -> Answer:
    """CANN is there, and the environment does not lead to it."""
    installed = host.number("cann", "installed")
    if installed is None:
        raise CannotJudge("cann.installed")
    home = host.one("cann", "variable", "ASCEND_HOME_PATH") or host.one("cann", "variable", "ASCEND_TOOLKIT_HOME")
    libraries = host.all("cann", "library_path")
    if not installed and home is None and not libraries:
        raise CannotJudge("CANN")
    script = host.value("cann", "set_env") or "/usr/local/Ascend/ascend-toolkit/set_env.sh"
    problems: list[tuple[Words, list[Fact | None]]] = []
    if home is None:
        problems.append((("ASCEND_HOME_PATH is not set", "未设置 ASCEND_HOME_PATH"), [host.one("cann", "set_env")]))
    for fact in host.all("cann", "exists"):
        if fact.number == 0:
            value = host.one("cann", "variable", fact.item)
            shown = value.value if value else ""
            words = (f"{fact.item} leads nowhere: {shown}", f"{fact.item} 指向不存在的路径：{shown}")
            problems.append((words, [value, fact]))
    if home is not None and not libraries:
        words = ("LD_LIBRARY_PATH holds no folder of CANN", "LD_LIBRARY_PATH 中没有 CANN 目录")
        problems.append((words, [home]))
    elif libraries and not any(fact.number for fact in libraries):
        words = ("no CANN folder in LD_LIBRARY_PATH exists", "LD_LIBRARY_PATH 中的 CANN 目录都不存在")
        problems.append((words, list(libraries[:3])))
    measured = both(home.value if home else "-")
    hits = [hit(host, facts, words={"problem": words}, script=script) for words, facts in problems[:1]]
    return Answer(measured, hits)


@each_host
def cann_mixed(host: Host, params: Params) -> Answer:
    """The search paths lead to two releases of CANN."""
    paths = [*host.all("cann", "library_path"), *host.all("cann", "python_path")]
    named = [
        Fact(fact.item, fact.value, None, None, fact.file, fact.line, fact.text)
        for fact in host.all("cann", "variable")
        if fact.item in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH")
    ]
    if not paths and not named:
        raise CannotJudge("LD_LIBRARY_PATH, ASCEND_HOME_PATH")
    by_release: dict[tuple[int, ...], tuple[str, Fact]] = {}
    for text, fact in [*((fact.item, fact) for fact in paths), *((fact.value, fact) for fact in named)]:
        match = _RELEASE_IN_PATH.search(text)
        if match:
            by_release.setdefault(compatibility.order(match[1]), (match[1], fact))
    releases = ", ".join(release for release, _ in by_release.values())
    if len(by_release) < 2:
        return Answer(both(releases or f"{len(paths)} paths"))
    return Answer(both(releases), [hit(host, [fact for _, fact in by_release.values()], releases=releases)])


def _pair(host: Host, package: str, of: str, fact: Fact | None, found: str | None) -> tuple[Fact, Answer]:
    """Compare a package with what its release needs.

    Raises:
        CannotJudge: It is not installed, what it needs is not known, or not what is there.
    """
    own = _package(host, package)
    allowed = compatibility.needs(package, own.value, of)
    if not allowed:
        raise CannotJudge(f"{package} {own.value}")
    if found is None:
        raise CannotJudge(of)
    measured = both(f"{package} {own.value}, {of} {found} ({', '.join(allowed)})")
    if compatibility.fits(found, allowed, of):
        return own, Answer(measured)
    needed = ", ".join(allowed)
    return own, Answer(
        measured, [hit(host, [own, fact], package=package, release=own.value, needs=needed, found=found)]
    )


@each_host
def torch_pair(host: Host, params: Params) -> Answer:
    """torch_npu was made for another torch."""
    own, torch = _package(host, "torch-npu"), _package(host, "torch")
    allowed = compatibility.needs("torch-npu", own.value, "torch") or (compatibility.base(own.value),)
    measured = both(f"torch-npu {own.value}, torch {torch.value}")
    if compatibility.fits(torch.value, allowed, "torch"):
        return Answer(measured)
    needed = ", ".join(allowed)
    return Answer(measured, [hit(host, [own, torch], release=own.value, needs=needed, found=torch.value)])


@each_host
def cann_pair(host: Host, params: Params) -> Answer:
    """torch_npu was made for another CANN; a newer one often does as well."""
    fact = _cann(host)
    _, answer = _pair(host, "torch-npu", "cann", fact, fact.value if fact else None)
    if answer.hits and fact is not None:
        allowed = compatibility.needs("torch-npu", _package(host, "torch-npu").value, "cann")
        if compatibility.order(fact.value) > max(map(compatibility.order, allowed)):
            answer.hits[0].severity = "info"
    return answer


@each_host
def python_pair(host: Host, params: Params) -> Answer:
    """This Python is none that torch supports."""
    torch = _package(host, "torch")
    version = host.one("python", "version")
    allowed = compatibility.needs("torch", compatibility.base(torch.value), "python")
    if version is None or not allowed:
        raise CannotJudge(f"torch {torch.value}")
    measured = both(f"Python {version.value}, torch {torch.value}")
    if compatibility.fits(version.value, allowed, "python"):
        return Answer(measured)
    needed = ", ".join(allowed)
    return Answer(measured, [hit(host, [version, torch], release=torch.value, needs=needed, found=version.value)])


def _stack_pairs(host: Host, package: str, parts: Sequence[str]) -> Answer:
    """Compare a framework with everything its release names."""
    own = _package(host, package)
    hits: list[Hit] = []
    shown = []
    for of in parts:
        fact: Fact | None
        if of == "cann":
            fact = _cann(host)
        elif of == "python":
            fact = host.one("python", "version")
        else:
            fact = host.one("python", "package", of)
        try:
            _, answer = _pair(host, package, of, fact, fact.value if fact else None)
        except CannotJudge:
            continue
        shown.append(f"{of} {fact.value if fact else '?'}")
        for found in answer.hits:
            found.captures["of"] = of
            hits.append(found)
    if not shown:
        raise CannotJudge(f"{package} {own.value}")
    return Answer(both(f"{package} {own.value}: {', '.join(shown)}"), hits)


@each_host
def vllm_stack(host: Host, params: Params) -> Answer:
    """vllm-ascend runs with other releases than it was tested with."""
    return _stack_pairs(host, "vllm-ascend", ("vllm", "torch", "torch-npu", "cann", "python", "triton-ascend"))


@each_host
def mindspeed_stack(host: Host, params: Params) -> Answer:
    """MindSpeed-LLM runs with other releases than it names."""
    return _stack_pairs(host, "mindspeed-llm", ("torch", "cann", "python"))


@each_host
def wheels(host: Host, params: Params) -> Answer:
    """An installed wheel was built for another Python, processor or C library."""
    tagged = [fact for fact in host.all("wheel", "tags") if fact.value]
    if not tagged:
        raise CannotJudge("torch, torch-npu")
    version, arch, glibc = host.value("python", "version"), host.value("system", "arch"), host.value("system", "glibc")
    hits = []
    for fact in tagged:
        words = _misfit(fact.value.split(), version, arch, glibc)
        if words is not None:
            hits.append(hit(host, [fact], package=fact.item, tag=fact.value.split()[0], words={"problem": words}))
    return Answer((f"{len(tagged)} wheels", f"{len(tagged)} 个 wheel"), hits)


def _misfit(tags: Sequence[str], version: str | None, arch: str | None, glibc: str | None) -> Words | None:
    """Return why none of a wheel's tags fits, None where one does or that is not known."""
    reasons: list[Words | None] = [_misfit_of(tag, version, arch, glibc) for tag in tags]
    return None if None in reasons or not reasons else reasons[0]


def _misfit_of(tag: str, version: str | None, arch: str | None, glibc: str | None) -> Words | None:
    parts = tag.split("-")
    if len(parts) != 3:
        return None
    interpreter, abi, platforms = parts
    if version and (match := re.fullmatch(r"cp(\d)(\d+)", interpreter)) and abi != "abi3":
        own = ".".join(version.split(".")[:2])
        if own != f"{match[1]}.{match[2]}":
            return (
                f"it is for Python {match[1]}.{match[2]}, this is {own}",
                f"适用于 Python {match[1]}.{match[2]}，当前为 {own}",
            )
    if platforms == "any":
        return None
    if arch and not any(platform.endswith(arch) for platform in platforms.split(".")):
        return f"it is for {platforms}, this machine is {arch}", f"适用于 {platforms}，本机为 {arch}"
    wanted = [_glibc_of(match) for platform in platforms.split(".") if (match := _GLIBC.match(platform))]
    have = tuple(int(number) for number in re.findall(r"\d+", glibc or "")[:2])
    if wanted and len(have) == 2 and min(wanted) > have:
        need = ".".join(map(str, min(wanted)))
        return f"it needs glibc {need}, this is {glibc}", f"需要 glibc {need}，当前为 {glibc}"
    return None


def _glibc_of(match: re.Match[str]) -> tuple[int, ...]:
    return _MANYLINUX[match[3]] if match[3] else (int(match[1]), int(match[2]))


@each_host
def string_abi(host: Host, params: Params) -> Answer:
    """Torch and torch_npu were built with different C++ strings."""
    facts = [host.one("wheel", "cxx11_abi", name) for name in ("torch", "torch-npu")]
    torch, npu = facts
    if torch is None or npu is None:
        raise CannotJudge("libc10.so, libtorch_npu.so")
    measured = both(f"cxx11 ABI: torch {torch.number:g}, torch-npu {npu.number:g}")
    if torch.number == npu.number:
        return Answer(measured)
    return Answer(measured, [hit(host, facts, torch=int(torch.number or 0), npu=int(npu.number or 0))])


@each_host
def firmware_range(host: Host, params: Params) -> Answer:
    """The firmware is outside of the range that the driver names."""
    span, firmware = host.one("version", "driver", "compatible_firmware"), host.one("version", "firmware", "version")
    ends = re.findall(r"\d+(?:\.\d+)+", span.value) if span else []
    if span is None or firmware is None or len(ends) != 2:
        raise CannotJudge("driver/version.info, firmware/version.info")
    low, high = (_numbers(end) for end in ends)
    own = _numbers(firmware.value)
    measured = both(f"{firmware.value} ({ends[0]}-{ends[1]})")
    if low[:3] <= own[:3] <= high[:3]:
        return Answer(measured)
    version = host.value("version", "driver", "version")
    return Answer(
        measured,
        [hit(host, [firmware, span], firmware=firmware.value, low=ends[0], high=ends[1], driver=version)],
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:5])


@all_hosts
def between_hosts(machines: Sequence[Host], params: Params) -> Answer:
    """Machines of one job have different software."""
    if len(machines) < 2:
        raise CannotJudge("a second machine")
    found: dict[str, dict[str, list[tuple[Host, Fact]]]] = {}
    for host in machines:
        told: list[tuple[str, Fact | None]] = [(name, host.one("python", "package", name)) for name in _COMPARED]
        told += [("CANN", _cann(host)), ("driver", host.one("version", "driver", "version"))]
        for name, fact in told:
            if fact is not None:
                found.setdefault(name, {}).setdefault(fact.value, []).append((host, fact))
    if not any(sum(map(len, versions.values())) > 1 for versions in found.values()):
        raise CannotJudge("versions of a second machine")
    hits = []
    for name, versions in found.items():
        if len(versions) < 2:
            continue
        rare = min(versions.values(), key=len)
        one = hit(None, [own[0][1] for own in versions.values()], component=name, versions=", ".join(sorted(versions)))
        one.nodes = sorted({host.node for host, _ in rare if host.node})
        hits.append(one)
    measured = (f"{len(machines)} machines, {len(found)} components", f"{len(machines)} 台机器，{len(found)} 个组件")
    return Answer(measured, hits)
