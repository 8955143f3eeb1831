"""Explains the refusal of a first prompt that exceeds the window, where compaction cannot help."""

from teamwright.core.data.message import Request, Text
from teamwright.core.errors import ModelError
from teamwright.models.faults import COMPACT
from teamwright.models.local_server import LocalServer
from teamwright.models.wires.pieces import encode

CHARACTERS = 4  # per token, roughly
FEW = 6  # tools: a set this small has no leaner version
_LARGER = {
    "llama.cpp": "start llama-server with a larger `-c`",
    "vLLM": "start vLLM with a larger `--max-model-len`",
    "Ollama": "set OLLAMA_CONTEXT_LENGTH for the Ollama server, or `num_ctx` in the model's file",
    "LM Studio": "load the model in LM Studio with a larger context length",
    "": "give the model a larger context on its server (llama-server: `-c`, Ollama: OLLAMA_CONTEXT_LENGTH)",
}


def too_long_at_first(error: ModelError, request: Request, server: LocalServer | None) -> ModelError:
    """`server` is the person's own server, or None."""
    words = str(error).removesuffix(COMPACT).replace("The conversation does", "The prompt does", 1)
    tools = sum(len(encode({"d": s.description, "p": dict(s.schema)})) for s in request.tools)
    fixed = (sum(map(len, request.system)) + tools) // CHARACTERS
    asked = sum(len(b.text) for m in request.messages for b in m.blocks if isinstance(b, Text)) // CHARACTERS
    window = (
        f"The server gives the model a context size of {server.window:,} tokens. " if server and server.window else ""
    )
    parts = f"Instructions and {len(request.tools)} tools have about {fixed:,} tokens, the prompt {asked:,}."
    ways = [*_ways(request, large=asked > fixed), _LARGER[server.name] if server else ""]
    advice = ", or ".join(filter(None, (*ways, "" if server else "use a model with a larger window")))
    text = f"{words} {window}{parts} {advice[:1].upper()}{advice[1:]}."
    return ModelError(text, "context", status=error.status, said=window or error.said)


def _ways(request: Request, *, large: bool) -> list[str]:
    """Ways to send less, the most effective first."""
    fewer = "offer fewer tools (`--lean`, `--tools`)" if len(request.tools) > FEW else "offer fewer tools (`--tools`)"
    shorter = "shorten the prompt"
    if not request.tools:
        return [shorter]
    return [shorter, fewer] if large else [fewer]
