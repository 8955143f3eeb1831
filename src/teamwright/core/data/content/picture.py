"""Checks pictures before they are sent: a provider that rejects one rejects every later request that carries it.

Only the container is read, never the pixels: format, size, and whether the data is complete.
"""

import binascii
import zlib
from base64 import b64encode
from collections.abc import Iterable

from msgspec import Struct

from teamwright.core.data.message import Block, Content, Image, Message, Text

MOST_SIDE = 8_000  # pixels
MOST_DATA = 5 * 1024 * 1024  # characters of base64
FEW = 20  # pictures per request; above that, providers accept only small ones
SMALL_SIDE = 2_000
MOST_PICTURES = 100  # per conversation
_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}  # per colour type
_BARE = frozenset((0x01, *range(0xD0, 0xD8)))  # JPEG markers without a payload
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # JPEG markers that carry the image size
_SMALLER = "Make a smaller copy of it, with Bash if you can, and use that."


class Picture(Struct, frozen=True):
    media_type: str
    width: int
    height: int


class BadPicture(ValueError):
    """Why a picture cannot be sent, worded to follow its name in a sentence."""


class Album(Struct):
    """The pictures a conversation already holds."""

    pictures: int = 0
    large: int = 0  # with a side longer than SMALL_SIDE

    def add(self, blocks: Iterable[object]) -> None:
        for block in blocks:
            if isinstance(block, Image):
                self.pictures += 1
                self.large += _is_large(block)


def kind_of(head: bytes) -> str:
    """The media type, if models accept it; otherwise empty."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if head.startswith(_PNG):
        return "image/png"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/jpeg" if head.startswith(b"\xff\xd8\xff") else ""


def examine(raw: bytes) -> Picture:
    """Format and size of a picture. Raises BadPicture for one that a provider would refuse."""
    if not raw:
        raise BadPicture("is empty")
    media = kind_of(raw)
    readers = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}
    if media not in readers:
        raise BadPicture("is no PNG, JPEG, GIF or WebP image, whatever it is called")
    try:
        width, height = readers[media](raw)
    except IndexError:
        raise BadPicture(f"is cut off: it begins as {media}, and its end is missing") from None
    if not width or not height:
        raise BadPicture(f"is damaged: it says that it has {width} x {height} pixels")
    if max(width, height) > MOST_SIDE:
        raise BadPicture(
            f"has {width:,} x {height:,} pixels, and at most {MOST_SIDE:,} a side can be shown. {_SMALLER}"
        )
    if (len(raw) + 2) // 3 * 4 > MOST_DATA:
        most = MOST_DATA // 4 * 3
        raise BadPicture(f"is an image of {len(raw):,} bytes, and at most {most:,} can be shown. {_SMALLER}")
    return Picture(media, width, height)


def fitted(image: Image) -> Image | Text:
    """The picture ready to be sent, under its true media type, or a text in its place."""
    try:
        raw = _decoded(image.data)
        media = examine(raw).media_type
    except BadPicture as error:
        return Text(f"[An image was left out here: it {str(error).rstrip('.')}.]")
    data = b64encode(raw).decode()  # one canonical encoding: no line breaks, full padding
    return image if (media, data) == (image.media_type, image.data) else Image(media, data)


def admitted(content: tuple[Content, ...], album: Album, *, words_only: bool = False) -> tuple[Content, ...]:
    """The content as it enters a conversation. `words_only`: it belongs to an error, which may hold no pictures."""
    if not any(isinstance(part, Image) for part in content):
        return content
    kept, now = list[Content](), Album(album.pictures, album.large)
    for part in content:
        fit = fitted(part) if isinstance(part, Image) else part
        if isinstance(fit, Image):
            fit = Text("[An image was left out here: an error is told in words.]") if words_only else _room(fit, now)
        now.add((fit,))
        kept.append(fit)
    return tuple(kept)


def with_fit_pictures(message: Message, album: Album) -> Message:
    """The message with pictures that cannot be sent replaced by text. For messages from us or from a person."""
    if not any(isinstance(block, Image) for block in message.blocks):
        return message
    blocks, now = list[Block](), Album(album.pictures, album.large)
    for block in message.blocks:
        fit = admitted((block,), now)[0] if isinstance(block, Image) else block
        now.add((fit,))
        blocks.append(fit)
    return Message(message.role, tuple(blocks), message.model)


def _room(image: Image, album: Album) -> Image | Text:
    """The picture if the request has room for it, else a text. A request with more than FEW pictures may hold only
    small ones, which includes the earlier pictures."""
    if album.pictures >= MOST_PICTURES:
        return Text(f"[An image was left out here: the conversation holds {MOST_PICTURES} already, the most it can.]")
    if album.pictures < FEW:
        return image
    if album.large:
        return Text(
            f"[An image was left out here: the conversation holds {album.pictures} already, one of them with more than "
            f"{SMALL_SIDE:,} pixels a side, so it can take no more.]"
        )
    if _is_large(image):
        return Text(
            f"[An image was left out here: after {FEW} images, more can have at most {SMALL_SIDE:,} pixels a side. "
            f"{_SMALLER}]"
        )
    return image


def _is_large(image: Image) -> bool:
    try:
        found = examine(_decoded(image.data))
    except BadPicture:
        return False  # the conversation predates this check
    return max(found.width, found.height) > SMALL_SIDE


def _decoded(data: str) -> bytes:
    if data.startswith("data:"):
        data = data.partition(",")[2]
    if len(data) > MOST_DATA * 2:
        raise BadPicture(f"has {len(data):,} characters of base64, and at most {MOST_DATA:,} can be sent. {_SMALLER}")
    try:
        plain = "".join(data.split()).encode("ascii").rstrip(b"=")
        return binascii.a2b_base64(plain + b"=" * (-len(plain) % 4), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        raise BadPicture("is not written in base64") from None


# --- width and height; IndexError if the data ends too early


def _at(data: bytes, start: int, size: int) -> bytes:
    if start + size > len(data):
        raise IndexError
    return data[start : start + size]


def _big(data: bytes, start: int, size: int) -> int:
    return int.from_bytes(_at(data, start, size), "big")


def _little(data: bytes, start: int, size: int) -> int:
    return int.from_bytes(_at(data, start, size), "little")


def _png(data: bytes) -> tuple[int, int]:
    if _at(data, 8, 8) != b"\0\0\0\rIHDR":
        raise BadPicture("is damaged: a PNG without its header")
    if _at(data, 24, 1)[0] not in _PNG_DEPTHS.get(_at(data, 25, 1)[0], ()):
        raise BadPicture("is damaged: a PNG with colours that do not exist")
    at, pixels = 8, False
    while True:
        size, kind = _big(data, at, 4), _at(data, at + 4, 4)
        body = memoryview(_at(data, at, size + 12))
        if not kind[0] & 0x20 and zlib.crc32(body[4:-4]) != int.from_bytes(body[-4:], "big"):
            raise BadPicture(f"is damaged: a checksum of the PNG is wrong (in {kind.decode('ascii', 'replace')})")
        pixels = pixels or (kind == b"IDAT" and size > 0)
        at += size + 12
        if kind == b"IEND":
            break
    if not pixels:
        raise BadPicture("is damaged: a PNG without pixels")
    return _big(data, 16, 4), _big(data, 20, 4)


def _jpeg(data: bytes) -> tuple[int, int]:
    at, found = 2, (0, 0)
    while True:
        if _at(data, at, 1)[0] != 0xFF:
            raise BadPicture("is damaged: a JPEG whose parts do not follow one another")
        marker = _at(data, at + 1, 1)[0]
        if marker == 0xFF or marker in _BARE:
            at += 1 if marker == 0xFF else 2
            continue
        if marker == 0xD9:
            raise BadPicture("is damaged: a JPEG without pixels")
        size = _big(data, at + 2, 2)
        _at(data, at + 2, size)
        if marker in _FRAMES:
            found = (_big(data, at + 7, 2), _big(data, at + 5, 2))
        at += 2 + max(size, 2)
        if marker == 0xDA:
            break
    if data.find(b"\xff\xd9", at) <= at:
        raise IndexError
    return found


def _gif(data: bytes) -> tuple[int, int]:
    width, height = _little(data, 6, 2), _little(data, 8, 2)
    at, frames = 13 + _palette(_at(data, 10, 1)[0]), 0
    while not (frames and at == len(data)) and (kind := _at(data, at, 1)[0]) != 0x3B:  # some files lack the final byte
        if kind == 0x2C:
            x, y, w, h = (_little(data, at + 1 + 2 * n, 2) for n in range(4))
            width, height, frames = max(width, x + w), max(height, y + h), frames + 1
            at += 11 + _palette(_at(data, at + 9, 1)[0])
        elif kind == 0x21:
            at += 2
        else:
            raise BadPicture("is damaged: a GIF whose parts do not follow one another")
        while size := _at(data, at, 1)[0]:
            at += 1 + size
        at += 1
    if not frames:
        raise BadPicture("is damaged: a GIF without pixels")
    return width, height


def _palette(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _webp(data: bytes) -> tuple[int, int]:
    end = 8 + _little(data, 4, 4)
    _at(data, 0, end)
    at, canvas, found = 12, (0, 0), (0, 0)
    while at + 8 <= end:
        kind, size = _at(data, at, 4), _little(data, at + 4, 4)
        _at(data, at + 8, size)
        if kind == b"VP8X":
            canvas = (_little(data, at + 12, 3) + 1, _little(data, at + 15, 3) + 1)
        elif kind == b"ANMF":
            found = canvas
        elif kind == b"VP8 ":
            if _at(data, at + 11, 3) != b"\x9d\x01\x2a":
                raise BadPicture("is damaged: a WebP whose pixels have no beginning")
            found = (_little(data, at + 14, 2) & 0x3FFF, _little(data, at + 16, 2) & 0x3FFF)
        elif kind == b"VP8L":
            bits = _little(data, at + 9, 4)
            found = ((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
        at += 8 + size + size % 2
    if found == (0, 0):
        raise BadPicture("is damaged: a WebP without pixels")
    return max(found[0], canvas[0]), max(found[1], canvas[1])
