"""Does the benchmark's work in Python, through agentfs-sdk or through `garret mcp`.

The benchmark writes one JSON message a line and waits for the answer, with the clock in its own hand. The work, the names and the
content are the same here, in work.mjs and in the benchmark itself.
"""

import asyncio
import importlib.metadata
import inspect
import json
import platform
import subprocess
import sys

FOLDERS = 10
LINE = 64
BIG = "big.txt"


def line(text: str) -> str:
    return text.ljust(LINE - 1, ".") + "\n"


def name(turn: int, number: int) -> str:
    return f"r{turn}/d{number % FOLDERS}/f{number}.txt"


def big_line(place: int, turn: int) -> str:
    return line(f"line {place:08} turn {turn:08} ")


class AgentFs:
    """The SDK as it comes. It has no edit and no write of a range, so an edit reads and writes the whole file."""

    @classmethod
    async def open(cls, message: dict) -> "AgentFs":
        import agentfs_sdk

        store = cls()
        store.agent = await agentfs_sdk.AgentFS.open(agentfs_sdk.AgentFSOptions(path=message["path"]))
        store.fs = store.agent.fs
        if message["synchronous"]:
            await store.agent.get_database().execute(f"PRAGMA synchronous = {message['synchronous']}")
        return store

    async def settings(self) -> dict:
        pragmas = {}
        for pragma in ["journal_mode", "synchronous", "page_size", "cache_size"]:
            cursor = await self.agent.get_database().execute(f"PRAGMA {pragma}")
            pragmas[pragma] = (await cursor.fetchone())[0]
        version = importlib.metadata.version
        methods = [name for of in (self.agent, self.fs, self.agent.tools) for name, _ in inspect.getmembers(of, callable)]
        return {
            "version": version("agentfs-sdk"),
            "runtime": f"Python {platform.python_version()}",
            "engine": f"pyturso {version('pyturso')}",
            "chunk_size": self.fs.get_chunk_size(),
            "methods": [name for name in methods if not name.startswith("_")],
            **pragmas,
        }

    async def write(self, path: str, content: str) -> None:
        await self.fs.write_file(f"/{path}", content)

    async def read(self, path: str) -> str:
        return await self.fs.read_file(f"/{path}")

    async def list(self, path: str) -> int:
        return len(await self.fs.readdir(f"/{path}"))

    async def edit(self, path: str, offset: int, _old: str, new: str) -> None:
        content = await self.read(path)
        await self.write(path, content[:offset] + new + content[offset + len(new) :])

    async def remove(self, path: str) -> None:
        await self.fs.unlink(f"/{path}")


class GarretMcp:
    """Garret in a process of its own, called over standard input and output."""

    @classmethod
    async def open(cls, message: dict) -> "GarretMcp":
        store = cls()
        store.server = subprocess.Popen(message["command"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        store.number = 0
        client = {"name": "bench", "version": "0"}
        store.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        store.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return store

    def send(self, message: dict) -> None:
        self.server.stdin.write(json.dumps(message).encode() + b"\n")
        self.server.stdin.flush()

    def request(self, method: str, params: dict) -> dict:
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        answer = json.loads(self.server.stdout.readline())
        if "result" not in answer or answer["result"].get("isError"):
            raise RuntimeError(str(answer)[:500])
        return answer["result"]

    def call(self, tool: str, **arguments: object) -> dict:
        return self.request("tools/call", {"name": tool, "arguments": arguments})["structuredContent"]

    async def write(self, path: str, content: str) -> None:
        self.call("write_file", path=path, content=content)

    async def read(self, path: str) -> str:
        return self.call("read_file", path=path)["content"]

    async def list(self, path: str) -> int:
        return len(self.call("ls", path=path)["entries"])

    async def edit(self, path: str, _offset: int, old: str, new: str) -> None:
        self.call("edit_file", path=path, old_text=old, new_text=new)

    async def remove(self, path: str) -> None:
        self.call("rm", path=path)


class Work:
    def __init__(self, store: AgentFs | GarretMcp, sizes: dict) -> None:
        self.store = store
        self.files, self.edits = sizes["files"], sizes["edits"]
        self.file_lines, self.big_lines = sizes["file_lines"], sizes["big_lines"]
        self.rest = line("the same in every file ") * (self.file_lines - 1)

    async def prepare(self, _message: dict) -> None:
        await self.store.write(BIG, "".join(big_line(place, 0) for place in range(self.big_lines)))

    async def settings(self, _message: dict) -> dict:
        return await self.store.settings()

    async def write(self, message: dict) -> None:
        turn = message["turn"]
        for number in range(self.files):
            await self.store.write(name(turn, number), line(f"turn {turn:08} file {number:08} ") + self.rest)

    async def read(self, message: dict) -> None:
        for number in range(self.files):
            content = await self.store.read(name(message["turn"], number))
            assert len(content) == self.file_lines * LINE, "the file is whole"

    async def list(self, message: dict) -> None:
        for folder in range(FOLDERS):
            count = await self.store.list(f"r{message['turn']}/d{folder}")
            assert count == self.files // FOLDERS, "the list is whole"

    async def edit(self, message: dict) -> None:
        turn = message["turn"]
        for edit in range(self.edits):
            place = edit * self.big_lines // self.edits
            await self.store.edit(BIG, place * LINE, big_line(place, turn - 1), big_line(place, turn))

    async def remove(self, message: dict) -> None:
        for number in range(self.files):
            await self.store.remove(name(message["turn"], number))

    async def big(self, _message: dict) -> str:
        return await self.store.read(BIG)


async def main() -> None:
    work = None
    for text in sys.stdin:
        message = json.loads(text)
        try:
            if message["do"] == "open":
                kind = {"agentfs": AgentFs, "garret": GarretMcp}[message["store"]]
                work, answer = Work(await kind.open(message), message["sizes"]), None
            else:
                answer = await getattr(work, message["do"])(message)
            print(json.dumps({"answer": answer}), flush=True)
        except Exception as error:
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
    if isinstance(work.store, GarretMcp):
        work.store.server.stdin.close()
        work.store.server.wait()
    else:
        await work.store.agent.close()


asyncio.run(main())
