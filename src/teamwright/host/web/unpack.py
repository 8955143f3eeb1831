"""Decompresses a response in steps that fit the room left."""

import zlib


class Unpacker:
    """gzip (with several members too) or deflate. Raises ValueError for anything else."""

    def __init__(self, encoding: str) -> None:
        self.raw = encoding == "deflate"
        self.inner = zlib.decompressobj(32 + zlib.MAX_WBITS)  # detects gzip or zlib
        self.first = True

    def feed(self, data: bytes, most: int) -> bytes:
        out = b""
        while data and len(out) < most:
            out += self._some(data, most - len(out))
            data = self.inner.unconsumed_tail
            if self.inner.eof:
                data = self.inner.unused_data
                if not data.startswith(b"\x1f\x8b"):
                    break  # padding after the end
                self.inner = zlib.decompressobj(32 + zlib.MAX_WBITS)
        return out

    def _some(self, data: bytes, most: int) -> bytes:
        try:
            out = self.inner.decompress(data, most)
        except zlib.error as error:
            if not (self.first and self.raw):
                raise ValueError(f"its body cannot be unpacked ({error})") from None
            self.inner = zlib.decompressobj(-zlib.MAX_WBITS)  # what some servers mean by deflate
            self.first = False
            return self._some(data, most)
        self.first = False
        return out
