"""What counts as private in a text: keys, people, machines, buckets, paths, and how each is recognised.

Only recognition lives here; `redact.py` replaces. Patterns were written from the public formats of the keys they
find. Where a pattern could take a harmless text for a key, the harmless text is the one that suffers.
"""

from __future__ import annotations

import ipaddress
import re
from enum import StrEnum


class Kind(StrEnum):
    """Kinds of private values, as the manifest and the pseudonyms name them."""

    SECRET = "secret"
    EMAIL = "email"
    BUCKET = "bucket"
    PATH = "path"
    IP = "ip"
    HOST = "host"
    PROJECT = "project"
    USER = "user"


# A value after a word that says it is one: `Bearer X`, `://user:X@host`.
BEARER = re.compile(r"(?i)(?<![a-z])((?:bearer|authorization:\s*basic)\s+)([\w.~+/=-]{8,})")
URL_LOGIN = re.compile(r"(?<=://)([^/\s@\"']+:[^/\s@\"']+)(?=@)")
_SECRET_WORD = r"(?:api_?key|access_?key|[_-]key|token|secret|passw(?:or)?d|[_-]pwd|credentials?|[_-]auth)"
SECRET_NAME = re.compile(rf"(?i)(?:{_SECRET_WORD}|^key)(?:_?id)?$")
ASSIGNED = re.compile(
    rf"""(?ix)(?<![\w%])([\w.-]*{_SECRET_WORD}) (=|["']\s*[:=]\s*|:\s?|=["']) ["']? ([^\s"',;&]{{4,}})
       |(?<![\w.-])(--?[\w-]*{_SECRET_WORD}) (\s+) ["']? ([^\s"',;&]{{4,}})"""
)
# Bytes written as base64, such as the code of a Pallas kernel in a custom call, source paths included.
BASE64 = re.compile(
    r"(?<![A-Za-z0-9+/=])(?:[A-Za-z0-9+/]{4}){16,}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?(?![A-Za-z0-9+/=])"
)
EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+(?:@(?!backward\b)|%40)(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}(?![\w-])")
# `user@host` without a dot, as ssh and prompts write it. `module@backward` is a scope of ours.
_LOGIN = r"([A-Za-z_][\w-]*)@(?!backward\b)([A-Za-z][\w-]*)(?![\w.-])"
LOGIN = re.compile(rf"(?<![\w.+@/%-]){_LOGIN}")
# The same behind a slash. There `name@word` may be something else (a package and its version): it is replaced where it
# stands, and nothing is learned from it, unless a path follows as scp writes it.
LOGIN_IN_SCOPE = re.compile(rf"(?<=/){_LOGIN}")
SCP = re.compile(r"(?<![\w.+@%-])([A-Za-z_][\w-]*)@(?!backward\b)([A-Za-z][\w-]*)(?=:[/~])")
BUCKET = re.compile(
    r"(?:(?<=gs://)|(?<=s3://)|(?<=s3a://)|(?<=r2://)|(?<=gcs://)|(?<=storage\.googleapis\.com/)"
    r"|(?<=storage\.cloud\.google\.com/)|(?<=/gcs/)|(?<=abfs://)|(?<=abfss://)|(?<=hdfs://)|(?<=az://)"
    r"|(?<=arn:aws:s3:::))([A-Za-z0-9][\w.@-]*(?::\d+(?=/))?)((?:/[^\s\"'`,;<>|()\[\]{}]*)?)"
)
# A bucket that is a host, and its object.
BUCKET_HOST = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9.-]+)(?=\.s3[.-][\w.-]*amazonaws\.com|\.storage\.googleapis\.com)"
    r"([\w.-]+)((?:/[^\s\"'`,;<>|()\[\]{}?#]+)?)"
)
# A folder name in a path; the stops are what stands between paths, or around them, in code and in flags.
_PART = r"[^\s/:;,\"'`<>|()\[\]{}=\\&?*#!$^@\x00-\x1f]+"
HOME = re.compile(rf"/(?:home|Users)/({_PART})((?:/{_PART})*)(/?)")
# A path begins where no word, folder or bracket ends; in a scope also behind a slash, as in `Decoder//data/x.py`.
_PATH_START = r"(?:(?<![\w./\-+\])}*%])|(?<=[\w.\-)\]]/)(?=~|/[A-Za-z_.]))"
PATH = re.compile(rf"{_PATH_START}(~[\w.-]*)?((?:/{_PART})+/)({_PART})?")
SHORT_PATH = re.compile(rf"{_PATH_START}((?:~[\w.-]*)(?=/{_PART}))(/)({_PART})")
WINDOWS_PATH = re.compile(r"(?<![A-Za-z])([A-Za-z]:(?:\\+[^\\/:\"<>|*?\x00-\x1f]+)*\\+)([^\\/:\s\"'<>|*?]*)")
# `\\server\share\folder\file`, its backslashes doubled where it is quoted.
_UNC_PART = r"\\{1,2}[^\\/:\"<>|*?\s\x00-\x1f]+"
UNC_PATH = re.compile(rf"(?<![\\\w:])(\\{{2,4}})([A-Za-z0-9][\w.-]+)((?:{_UNC_PART})+)")
# `//server/share/folder`, at the start of a word or of what follows a scope; of an address the scheme comes before.
SHARE = re.compile(
    r"(?:(?<![^\s\"'`=(,\[<>|;])|(?<=[\w.\-)\]]/))//([A-Za-z0-9][\w.-]*)(/[^\s\"'`,;<>|()\[\]{}?#/][^\s\"'`,;<>|()\[\]{}?#]*)"
)
# A user's own folder of a source tree or a share, as `experimental/users/NAME/net/train.py`.
USER_FOLDER = re.compile(r"(?i)(?<![a-z0-9])(?:users|home|homes)/([a-z][\w.-]+)(?=/)")
WINDOWS_USER = re.compile(r"(?i)(?<![a-z])[a-z]:\\+users\\+([^\\/:\"<>|*?\x00-\x1f]+)")
# Folders of every machine, which say nothing of this one.
PUBLIC_ROOTS = ("/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/", "/proc/", "/sys/", "/dev/", "/etc/")
# What follows is the same on every machine: a published package, or Python's own library.
PUBLIC_TAIL = re.compile(
    r"/((?:site|dist)-packages/(?:torch|torch_xla|torchax|torchvision|jax|jaxlib|flax|optax|numpy|libtpu|tpuprof"
    r"|transformers|accelerate|datasets|pytest|_pytest|pluggy)/.*|lib/python3\.\d+/(?!site-packages|dist-packages).*)$"
)
FILE_NAME = re.compile(r"^[^/\\]*\.[A-Za-z][\w]{0,9}$")

IP4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
IP6 = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:])")
# Names that give a machine away by their form: TPU VMs, GCE and cluster-internal names, and hosts of addresses.
HOST = re.compile(
    r"(?<![\w.-])(?:t1v-n-[0-9a-f]{8}-w-\d+(?!\.[\w.-]*internal)"
    r"|gke-[a-z0-9-]+-[0-9a-f]{8}-[a-z0-9]{4}(?!\w)"
    r"|(?i:ip(?:-\d{1,3}){4})(?![\w.-]*internal)(?!\w)"
    r"|(?:[A-Za-z0-9-]+\.)+(?:internal|local|localdomain|lan|corp|intranet)(?![\w-]))"
)
URL_HOST = re.compile(
    r"(?i)(?:https?|grpcs?|tcp|ssh|git|rsync|s?ftp|smb|nfs|dns|unix|wss?|redis|postgres(?:ql)?|mysql|mongodb|amqp|kafka)"
    r":///?(?:[^/\s@\"']+@)?([A-Za-z0-9][A-Za-z0-9.-]*)((?::\d+)?)((?:/[^\s\"'`,;<>|()\[\]{}?#]+)?)"
)
# A variable as a shell writes it: what its name says of the value is learned.
VARIABLE = re.compile(r"(?<![\w.-])([A-Z][A-Z0-9_]*)=[\"']?([^\s\"';&]+)")
PUBLIC_HOSTS = (
    "github.com",
    "pytorch.org",
    "openxla.org",
    "gitlab.com",
    "bitbucket.org",
    "google.com",
    "googleapis.com",
    "amazonaws.com",
    "huggingface.co",
    "wandb.ai",
    "python.org",
    "readthedocs.io",
    "example.com",
    "example.org",
    "w3.org",
)
HOST_NAMED = re.compile(
    r"(?i)(?:^|[_-])(?:host|host_?names?|hosts|addr|address|addresses|node_?name|tpu_name|master|endpoint|server)$"
)
# A project of Google Cloud: as a resource's name has it, a variable, a flag, or an image's registry.
PROJECT = re.compile(
    r"(?i)(?:(?<![\w.-])projects/|(?<![a-z])(?:[\w-]*_)?project(?:_?id|_?name)?[\"']?\s?[=:]\s?[\"']?"
    r"|--[\w-]*project[ =]|(?<![\w-])(?:\w+\.)?gcr\.io/|-docker\.pkg\.dev/)"
    r"([a-z][a-z0-9-]{4,28}[a-z0-9])(?![\w.])"
)
ACCOUNT_PROJECT = re.compile(r"(?:@|%40)([a-z][a-z0-9-]{4,28}[a-z0-9])(?=\.iam\.gserviceaccount\.com)")
# The number of an account of AWS in the name of a resource.
ACCOUNT = re.compile(r"(?<![\w-])arn:aws[\w-]*:[\w-]+:[\w-]*:(\d{12})(?=:)")
# Who logs a run to Weights & Biases, and for which project.
TRACKED = re.compile(r"(?<=wandb\.ai/)([\w-]+)/([\w.-]+)")
PROJECT_NAMED = re.compile(r"(?i)(?:^|_)(?:project|project_?id|project_?name|account|organi[sz]ation|org)$")
USER_NAMED = re.compile(r"(?i)^(?:user|user_?name|logname|sudo_user|owner|author)$")
BUCKET_NAMED = re.compile(r"(?i)(?:^|_)bucket(?:_?name)?$")


# A text of letters, digits, `_`, `.` and `-` alone, as most names of ops are.
_WORD = re.compile(r"[\w.-]*")


def is_word(text: str) -> bool:
    """Whether a text is one word. Most kinds of private values are known by other signs: `/`, `@`, `=`, `:`, space."""
    return _WORD.fullmatch(text) is not None


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Names that thousands of machines share, so they say nothing.
GENERIC_USERS = _words("""
    root user users ubuntu debian admin runner jovyan nobody ec2-user vscode app daemon docker shared
    public home work data node train trainer guest test default none python
""")
GENERIC_HOSTS = _words("""
    localhost host hosts worker node main master train trace predicted capture tpu cpu gpu unknown
    none all xplane profile python any local metadata
""")
# First folders of well-known source trees, as Bazel's labels begin: `//tensorflow/core:lib`.
SOURCE_TREES = _words("""
    tensorflow third_party xla torch torch_xla jax jaxlib tools external platforms research learning bazel
    src test tests docs examples build_tools stablehlo mlir llvm tsl google base util strings
""")
# User names that are also ops or everyday words of a trace: replaced inside paths alone.
WORDS_OF_TRACES = _words("""
    abs add all and any atan call ceil clamp compare constant convert copy cos div dot down exp fft
    floor forward fusion gather head iota log map max mean min mul neg not or out pad pow rank real
    reduce rem rng rsqrt scan scatter select send recv sign sin slice sort sqrt step sub sum tan tanh
    tuple up while xor norm layer model
""")
PSEUDONYM = re.compile(rf"(?:{'|'.join(kind.value for kind in Kind)})-\d+")
# Values that say nothing, whatever they are called.
TRIVIAL = re.compile(r"(?i)^(?:\d{1,6}|none|null|true|false|yes|no|on|off|int|str|\$\{?\w+\}?|<.*>|\*+)$")


def private_ip(text: str) -> bool:
    """Whether a text is an address of a machine other than "this one" or "any"; version numbers are none."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if address.version == 6 and not any(char.isdigit() for char in text):
        return False  # `add::cafe`: a C++ name
    return not (address.is_loopback or address.is_unspecified)


def public_host(name: str) -> bool:
    """Whether a host name says nothing of who runs there: a well-known site, or this machine itself."""
    lower = name.lower().rstrip(".")
    return (
        lower in GENERIC_HOSTS
        or not any(char.isalpha() for char in lower)
        or bool(re.fullmatch(r"(?:host|worker|node)-?\d*", lower))
        or any(lower == each or lower.endswith("." + each) for each in PUBLIC_HOSTS)
        or bool(PSEUDONYM.fullmatch(lower))
    )
