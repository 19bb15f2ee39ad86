"""The legacy wire of sealed sessions, written from its specification alone.

Nothing here looks at the Rust code: it is the second opinion that the first one is checked
against. Formulas are those of schema/bond.md; primitives come from `hashlib`, `hmac` and the
`cryptography` package.
"""

import hashlib
import hmac
import json
import re
import secrets
import time

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
CODE = re.compile(rf"[{ALPHABET}]{{4}}-[{ALPHABET}]{{4}}-[{ALPHABET}]{{4}}")
ID = re.compile(r"[0-9a-f]{64}")
WINDOW_MS = 300_000


class Unreadable(Exception):
    """A payload that does not open, or holds no packet."""


def now_ms():
    return int(time.time() * 1000)


def new_code():
    groups = ("".join(secrets.choice(ALPHABET) for _ in range(4)) for _ in range(3))
    return "-".join(groups)


def is_code(text):
    return isinstance(text, str) and CODE.fullmatch(text) is not None


def routing_id(code):
    return hashlib.pbkdf2_hmac(
        "sha256", code.encode(), b"CovalentBond-Routing", 100_000, 32
    ).hex()


def code_key(code):
    return hashlib.pbkdf2_hmac("sha256", code.encode(), b"CovalentBond-CodeKey", 600_000, 32)


def hkdf_sha256(secret, salt, info, length):
    """RFC 5869, extract and expand."""
    extracted = hmac.digest(salt, secret, "sha256")
    okm, block, counter = b"", b"", 1
    while len(okm) < length:
        block = hmac.digest(extracted, block + info + bytes([counter]), "sha256")
        okm, counter = okm + block, counter + 1
    return okm[:length]


class Pair:
    """An X25519 key pair for one session."""

    def __init__(self, private=None):
        if private is None:
            self.private = X25519PrivateKey.generate()
        else:
            self.private = X25519PrivateKey.from_private_bytes(private)
        self.public = self.private.public_key().public_bytes_raw()

    def agree(self, other):
        """The shared secret; `ValueError` for a key that contributes nothing."""
        if len(other) != 32:
            raise ValueError(f"a public key has 32 bytes, not {len(other)}")
        return self.private.exchange(X25519PublicKey.from_public_bytes(other))


class Keys:
    """What both sides know once each has the other's public key."""

    def __init__(self, shared, code_key_bytes, host_public, guest_public):
        self.transcript = hashlib.sha256(host_public + guest_public).digest()
        self.session = hkdf_sha256(
            shared + code_key_bytes, self.transcript, b"CovalentBond-SessionKey", 32
        )

    def tag(self, role):
        text = b"CovalentBond-Confirm|" + role.encode() + b"|" + self.transcript
        return hmac.digest(self.session, text, "sha256").hex()

    def is_tag(self, role, tag):
        return isinstance(tag, str) and hmac.compare_digest(
            self.tag(role).encode(), tag.lower().encode("utf-8", "replace")
        )

    def seal(self, packet, iv=None):
        return seal(self.session, packet, iv)

    def open(self, payload):
        return open_payload(self.session, payload)


def compact(value):
    """JSON as `JSON.stringify` writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def seal(key, packet, iv=None):
    text = packet if isinstance(packet, str) else compact(packet)
    iv = iv or secrets.token_bytes(12)
    sealed = AESGCM(key).encrypt(iv, text.encode(), None)
    return {"v": 2, "iv": iv.hex(), "encrypted": sealed[:-16].hex(), "authTag": sealed[-16:].hex()}


def open_payload(key, payload):
    """The plaintext text. Strict: what a careful reader insists on."""
    if not isinstance(payload, dict) or payload.get("v") != 2 or isinstance(payload["v"], bool):
        raise Unreadable("version")
    parts = [payload.get(name) for name in ("iv", "encrypted", "authTag")]
    if not all(isinstance(part, str) and re.fullmatch("([0-9a-f]{2})*", part) for part in parts):
        raise Unreadable("not exact hexadecimal")
    iv, body, tag = (bytes.fromhex(part) for part in parts)
    if len(iv) != 12 or len(tag) != 16:
        raise Unreadable("sizes")
    try:
        return AESGCM(key).decrypt(iv, body + tag, None).decode()
    except (InvalidTag, UnicodeDecodeError) as problem:
        raise Unreadable(str(problem) or "authentication") from problem


def stamp():
    return {"nonce": secrets.token_hex(16), "timestamp": now_ms()}


def key_confirm(role, tag):
    return {**stamp(), "type": "key_confirm", "role": role, "tag": tag}


def chat(content):
    return {**stamp(), "type": "chat", "content": content}


KINDS = {
    **dict.fromkeys("js ts jsx tsx py java go rs css html xml".split(), "code"),
    "txt": "text", "json": "json", "md": "markdown",
    **dict.fromkeys("yml yaml toml".split(), "config"),
}


def sized(count):
    if count < 1024:
        return f"{count} B"
    if count < 1024 * 1024:
        return f"{count / 1024:.1f} KB"
    return f"{count / (1024 * 1024):.1f} MB"


def file_transfer(name, content, note=""):
    size = len(content.encode())
    return {
        "type": "file_transfer", **stamp(), "filename": name, "content": content, "message": note,
        "preview": {
            "filename": name, "size": size, "sizeFormatted": sized(size),
            "fileType": KINDS.get(name.rsplit(".", 1)[-1].lower(), "unknown"),
            "lineCount": content.count("\n") + 1,
        },
    }


class Seen:
    """The replay rule: nonce, then time, then novelty; only what passes is remembered."""

    def __init__(self):
        self.nonces = {}

    def accept(self, packet, now):
        nonce, at = packet.get("nonce"), packet.get("timestamp")
        if not isinstance(nonce, str) or not re.fullmatch("[0-9a-f]{32}", nonce):
            return "nonce"
        if isinstance(at, bool) or not isinstance(at, (int, float)) or abs(now - at) > WINDOW_MS:
            return "stale"
        if nonce in self.nonces:
            return "replay"
        self.nonces = {n: t for n, t in self.nonces.items() if now - t <= WINDOW_MS}
        self.nonces[nonce] = at
        return None
