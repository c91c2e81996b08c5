"""Drives `garret mcp` with the official Python client, the way an agent would. Exits with a message where something is not as promised.

usage: client.py GARRET DIRECTORY
"""

import asyncio
import base64
import sys
from pathlib import Path

import anyio
from mcp import ClientSession, MCPError, StdioServerParameters, stdio_client

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
FS_TOOLS = set("read_file write_file append_file edit_file apply_patch ls glob grep stat exists mkdir rm copy move".split())

# Word borders in text that is not ASCII keep the search engine from its fast paths.
SLOW_SEARCH = {"pattern": r"\b\w{3,}[ab]\w+x\b", "path": "many"}


async def lists_the_tools(session: ClientSession) -> None:
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    assert FS_TOOLS <= tools.keys(), tools.keys()
    read, remove = tools["read_file"], tools["rm"]
    assert read.annotations.read_only_hint is True and read.title and read.output_schema["type"] == "object"
    assert remove.annotations.destructive_hint is True and remove.annotations.read_only_hint is False
    assert "path" in read.input_schema["properties"]


async def writes_edits_and_reads(session: ClientSession) -> None:
    written = await session.call_tool("write_file", {"path": "src/main.py", "content": "print('hello')\n"})
    assert not written.is_error and written.structured_content["created"] is True
    edited = await session.call_tool("edit_file", {"path": "src/main.py", "old_text": "hello", "new_text": "garret"})
    assert edited.structured_content["replacements"] == 1
    read = await session.call_tool("read_file", {"path": "/workspace/src/main.py"})
    assert read.structured_content["content"] == "print('garret')\n" and "garret" in read.content[0].text
    found = await session.call_tool("grep", {"pattern": "gar+et"})
    assert [(match["path"], match["line_number"]) for match in found.structured_content["matches"]] == [("src/main.py", 1)]


async def reads_an_image(session: ClientSession, directory: Path) -> None:
    (directory / "pixel.png").write_bytes(PIXEL)
    read = await session.call_tool("read_file", {"path": "pixel.png"})
    images = [block for block in read.content if block.type == "image"]
    assert len(images) == 1 and images[0].mime_type == "image/png" and base64.b64decode(images[0].data) == PIXEL


async def answers_errors_as_results(session: ClientSession, directory: Path) -> None:
    (directory / "link").symlink_to("/etc")
    escaped = await session.call_tool("read_file", {"path": "link/passwd"})
    assert escaped.is_error and "path_escape" in escaped.content[0].text and str(directory) not in escaped.content[0].text
    wrong = await session.call_tool("read_file", {"pth": "a"})
    assert wrong.is_error and "path" in wrong.content[0].text
    try:
        await session.call_tool("no_such_tool", {})
    except MCPError as error:
        assert error.code == -32602, error
    else:
        raise AssertionError("an unknown tool is a protocol error")


async def shows_progress(session: ClientSession) -> None:
    """Slow enough that the client hears of the start before the end."""
    steps: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    await session.call_tool("grep", SLOW_SEARCH, progress_callback=note)
    assert len(steps) >= 2 and steps == sorted(set(steps)), steps


async def cancels(session: ClientSession) -> None:
    """Gives up a search of many files; the session goes on."""
    with anyio.move_on_after(0.05) as scope:
        await session.call_tool("grep", SLOW_SEARCH)
    assert scope.cancelled_caught, "the search was over before it could be cancelled"
    assert not (await session.call_tool("exists", {"path": "src/main.py"})).is_error


async def serves_calls_at_the_same_time(session: ClientSession) -> None:
    appends = (session.call_tool("append_file", {"path": "log", "content": f"{number}\n"}) for number in range(50))
    await asyncio.gather(*appends)
    read = await session.call_tool("read_file", {"path": "log"})
    assert sorted(map(int, read.structured_content["content"].split())) == list(range(50))


async def is_given_text_alone(garret: str, directory: Path) -> None:
    """Without --structured there are neither output schemas nor data."""
    (directory / "plain.txt").write_text("one\ntwo\n")
    server = StdioServerParameters(command=garret, args=["mcp", str(directory)])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        assert all(tool.output_schema is None for tool in (await session.list_tools()).tools)
        read_file = await session.call_tool("read_file", {"path": str(directory / "plain.txt")})
        assert read_file.structured_content is None and read_file.content[0].text == "     1\tone\n     2\ttwo", read_file
    (directory / "plain.txt").unlink()


async def main(garret: str, directory: Path) -> None:
    many = directory / "many"
    many.mkdir()
    for number in range(200):
        (many / f"{number}.txt").write_text("abécabcabécabcabcabcabcabc\n" * 2400)
    await is_given_text_alone(garret, directory)
    server = StdioServerParameters(command=garret, args=["mcp", str(directory), "--structured"])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        started = await session.initialize()
        assert started.server_info.name == "garret" and "workspace" in started.instructions
        await session.send_ping()
        await lists_the_tools(session)
        await writes_edits_and_reads(session)
        await reads_an_image(session, directory)
        await answers_errors_as_results(session, directory)
        await shows_progress(session)
        await cancels(session)
        await serves_calls_at_the_same_time(session)
    print("the Python client is content")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], Path(sys.argv[2]))
