"""State of the screen for a person who sees the app for the first time."""

from msgspec import Struct


class Newcomer(Struct):
    """What there is to see, and what the person has tried."""

    team: bool = False  # there are teammates
    asked: str = ""  # who waits for an answer
    page: str = ""  # open page of the side panel, if any
    elsewhere: str = ""  # whose conversation is open, if not the lead's
    tried_side: bool = False
    tried_reading: bool = False
