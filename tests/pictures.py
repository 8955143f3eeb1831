"""Handmade pictures: as small as their formats allow, of any size that they claim."""

import base64
import struct
import zlib
from typing import Any


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width: int = 2, height: int = 2) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + bytes(min(width, 64)) for _ in range(min(height, 64))))
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", rows) + _chunk(b"IEND", b"")


def jpeg(width: int = 2, height: int = 2) -> bytes:
    parts = [
        (0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0"),
        (0xE1, b"Exif\0\0\xff\xd8\xff\xc0\0\x11\x08\0\1\0\1\xff\xd9"),  # an embedded thumbnail
        (0xC4, b"\0" + bytes(16)),
        (0xC2, struct.pack(">BHHB", 8, height, width, 1) + b"\1\x11\0"),
        (0xDA, b"\1\1\0\0\x3f\0"),
    ]
    body = b"".join(bytes((0xFF, marker)) + struct.pack(">H", len(data) + 2) + data for marker, data in parts)
    return b"\xff\xd8" + body + b"\x12\x34\xff\0\x56\xff\xd9"


def gif(width: int = 2, height: int = 2) -> bytes:
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6)
    note = b"\x21\xfe\x03hi!\0"
    return head + note + b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\2\2\x4c\1\0" + b"\x3b"


def _riff(*chunks: tuple[bytes, bytes]) -> bytes:
    body = b"WEBP" + b"".join(k + struct.pack("<I", len(d)) + d + b"\0" * (len(d) % 2) for k, d in chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def webp(width: int = 2, height: int = 2) -> bytes:
    return _riff((b"VP8 ", b"\x10\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height) + b"pixels"))


def webp_lossless(width: int = 2, height: int = 2) -> bytes:
    return _riff((b"VP8L", b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14) + b"pixels"))


def webp_moving(width: int = 2, height: int = 2) -> bytes:
    canvas = b"\2\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return _riff((b"VP8X", canvas), (b"ANIM", bytes(6)), (b"ANMF", bytes(24)))


MAKERS = {
    "png": (png, "image/png"), "jpeg": (jpeg, "image/jpeg"), "gif": (gif, "image/gif"), "webp": (webp, "image/webp"),
    "lossless": (webp_lossless, "image/webp"), "moving": (webp_moving, "image/webp"),
}  # fmt: skip


def coded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def block(raw: bytes, media: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media, "data": coded(raw)}}
