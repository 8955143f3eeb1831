"""A server whose answers are odd: far too many parts, far too deep, or not to be read at all. Run as: odd_mcp.py."""

import json
import sys

PART = {"type": "text", "text": "x"}
DEEP = 50_000
RAW = {
    "deep": '{"jsonrpc":"2.0","id":ID,"result":' + '{"a":' * DEEP + "1" + "}" * DEEP + "}",
    "deep_list": "[" * DEEP + "]" * DEEP,
    "levels": '{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"a":'
    + "[" * 300
    + "]" * 300
    + "}}}",
    "half": '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"te',
    "neither": '{"jsonrpc":"2.0","id":ID}',
    "noise": 'starting up\n{"level":"info"}\n{broken\n[1, 2]',
}
RESULTS = {
    "many": lambda: {"content": [PART] * 300_000},
    "data": lambda: {"content": [PART], "structuredContent": {"rows": [{"a": 1}] * 1_500_000}},
    "meta": lambda: {"content": [PART | {"_meta": {"x": [[]] * 2_000_000}}]},
    "long": lambda: {"content": [{"type": "text", "text": "y" * 15_000_000}]},
    "picture": lambda: {"content": [{"type": "image", "data": "bm8gcGljdHVyZQ==", "mimeType": "image/png"}]},
}


def answer(request):
    match request.get("method"):
        case "initialize":
            version = request["params"]["protocolVersion"]
            about = {"name": "odd", "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in (*RAW, *RESULTS)]}
        case "tools/call":
            return RESULTS.get(request["params"]["name"], lambda: {"content": [PART]})()
    return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    name = request["params"].get("name") if request["method"] == "tools/call" else None
    if name in RAW:
        print(RAW[name].replace("ID", str(request["id"])), flush=True)
    if name not in RAW or name == "noise":
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer(request)}), flush=True)
