"""The cheapest possible client: aiohttp sends recorded bodies and reads the answers.

python bare.py URL FILE SIZE...      FILE holds the bodies one after the other
"""

import asyncio
import sys
from pathlib import Path

import aiohttp

HEADERS = {"content-type": "application/json", "anthropic-version": "2023-06-01", "accept": "text/event-stream"}


def read_bodies(file: str, sizes: list[str]) -> list[bytes]:
    data, start, bodies = Path(file).read_bytes(), 0, []
    for size in map(int, sizes):
        bodies.append(data[start : start + size])
        start += size
    return bodies


async def main(url: str, file: str, sizes: list[str]) -> None:
    bodies = read_bodies(file, sizes)
    async with aiohttp.ClientSession() as session:
        for body in bodies:
            async with session.post(f"{url}/v1/messages", data=body, headers=HEADERS) as response:
                while await response.content.readany():
                    pass


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
