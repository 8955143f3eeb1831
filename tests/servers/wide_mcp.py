"""An MCP server with many tools: `wide_mcp.py LOG COUNT`. Tool N says `N` and its arguments; LOG tells its calls."""

import json
import sys
from pathlib import Path

log, count = Path(sys.argv[1]), int(sys.argv[2])
SCHEMA = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}
TOOLS = [{"name": f"tool_{n}", "description": f"Paints thing number {n}.", "inputSchema": SCHEMA} for n in range(count)]
TOOLS[0] |= {
    "name": "create_issue",
    "description": "Opens a ticket in the tracker.",
    "annotations": {"readOnlyHint": True},
}


def answer(method, params):
    if method == "initialize":
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "w", "version": "1"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        with log.open("a") as file:
            file.write(f"{params['name']} {json.dumps(params.get('arguments'))}\n")
        return {"content": [{"type": "text", "text": f"{params['name']} did {json.dumps(params.get('arguments'))}"}]}
    return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request and "method" in request:
        result = answer(request["method"], request.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
