"""Drives `garret mcp` with the client that the Claude Agent SDK brings, against a scripted model on this machine.

Shows what reaches the model: the text of our answers, and an undo by the id that the model gave its call. Exits with a message where something
is not as promised. With --show it prints each tool result as the model got it.

usage: claude_agent.py GARRET DIRECTORY [--show]
"""

import asyncio
import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, query

Json = dict[str, Any]

TIME_LIMIT_S = 120


class Model(ThreadingHTTPServer):
    """Answers the Messages API with one turn of a script after the other, and keeps what it was sent."""

    def __init__(self, turns: list[Json]) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.turns = turns
        self.requests: list[Json] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def next_turn(self, request: Json) -> Json:
        """The next turn of the script for a request with our tools; the client also asks for titles and the like."""
        names = [tool.get("name", "") for tool in request.get("tools", [])]
        if not any(name.startswith("mcp__garret__") for name in names) or not self.turns:
            return {"type": "text", "text": "ok"}
        self.requests.append(request)
        return self.turns.pop(0)

    def results(self) -> Json:
        """The tool results that the model was sent, by the id of the call."""
        blocks = (
            block
            for request in self.requests
            for message in request["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
        )
        return {block["tool_use_id"]: block for block in blocks if block["type"] == "tool_result"}


class Answer(BaseHTTPRequestHandler):
    server: Model
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.reply("text/plain", b"")

    def do_GET(self) -> None:
        self.reply("application/json", b'{"data": [], "has_more": false}')

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or "{}")
        if not self.path.startswith("/v1/messages") or "count_tokens" in self.path:
            return self.reply("application/json", b'{"input_tokens": 1}')
        block = self.server.next_turn(request)
        stop = "tool_use" if block["type"] == "tool_use" else "end_turn"
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": request.get("model", "m"),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        if not request.get("stream"):
            whole = {**message, "content": [block], "stop_reason": stop}
            return self.reply("application/json", json.dumps(whole).encode())
        lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events(message, block, stop))
        self.reply("text/event-stream", "".join(lines).encode())

    def reply(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def events(message: Json, block: Json, stop: str) -> Iterator[Json]:
    """One turn as the stream of the Messages API."""
    if block["type"] == "text":
        start = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    else:
        start = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    yield {"type": "message_start", "message": message}
    yield {"type": "content_block_start", "index": 0, "content_block": start}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


def call(name: str, arguments: Json, call_id: str) -> Json:
    return {"type": "tool_use", "id": call_id, "name": f"mcp__garret__{name}", "input": arguments}


def text_of(result: Json) -> str:
    content = result["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


async def converse(garret: str, directory: Path, home: str) -> Model:
    path = str(directory / "notes.txt")
    model = Model([
        call("write_file", {"path": path, "content": "one\ntwo\nthree\n"}, "toolu_write"),
        call("read_file", {"path": path, "limit": 2}, "toolu_read"),
        call("read_file", {"path": "missing.txt"}, "toolu_missing"),
        call("write_file", {"path": "kept.txt", "content": "kept\n"}, "toolu_kept"),
        call("undo", {"what": "tool_call", "id": "toolu_write"}, "toolu_undo"),
        {"type": "text", "text": "done"},
    ])
    options = ClaudeAgentOptions(
        mcp_servers={"garret": {"command": garret, "args": ["--home", f"{home}/garret", "mcp", str(directory)]}},
        allowed_tools=["mcp__garret__*"],
        tools=[],
        strict_mcp_config=True,
        setting_sources=[],
        cwd=str(directory),
        max_turns=10,
        env={
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.server_port}",
            "ANTHROPIC_API_KEY": "sk-scripted",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "HOME": home,
            "CLAUDE_CONFIG_DIR": home,
        },
    )
    async for _ in query(prompt="go", options=options):
        pass
    return model


def check(model: Model, directory: Path) -> None:
    assert not model.turns, f"the conversation ended early, before {model.turns[0]}"
    results = {call_id: text_of(result) for call_id, result in model.results().items()}
    assert results["toolu_read"].startswith("     1\tone\n     2\ttwo\n["), results["toolu_read"]
    assert "more: offset=2" in results["toolu_read"], results["toolu_read"]
    assert "not_found" in results["toolu_missing"], results["toolu_missing"]
    assert model.results()["toolu_missing"].get("is_error") is True, model.results()["toolu_missing"]
    assert model.results()["toolu_undo"].get("is_error") is not True, results["toolu_undo"]
    assert sorted(path.name for path in directory.iterdir()) == ["kept.txt"], "the undo took back one call"


def main(garret: str, directory: Path, show: bool) -> None:
    with tempfile.TemporaryDirectory() as home:
        model = asyncio.run(asyncio.wait_for(converse(garret, directory, home), TIME_LIMIT_S))
    if show:
        for call_id, result in model.results().items():
            print(f"--- {call_id}\n{json.dumps(result, ensure_ascii=False)}")
    check(model, directory)
    print("the client of the Claude Agent SDK is content")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), "--show" in sys.argv[3:])
