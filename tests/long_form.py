"""Marks tests that take too long for every change: `make long` runs them."""

import os

import pytest

LONG = bool(os.environ.get("TEAMWRIGHT_TEST_LONG"))
long_form = pytest.mark.skipif(not LONG, reason="only in the long form: TEAMWRIGHT_TEST_LONG=1")
