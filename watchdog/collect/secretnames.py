"""Which names are names of secrets: of variables, keys, headers, options. Pure.

By whole words, so that `KeyError`, `keyboard`, `tokenizer` and `max_tokens` are none of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Literal
from urllib.parse import unquote, urlsplit

Strength = Literal["no", "weak", "strong"]
"""weak: `key`, `auth`, `pass` alone name many other things, too."""

KEYWORD = re.compile(
    r"token|secret|passw|passphrase|pwd|pass|credential|authorization|auth|cookie|jwt|bearer"
    r"|x-amz-signature|api_?-?key|key|dsn|webhook",
    re.IGNORECASE,
)
"""Every secret name holds one of these; where there is none, there is no need to look closer."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_STRONG_WORDS = """
    token secret secrets password passwords passwd passwort passphrase pwd credential credentials authorization cookie
    cookies apikey jwt bearer dsn webhook
"""
_STRONG = frozenset(_STRONG_WORDS.split())
_WEAK = frozenset(("key", "auth", "pass"))
_ENDING = re.compile(r"(?:token|secret|password|passwd|passphrase|apikey|secretkey|accesskey|privatekey|authkey)$")
"""Words run together: authtoken, pgpassword."""

_BEFORE_KEY = """
    api access private secret signing encryption auth account master shared ssh hmac aes rsa deploy license service
"""
_OF_A_KEY = frozenset(_BEFORE_KEY.split())

_LAST_WORDS = """
    file files path paths dir directory folder name names id ids type types kind count counts number num len length size
    limit limits max min ttl age expires expiry expiration expired in at sock socket index error errors status parallelism
    usage used left remaining budget per rate policy algorithm method mode enabled required pair pairs map mgmt provider
"""
_SOMETHING_ELSE = frozenset(_LAST_WORDS.split())
"""As the last word, these say that the value is something about the secret: token_type, key_id, secret_name."""
_NEITHER = frozenset(("pwd", "oldpwd"))
"""The shell's working directory."""

SHORTEST = 8
"""Characters of a known value that is looked for by itself: shorter ones are words and numbers, too."""

_PATHLIKE = re.compile(r"(?:/[a-z0-9._@-]{1,64})+/?")
"""A path in lower case is no secret, and hiding it would hide the frames below it. 40 characters of base64 are all
lower case once in 10^9."""
_PLAIN = frozenset(("true", "false", "none", "null", "yes", "no", "on", "off", "enabled", "disabled", "default"))


def strength(name: str) -> Strength:
    """How surely `name` names a secret."""
    if KEYWORD.search(name) is None or name.lower() in _NEITHER:
        return "no"
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _SOMETHING_ELSE:
        return "no"
    if name.lower().endswith("x-amz-signature") or any(w in _STRONG or _ENDING.search(w) for w in words):
        return "strong"
    if any(w in ("key", "keys") and before in _OF_A_KEY for before, w in pairwise(words)):
        return "strong"
    if any(w in _WEAK for w in words):
        return "strong" if len(words) > 1 and words[-1] in ("pass", "auth") else "weak"
    return "no"


def known_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Secret values in an environment: of secret names, and the passwords inside any URL. At least SHORTEST long."""
    found: dict[str, None] = {}
    for name, value in environ.items():
        if strength(name) != "no" and not _harmless(value):
            found[value] = None
        for secret in _of_url(value):
            found[secret] = None
    return tuple(value for value in found if len(value) >= SHORTEST)


def _harmless(value: str) -> bool:
    return value.strip().lower() in _PLAIN or _PATHLIKE.fullmatch(value) is not None


def _of_url(value: str) -> tuple[str, ...]:
    """The password of `scheme://user:password@host`, as it is spelled and decoded."""
    if "://" not in value or "@" not in value:
        return ()
    try:
        password = urlsplit(value).password
    except ValueError:
        return ()
    return (password, unquote(password)) if password else ()
