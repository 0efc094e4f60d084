"""Signs that a text must have for a pattern to find anything in it; most texts of a profile have few of them.

A test makes texts of each pattern and looks for its signs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tpuprof.share import repositories, sensitive, token_forms

_AT = ("@", "%40")
# In lower case. A pattern finds something only where one of its signs is; one that is not here is always tried.
SIGNS: dict[re.Pattern[str], tuple[str, ...]] = {
    token_forms.SECRET: token_forms.SECRET_SIGNS,
    token_forms.WEB_HOOK: ("hooks.slack.com/", "/api/webhooks/", "webhook.office.com/"),
    token_forms.AZURE: ("key=", "sig="),
    sensitive.BEARER: ("bearer", "basic"),
    sensitive.URL_LOGIN: ("://",),
    sensitive.ASSIGNED: ("key", "token", "secret", "passw", "pwd", "credential", "auth"),
    sensitive.VARIABLE: ("=",),
    repositories.REPOSITORY: (
        "git",
        "bitbucket.",
        "codeberg.",
        "huggingface.",
        "hf.co",
        "ghcr.io",
        "docker.io",
    ),
    sensitive.EMAIL: _AT,
    sensitive.SCP: _AT,
    sensitive.LOGIN: _AT,
    sensitive.LOGIN_IN_SCOPE: _AT,
    sensitive.UNC_PATH: ("\\",),
    sensitive.WINDOWS_PATH: ("\\",),
    sensitive.WINDOWS_USER: ("\\",),
    sensitive.SHARE: ("//",),
    sensitive.BUCKET: ("://", ".com/", "/gcs/", ":::"),
    sensitive.BUCKET_HOST: ("amazonaws.com", "storage.googleapis.com"),
    sensitive.HOME: ("/home/", "/users/"),
    sensitive.PATH: ("/",),
    sensitive.SHORT_PATH: ("~",),
    sensitive.USER_FOLDER: ("users/", "home/", "homes/"),
    sensitive.IP4: (".",),
    sensitive.IP6: (":",),
    sensitive.URL_HOST: ("://",),
    sensitive.HOST: ("t1v-n-", "gke-", "ip-", ".internal", ".local", ".lan", ".corp", ".intranet"),
    sensitive.PROJECT: ("project", "gcr.io/", ".pkg.dev/"),
    sensitive.ACCOUNT_PROJECT: (".iam.gserviceaccount.com",),
    sensitive.ACCOUNT: ("arn:aws",),
    sensitive.TRACKED: ("wandb.ai/",),
}

# What finds nothing in a text that is one word (`sensitive.is_word`): it needs a sign that no word has.
NOT_IN_WORDS = frozenset(
    {
        token_forms.WEB_HOOK, token_forms.AZURE, repositories.REPOSITORY, sensitive.BEARER, sensitive.URL_LOGIN,
        sensitive.ASSIGNED, sensitive.VARIABLE, sensitive.EMAIL, sensitive.SCP, sensitive.LOGIN,
        sensitive.LOGIN_IN_SCOPE, sensitive.UNC_PATH, sensitive.SHARE, sensitive.BUCKET, sensitive.WINDOWS_PATH,
        sensitive.WINDOWS_USER, sensitive.HOME, sensitive.PATH, sensitive.SHORT_PATH, sensitive.IP6,
        sensitive.URL_HOST, sensitive.PROJECT, sensitive.ACCOUNT_PROJECT, sensitive.ACCOUNT, sensitive.TRACKED,
        sensitive.USER_FOLDER,
    }
)  # fmt: skip


# Letters of other scripts that a pattern takes for an i, a k or an s where letter case does not matter: two kinds of i,
# the sign of kelvin, and the long s.
_OTHER_FORMS = str.maketrans("\u0130\u0131\u212a\u017f", "iiks")


def in_lower_case(text: str) -> str:
    """What signs are looked for in."""
    return (text if text.isascii() else text.translate(_OTHER_FORMS)).lower()


def may_match(signs: Sequence[str], lower: str) -> bool:
    """Whether a pattern of these signs may find something in a text; always where it has none."""
    for sign in signs:  # as a generator it takes three times as long, and this is asked most
        if sign in lower:
            return True
    return not signs
