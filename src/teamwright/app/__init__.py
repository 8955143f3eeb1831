"""The composition root: the only package that knows every part and puts them together."""

from teamwright.app.models import model_for
from teamwright.app.options import Options
from teamwright.app.session import open_session
from teamwright.app.workspace import Workspace, open_workspace

__all__ = ["Options", "Workspace", "model_for", "open_session", "open_workspace"]
