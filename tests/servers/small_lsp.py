"""A language server without dependencies: `small_lsp.py LOG [option ...]`. A line with BAD is an error, one with WARN a
warning, one with HINT a hint. Options: `mute` never says a thing, `dies` ends at the first change, `plain` names no
version, `refuses` does not start, `odd` sends what is no message, `stays` does not end by itself, `late` needs a file
LOG.go to be there before it says a thing."""

import json
import os
import signal
import sys
import time
from pathlib import Path

log_file, *options = sys.argv[1:]
GRAVE = {"BAD": 1, "WARN": 2, "HINT": 4}
if "stays" in options:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def log(*words):
    with Path(log_file).open("a") as file:
        file.write(" ".join(map(str, words)) + "\n")


def write(message):
    data = json.dumps({"jsonrpc": "2.0"} | message).encode()
    sys.stdout.buffer.write(b"Content-Type: x\r\nContent-Length: %d\r\n\r\n%b" % (len(data), data))
    sys.stdout.buffer.flush()


def read():
    size = 0
    while (line := sys.stdin.buffer.readline().strip()) or not size:
        if not line:
            return None
        name, _, value = line.partition(b":")
        size = int(value) if name.lower() == b"content-length" else size
    return json.loads(sys.stdin.buffer.read(size))


def publish(document, text):
    log("text", Path(document["uri"]).name, document.get("version"), json.dumps(text)[:200])
    if "mute" in options:
        return
    while "late" in options and not Path(log_file + ".go").exists():
        time.sleep(0.01)
    found = [
        {"range": {"start": {"line": n, "character": 0}}, "severity": grave, "message": line.strip(), "code": word}
        for n, line in enumerate(text.split("\n"))
        for word, grave in GRAVE.items()
        if word in line
    ]
    version = {} if "plain" in options else {"version": document.get("version")}
    write(
        {
            "method": "textDocument/publishDiagnostics",
            "params": {"uri": document["uri"], "diagnostics": found} | version,
        }
    )


def hear(message):
    method, params = message.get("method"), message.get("params")
    match method:
        case "initialize":
            log("root", params["rootUri"], json.dumps(params["initializationOptions"]))
            log("cwd", os.getcwd())  # noqa: PTH109
            if "refuses" in options:
                write({"id": message["id"], "error": {"code": 1, "message": "no licence"}})
            else:
                write({"id": message["id"], "result": {"capabilities": {"textDocumentSync": 1}}})
        case "initialized":
            items = [{"section": "small.deep"}, {"section": "other"}]
            write({"id": "c1", "method": "workspace/configuration", "params": {"items": items}})
            write({"id": "c2", "method": "made/up", "params": {}})
        case "textDocument/didOpen":
            publish(params["textDocument"], params["textDocument"]["text"])
        case "textDocument/didChange":
            if "dies" in options:
                print("out of memory", file=sys.stderr, flush=True)
                os._exit(3)
            publish(params["textDocument"], params["contentChanges"][0]["text"])
        case "shutdown":
            write({"id": message["id"], "result": None})
        case "exit":
            log("exit")
            sys.exit(0)
        case None:
            log("answer", message["id"], json.dumps(message.get("result", message.get("error"))))


log("start", os.getpid(), "keys", sum("SEARCH_KEY" in name for name in os.environ))
if "odd" in options:
    sys.stdout.write("Welcome to the language server!\r\n\r\n" + "x" * 10_000)
    sys.stdout.flush()
while (message := read()) is not None:
    hear(message)
log("end")
while "stays" in options:
    time.sleep(60)
