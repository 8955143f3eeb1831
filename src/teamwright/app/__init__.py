"""The composition root: the only room that knows every part and puts them together."""

from teamwright.app.compose import open_session
from teamwright.app.ground import Ground, survey
from teamwright.app.naming import model_for
from teamwright.app.options import Options

__all__ = ["Ground", "Options", "model_for", "open_session", "survey"]
