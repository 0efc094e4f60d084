"""Forms of keys and tokens that give themselves away, one row per service.

The forms were written from each service's public description of its keys. Letter case does not matter: a variable may
hold a key in capitals. What has no row here may still be found by `looks_random`.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from math import log2

# (service, form, signs). A form begins at the start of a word. It matches at least as many characters as a key has.
# Whatever it matches has one of its signs in it, in lower case: see `tpuprof.share.signs`.
FORMS = (
    ("Hugging Face", r"hf_[a-z0-9]{16,}", "hf_"),
    ("GitHub", r"gh[pousr]_[a-z0-9]{20,}|github_pat_\w{20,}", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_"),
    (
        "GitLab",
        r"gl(?:pat|ptt|dt|rt|soat|cbt|ft|imt|agent)-[\w-]{16,}",
        "glpat- glptt- gldt- glrt- glsoat- glcbt- glft- glimt- glagent-",
    ),
    ("AWS key id", r"(?:AKIA|ASIA|AIDA|AROA|ABIA|ACCA)[A-Z0-9]{12,}", "akia asia aida aroa abia acca"),
    (
        "Google",
        r"AIza[\w-]{30,}|ya29\.[\w.-]{10,}|GOCSPX-[\w-]{10,}|1//0[\w-]{20,}",
        "aiza ya29. gocspx- 1//0",
    ),
    ("Weights & Biases", r"wandb_v1_\w{16,}", "wandb_v1_"),
    ("OpenAI, Anthropic and others", r"sk-[\w-]{16,}", "sk-"),
    ("Slack", r"xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{10,}|xoxe\.[\w-]{10,}", "xox xapp-"),
    ("Stripe", r"(?:sk|rk|pk)_(?:live|test)_[a-z0-9]{10,}|whsec_[a-z0-9+/=]{16,}", "_live_ _test_ whsec_"),
    ("Databricks", r"dapi[0-9a-f]{32}(?:-\d+)?|dose[0-9a-f]{32}", "dapi dose"),
    ("Docker", r"dckr_(?:pat|oat)_[\w-]{16,}", "dckr_"),
    ("Groq", r"gsk_[a-z0-9]{20,}", "gsk_"),
    ("npm", r"npm_\w{30,}", "npm_"),
    ("PyPI", r"pypi-[\w-]{16,}", "pypi-"),
    ("Replicate", r"r8_\w{20,}", "r8_"),
    ("NVIDIA", r"nvapi-[\w-]{20,}", "nvapi-"),
    ("SendGrid", r"SG\.[\w-]{16,}\.[\w-]{16,}", "sg."),
    ("Telegram", r"\d{8,10}:AA[\w-]{30,}", ":aa"),
    ("DigitalOcean", r"do[opr]_v1_[0-9a-f]{32,}", "_v1_"),
    ("HashiCorp", r"hv[sbr]\.[\w-]{20,}|[a-z0-9]{14}\.atlasv1\.[\w-]{20,}", "hvs. hvb. hvr. .atlasv1."),
    ("Grafana", r"gl(?:sa|c)_[\w-]{20,}", "glsa_ glc_"),
    ("Atlassian", r"ATATT3[\w=-]{20,}|ATCTT3[\w=-]{20,}", "atatt3 atctt3"),
    ("xAI", r"xai-[a-z0-9]{20,}", "xai-"),
    ("LangSmith", r"lsv2_(?:pt|sk)_[0-9a-f_]{20,}", "lsv2_"),
    ("Perplexity", r"pplx-[a-z0-9]{20,}", "pplx-"),
    ("Notion", r"(?:secret|ntn)_[a-z0-9]{30,}", "secret_ ntn_"),
    ("Linear", r"lin_api_[a-z0-9]{20,}", "lin_api_"),
    ("Shopify", r"shp(?:at|ca|pa|ss)_[0-9a-f]{20,}", "shpat_ shpca_ shppa_ shpss_"),
    ("New Relic", r"NRAK-[a-z0-9]{20,}", "nrak-"),
    ("Sentry", r"sntr[yu]s?_[\w=+/-]{20,}", "sntry sntru"),
    ("Supabase", r"sbp_[0-9a-f]{20,}", "sbp_"),
    ("Doppler", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{20,}", "dp."),
    ("Mailgun", r"key-[0-9a-f]{32}", "key-"),
    ("Mailchimp", r"[0-9a-f]{32}-us\d{1,2}(?!\w)", "-us"),
    ("Postman", r"PMAK-[0-9a-f]{20,}-[0-9a-f]{20,}", "pmak-"),
    ("Kaggle", r"KGAT_[0-9a-f]{20,}", "kgat_"),
    ("age", r"AGE-SECRET-KEY-1[A-Z0-9]{20,}", "age-secret-key-1"),
    ("JSON web token", r"eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?", "eyj"),
)
# Forms that have no sign but their digits.
FORMS_OF_DIGITS = (
    ("Weights & Biases", r"[0-9a-f]{40}(?![0-9a-z])"),
    ("Together", r"[0-9a-f]{64}(?![0-9a-z])"),
    ("Twilio", r"(?:SK|AC)[0-9a-f]{32}(?![0-9a-z])"),
)
_PEM = r"-----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY(?:[ ]BLOCK)?-----.*?(?:-----END[ ][A-Z ]*PRIVATE[ ]KEY(?:[ ]BLOCK)?-----|\Z)"
SECRET = re.compile(
    rf"{_PEM}|(?<![A-Za-z0-9])(?i:{'|'.join(form for _, form, _ in FORMS)})",
    re.DOTALL,
)
SECRET_SIGNS = ("-----begin", *(sign for _, _, signs in FORMS for sign in signs.split()))
SECRET_DIGITS = re.compile(rf"(?<![A-Za-z0-9])(?i:{'|'.join(form for _, form in FORMS_OF_DIGITS)})")
# The part of a web hook's address that lets anybody post.
WEB_HOOK = re.compile(
    r"(?i)(?<=hooks\.slack\.com/)((?:services|workflows|triggers)/[\w/-]{16,})"
    r"|(?<=/api/)(webhooks/\d+/[\w-]{16,})"
    r"|(?<=webhook\.office\.com/)(webhookb2/[\w@/-]{16,})"
)
# Keys of Azure storage, which stand after their name in a connection text or an address.
AZURE = re.compile(r"(?i)((?:account|sharedaccess)key=|[?&]sig=)([\w%+/=-]{16,})")

# Words of mixed characters, of which `looks_random` says which are keys: with and without the signs of base64.
RANDOM_WORD = re.compile(r"(?<![\w-])[A-Za-z0-9_-]{24,}={0,2}(?![\w-])")
RANDOM_BASE64 = re.compile(r"(?<![A-Za-z0-9/+=_.-])[A-Za-z0-9/+]{40}={0,2}(?![A-Za-z0-9/+=_.-])")
# Shannon entropy (bits per character) from which a word may be random. 24 random characters out of 62 have 4.2 on
# average, 40 have 4.8; identifiers of that length stay below 4.2.
MIN_ENTROPY = 3.9
MIN_ENTROPY_BASE64 = 4.4
# Share of neighbouring characters of different classes (lower case, upper case, digit, sign). In random characters of
# base 62 it is 0.62; in names, whose words are runs of one class, it stays below 0.45 (C++ symbols come closest).
MIN_CHANGES = 0.48
# Shares of upper case and digits in random characters of base 62 are 0.42 and 0.16 on average. Names of kernels, such
# as `sm90_wgmma128x256`, have fewer of the first and more of the second.
MIN_UPPER = 0.2
MAX_DIGITS = 0.35
_CLASSES = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", "a" * 26 + "A" * 26 + "0" * 10 + "__"
)


def looks_random(text: str) -> bool:
    """Whether a word has upper case, lower case, digits, and changes between them as often as a random key does."""
    word = text.rstrip("=")
    classes = word.translate(_CLASSES)
    if not {"a", "A", "0"} <= set(classes):
        return False
    if classes.count("A") < MIN_UPPER * len(word) or classes.count("0") > MAX_DIGITS * len(word):
        return False
    changes = sum(a != b for a, b in pairwise(classes)) / (len(word) - 1)
    return changes >= MIN_CHANGES and entropy(word) >= MIN_ENTROPY


def looks_random_base64(text: str) -> bool:
    """Whether 40 characters of base64 have upper case, lower case, digits, and the entropy of a random key."""
    classes = set(text.translate(_CLASSES))
    return {"a", "A", "0"} <= classes and entropy(text) >= MIN_ENTROPY_BASE64


def entropy(text: str) -> float:
    """Shannon entropy of a text's characters (bits per character)."""
    counts = Counter(text)
    return -sum(n / len(text) * log2(n / len(text)) for n in counts.values()) if text else 0.0
