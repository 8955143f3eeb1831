"""A prompt of the editor as content for the agent."""

import base64
import binascii
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from teamwright.core.data.content.picture import BadPicture, examine
from teamwright.core.data.message import Content, Image, Text
from teamwright.core.data.op import Say
from teamwright.core.text import neutral, quoted, shown
from teamwright.surfaces.acp.protocol.shapes import ContentBlock, PromptRequest, Resource
from teamwright.surfaces.acp.protocol.wire import PARAMS, RpcError


class SaidPrompt(Struct, frozen=True):
    """`typed` are the person's own words, `attached` is what came with them, `trace` is the editor's span."""

    content: tuple[Content, ...]
    typed: str
    attached: tuple[Content, ...] = ()
    trace: str = ""

    def op(self, content: Sequence[Content] = ()) -> Say:
        """The op for the main agent. `content`, if given, replaces the words and leaves what is attached to them."""
        return Say((*content, *self.attached) if content else self.content, typed=self.typed, trace=self.trace)


def prompt_of(asked: PromptRequest) -> SaidPrompt:
    """Raises RpcError for content that was not offered, or an empty prompt."""
    blocks = asked.prompt
    content = [(block.type, _content(block)) for block in blocks]
    kept = [(kind, part) for kind, part in content if isinstance(part, Image) or part.text.strip()]
    if not kept:
        raise RpcError(PARAMS, "the prompt says nothing")
    typed = "\n".join(block.text for block in blocks if block.type == "text")
    attached = tuple(part for kind, part in kept if kind != "text")
    return SaidPrompt(tuple(part for _, part in kept), typed, attached, asked.trace)


def _content(block: ContentBlock) -> Content:
    match block.type:
        case "text":
            return Text(block.text)
        case "image":
            return _image(block)
        case "resource_link":
            return Text(f"[{shown(block.name or block.uri or '', 200)}]({shown(path_of(block.uri or ''), 2_000)})")
        case "resource":
            return _embedded(block.resource or Resource())
        case other:
            raise RpcError(PARAMS, f"content of type {other!r} is not supported: text, images and resources are")


def _image(block: ContentBlock) -> Image:
    try:
        raw = base64.b64decode(block.data, validate=True)
        return Image(examine(raw).media_type, block.data)
    except BadPicture as error:
        raise RpcError(PARAMS, f"an image {error}") from None
    except (binascii.Error, ValueError):
        raise RpcError(PARAMS, "the data of an image is not base64") from None


def _embedded(resource: Resource) -> Text:
    """Marked as an attachment: a file's text is nobody's order."""
    name = quoted(shown(path_of(resource.uri), 2_000))
    if resource.text is None:
        return Text(f"<attached-resource name={name}>\n[it is not text]\n</attached-resource>")
    return Text(f"<attached-resource name={name}>\n{neutral(resource.text)}\n</attached-resource>")


def path_of(uri: str) -> str:
    """A file as a path, as tools take it; anything else as its address."""
    parts = urlsplit(uri) if uri.startswith("file://") else None
    return unquote(parts.path) if parts is not None and parts.netloc in ("", "localhost") else uri
