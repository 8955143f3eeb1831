"""Raises the limit on open files, because each agent needs a transcript and a connection."""

ENOUGH = 8192


def allow_many_files() -> None:
    """Raises our own limit as far as the system permits, but no further than needed."""
    import resource  # noqa: PLC0415  # not on every platform

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
