"""Knows binary files that a tool treated as text: it put U+FFFD in the place of each byte that is no UTF-8."""

from __future__ import annotations

from tpuprof.errors import Code, TpuprofError

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()
# Share of the bytes beyond ASCII that are replacement characters, from which a tool wrote them (share). Profiles
# have next to none: a few names at most.
REPLACED_FROM_SHARE = 0.5
# Fewer than this may be a name's own (characters).
MIN_REPLACED = 3
# Bytes that are looked at (bytes).
_LOOKED_AT = 1 << 20
_ASCII = bytes(range(128))


def was_text(data: bytes | bytearray | memoryview) -> bool:
    """Whether most of the bytes beyond ASCII are replacement characters."""
    head = bytes(data[:_LOOKED_AT])
    replaced = head.count(_REPLACEMENT)
    beyond = len(head.translate(None, _ASCII))
    return replaced >= MIN_REPLACED and replaced * len(_REPLACEMENT) >= REPLACED_FROM_SHARE * beyond


def was_text_error(source: str) -> TpuprofError:
    """What to say of such a file: its bytes are lost, a good copy is elsewhere."""
    return TpuprofError(
        Code.CORRUPT,
        f"{source}: a tool treated this binary file as text and replaced its bytes by U+FFFD. They are lost.",
        "Copy the original again as a binary file. Usual causes: git (put `*.pb binary` and `*.gz binary` into "
        ".gitattributes), an editor, copy and paste, a download as text.",
    )
