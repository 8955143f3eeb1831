"""State of the screen for somebody who sees the app for the first time."""

from msgspec import Struct


class Newcomer(Struct):
    """What there is to see, and what the person has tried."""

    team: bool = False  # teammates are there
    asked: str = ""  # who waits for an answer
    page: str = ""  # of the side, if it is open
    elsewhere: str = ""  # whose conversation is open, if not the lead's
    tried_side: bool = False
    tried_reading: bool = False
