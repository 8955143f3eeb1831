"""Refusals of requests: a status and a sentence."""

NO_FILES = "its files cannot be read or written now: `teamwright doctor` says more"


class Refused(Exception):
    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words
        self.more: dict[str, list[str]] = {}  # what a page needs in addition to the sentence


def not_there(what: str = "that") -> Refused:
    return Refused(404, f"there is no {what} here")
