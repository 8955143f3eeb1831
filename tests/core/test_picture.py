"""Pictures are looked at before they are sent: kind, size, wholeness, and how many a conversation holds."""

import struct

import pytest

from pictures import MAKERS, coded, gif, jpeg, png, webp, webp_moving
from teamwright.core.data.content.picture import (
    FEW,
    MOST_PICTURES,
    Album,
    BadPicture,
    admitted,
    examine,
    fitted,
    with_fit_pictures,
)
from teamwright.core.data.message import Image, Message, Text

pytestmark = pytest.mark.spec("A5")


@pytest.mark.parametrize("name", MAKERS)
def test_kind_and_size_are_read_from_the_header(name: str) -> None:
    make, media = MAKERS[name]
    found = examine(make(640, 8_000))
    assert (found.media_type, found.width, found.height) == (media, 640, 8_000)


@pytest.mark.parametrize("name", MAKERS)
def test_too_many_pixels_are_refused(name: str) -> None:
    make, _ = MAKERS[name]
    for width, height in ((8_001, 1), (1, 8_001), (16_383, 16_383)):
        with pytest.raises(BadPicture, match="at most 8,000 a side"):
            examine(make(width, height))


@pytest.mark.parametrize("name", MAKERS)
def test_every_cut_is_noticed(name: str) -> None:
    whole = MAKERS[name][0]()
    for end in range(len(whole) - (name == "gif")):  # the last byte of a GIF is often missing, and nobody minds
        with pytest.raises(BadPicture):
            examine(whole[:end])


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"hello", b"\xff\xd8\xff" + bytes(101), b"\xff\xd8\xff\xe0" * 26, b"\xff\xd8\xff\xd9", b"BM" + bytes(60),
        png(0, 5), jpeg(5, 0), gif()[:6] + bytes(4) + gif()[10:20] + b"\x3b", webp()[:12] + b"EXIF\2\0\0\0ab",
        png().replace(b"IDAT", b"IDAX"), png()[:24] + b"\x07" + png()[25:], b"<svg/>", b"%PDF-1.4",
        png()[:-14] + b"\7" + png()[-13:],
        b"RIFF" + struct.pack("<I", 4) + b"WEBP",
    ],
    ids=range(16),
)  # fmt: skip
def test_what_is_no_picture_is_refused(raw: bytes) -> None:
    with pytest.raises(BadPicture):
        examine(raw)


def test_a_wrong_media_type_and_odd_base64_are_put_right() -> None:
    data = coded(jpeg(30, 20))
    folded = "\n".join(data[i : i + 10] for i in range(0, len(data), 10)).rstrip("=")
    for image in (Image("image/png", data), Image("x", folded), Image("", f"data:image/png;base64,{data}")):
        assert fitted(image) == Image("image/jpeg", data)
    right = Image("image/jpeg", data)
    assert fitted(right) is right


@pytest.mark.parametrize(
    ("data", "words"),
    [("", "empty"), ("!!!", "base64"), ("ä", "base64"), (coded(b"text"), "no PNG"),
        (coded(png(60_000, 60_000)), "60,000 x"), ("A" * 6_000_000, "no PNG"),
        (coded(png() + bytes(4_000_000)), "at most 3,932,160"), ("A" * 11_000_000, "at most")],
    ids=range(8),
)  # fmt: skip
def test_words_stand_in_the_place_of_a_bad_one(data: str, words: str) -> None:
    fit = fitted(Image("image/png", data))
    assert isinstance(fit, Text) and words in fit.text and "left out" in fit.text and len(fit.text) < 300


def test_many_pictures_are_taken_only_while_all_are_small() -> None:
    small, large = Image("image/png", coded(png(2_000, 9))), Image("image/png", coded(png(2_001, 9)))
    twenty = admitted((small,) * FEW, Album())
    assert twenty == (small,) * FEW
    album = Album()
    album.add(twenty)
    more = admitted((large, small), album)
    assert isinstance(more[0], Text) and "2,000 pixels" in more[0].text and more[1] == small
    first = admitted((large, *(small,) * FEW), Album())
    assert first[:FEW] == (large, *(small,) * (FEW - 1)) and isinstance(first[FEW], Text)
    full = admitted((small,) * (MOST_PICTURES + 2), Album())
    assert sum(isinstance(part, Image) for part in full) == MOST_PICTURES


def test_an_error_is_told_in_words_and_a_message_keeps_its_order() -> None:
    good, bad = Image("image/gif", coded(gif())), Image("image/gif", coded(webp_moving(9_000, 1)))
    (only,) = admitted((good,), Album(), words_only=True)
    assert isinstance(only, Text)
    message = with_fit_pictures(Message("user", (bad, Text("see"), good)), Album())
    assert isinstance(message.blocks[0], Text) and message.blocks[1:] == (Text("see"), good)
    plain = Message("user", (Text("x"),))
    assert with_fit_pictures(plain, Album()) is plain
