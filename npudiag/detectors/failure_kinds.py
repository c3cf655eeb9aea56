"""The kinds of failure that unknown exceptions are sorted into, and what is told of each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of failure.

    Attributes:
        category: Its category.
        english, chinese: What happened, as the beginning of a title.
        advice, advice_zh: What to do first.
    """

    category: str
    english: str
    chinese: str
    advice: str
    advice_zh: str


SETTINGS = Kind(
    "config",
    "A check of settings or arguments failed",
    "配置或参数校验未通过",
    "Compare what the message or the condition asks for with the launch command and the configuration files.",
    "将报错或断言条件与启动命令、配置文件逐项对照。",
)
DATA = Kind(
    "data-pipeline",
    "The code that reads or prepares data failed",
    "数据读取或预处理代码异常",
    "Look at the first sample that fails: run this step alone on a few samples with one process and no cache.",
    "定位首个出错样本：关闭缓存、单进程，仅用少量样本单独执行该步骤。",
)
CHECKPOINT = Kind(
    "checkpoint",
    "The code that loads or saves weights failed",
    "权重加载或保存代码异常",
    "Check that the checkpoint is complete and was written by the same model, release and parallel layout.",
    "确认 checkpoint 完整，且由相同的模型、版本与并行切分写出。",
)
OPERATOR = Kind(
    "operator",
    "A tensor operation failed",
    "张量运算异常",
    "Print shapes, types and devices of the inputs at the last frame and compare them with what the operation takes.",
    "在最后一帧打印输入的形状、类型与所在设备，与该运算的要求比对。",
)
GRAPH = Kind(
    "graph-capture",
    "The code that captures or compiles graphs failed",
    "图捕获或图编译代码异常",
    "Run once without graph mode or compilation to see whether the model itself works.",
    "关闭图模式或编译后运行一次，确认模型本身是否正常。",
)
VERSION = Kind(
    "version-mismatch",
    "A package of another release is needed",
    "软件包版本不满足要求",
    "Install the release that the message asks for, together with those that belong to it (torch with torch_npu).",
    "安装报错所要求的版本，并同步更换其配套软件（如 torch 与 torch_npu）。",
)
PACKAGE = Kind(
    "environment",
    "A package or tool is missing or does not work here",
    "缺少软件包或工具，或其无法在本机使用",
    "Install what the message names into the interpreter that runs the job, or switch off the option that asks for it. "
    "Packages built for CUDA do not work on an NPU.",
    "将报错所指的软件安装到作业所用解释器中，或关闭依赖它的选项；为 CUDA 构建的软件包无法用于 NPU。",
)
NETWORK = Kind(
    "environment",
    "A server could not be reached",
    "无法连接服务器",
    "Reach the address from this node and container first (proxy, DNS, firewall), or use local files in offline mode.",
    "先在该节点及容器内确认地址可达（代理、DNS、防火墙），或改用本地文件并开启离线模式。",
)
BUILD = Kind(
    "environment",
    "Building or loading an extension failed",
    "扩展模块编译或加载失败",
    "Look above for the first message of the compiler, and check that compiler, headers and torch fit together.",
    "向上查找编译器的首条报错，确认编译器、头文件与 torch 相互匹配。",
)
PERMISSION = Kind(
    "permission",
    "Access was denied",
    "访问被拒绝",
    "Compare owner and mode of the path with the user that runs the job, inside the container.",
    "在容器内核对该路径的属主、权限与作业运行用户是否一致。",
)
MEMORY = Kind(
    "out-of-memory",
    "Memory ran out",
    "内存不足",
    "Find out whether the host or the device ran out, and reduce what that step holds at once.",
    "确认是主机内存还是设备内存不足，并减少该步骤同时占用的数据量。",
)
DISK = Kind(
    "host-fault",
    "A file could not be read or written",
    "文件读写失败",
    "Check free space, quota and health of the file system that holds the path.",
    "检查该路径所在文件系统的剩余空间、配额与健康状况。",
)
LIMIT = Kind(
    "environment",
    "A limit of the operating system was reached",
    "达到操作系统限制",
    "Look up the limit that the message is about (ulimit -a, pids of the container, length of TMPDIR) and raise it.",
    "查看报错涉及的限制（ulimit -a、容器 pids 上限、TMPDIR 路径长度）并调高。",
)
PORT = Kind(
    "process-conflict",
    "An address or resource is taken",
    "地址或资源已被占用",
    "Find the process that holds it (ss -ltnp) and stop it, or choose another port.",
    "用 ss -ltnp 找出占用进程并结束，或更换端口。",
)

NUMBERS = Kind(
    "numerics",
    "A check of the numbers failed",
    "数值检查未通过",
    "Find the first step and tensor that is NaN or Inf; look at loss scale, learning rate and the data of that step.",
    "定位首个出现 NaN/Inf 的步与张量，检查 loss scale、学习率及该步数据。",
)
