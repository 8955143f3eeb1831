"""Raises the limit on open files: many agents need a transcript and a connection each."""

ENOUGH = 8192


def allow_many_files() -> None:
    """Raise our own limit as far as the system lets us, and no further than needed."""
    import resource  # noqa: PLC0415  # not on every platform

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
