"""Runs pieces of Python for Garret, one after the other, and keeps what they define.

Each line on standard input is a word and the code in base64. What the code prints goes where it prints it; when it has ended, the record
separator and the word end both streams, on standard output with the outcome as JSON in base64.

Modules that take long to load (asyncio, json, traceback, linecache) are loaded where they are needed: a piece that needs
none of them ends in the time of the interpreter's own start.
"""
import _ast
import binascii
import os
import sys
import types

LARGEST = 256 * 1024

# Whatever the code does to the standard streams, these stay; programs that it starts do not have them.
requests = os.fdopen(os.dup(0), "rb")
told, warned = os.dup(1), os.dup(2)
nothing = os.open(os.devnull, os.O_RDONLY)
os.dup2(nothing, 0)
os.close(nothing)
sys.argv = [""]
if "" not in sys.path:
    sys.path.insert(0, "")

main = types.ModuleType("__main__")
main.__builtins__ = __builtins__
sys.modules["__main__"] = main
loop = None
# What linecache holds of the pieces.
sources = {}


class SourceFinder:
    """Hands the sources of the pieces to linecache when it is loaded."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "linecache":
            return None
        others = [finder for finder in sys.meta_path if finder is not SourceFinder]
        spec = next(filter(None, (finder.find_spec(name, path) for finder in others)), None)
        if spec is None:
            return None
        sys.meta_path.remove(SourceFinder)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            module.cache.update(sources)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, SourceFinder)


def outcome_of(code):
    name = f"<code {len(sources) + 1}>"
    sources[name] = (len(code), None, code.splitlines(True), name)
    if "linecache" in sys.modules:
        sys.modules["linecache"].cache[name] = sources[name]
    try:
        value = run(compile(code, name, "exec", _ast.PyCF_ONLY_AST, dont_inherit=True), name)
        return {} if value is None else {"result": shown(value)}
    except SystemExit:
        raise
    except BaseException as error:
        return {"error": described(error)}


def run(tree, name):
    flags = _ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], _ast.Expr) else None
    if tree.body:
        finished(eval(compile(tree, name, "exec", flags), main.__dict__))
    if last is None:
        return None
    return finished(eval(compile(_ast.Expression(last.value), name, "eval", flags), main.__dict__))


def finished(value):
    """One loop for all pieces, so that what belongs to it lives on between them."""
    global loop
    if not isinstance(value, types.CoroutineType):
        return value
    import asyncio

    if loop is None or loop.is_closed():
        loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    return loop.run_until_complete(value)


def shown(value):
    result = {"repr": bounded(repr(value))}
    if type(value) is int and -(2**63) <= value < 2**64:
        return {**result, "json": repr(value)}
    if type(value) is bool:
        return {**result, "json": repr(value).lower()}
    import json

    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        json.loads(text, parse_int=exact)
    except (TypeError, ValueError, RecursionError):
        return result
    if len(text) <= LARGEST:
        result["json"] = text
    return result


def exact(digits):
    """Refuses integers that most readers of JSON would round."""
    if not -(2**63) <= int(digits) < 2**64:
        raise ValueError(digits)


def described(error):
    import traceback

    try:
        told = traceback.TracebackException.from_exception(error)
        own_frames_only(told)
        text = "".join(told.format())
        message = str(error)
    except Exception as fault:
        text = message = f"<an error that cannot be shown: {type(fault).__name__}>"
    return {"type": type(error).__name__, "message": bounded(message), "traceback": bounded(text)}


def own_frames_only(told):
    """Leaves out the frames of this program, in what led to the error too."""
    seen = set()
    while told is not None and id(told) not in seen:
        seen.add(id(told))
        first = next((at for at, frame in enumerate(told.stack) if frame.filename.startswith("<code ")), None)
        if first is None and told.exc_type is not None and issubclass(told.exc_type, SyntaxError):
            first = len(told.stack)
        del told.stack[:first or 0]
        told = told.__cause__ or told.__context__


def bounded(text):
    return text if len(text) <= LARGEST else text[:LARGEST] + "…"


def encoded(outcome):
    """The outcome as JSON."""
    parts = (f"{quoted(name)}: {encoded(value) if isinstance(value, dict) else quoted(value)}" for name, value in outcome.items())
    return f"{{{', '.join(parts)}}}"


def quoted(text):
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    import json

    return json.dumps(text, ensure_ascii=False)


def flush():
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except Exception:
            pass


def end(descriptor, line):
    os.set_blocking(descriptor, True)
    while line:
        line = line[os.write(descriptor, line):]


owner, has_failed = os.getpid(), False
for request in requests:
    word, code = request.split(b" ")
    outcome = outcome_of(binascii.a2b_base64(code).decode())
    flush()
    if os.getpid() != owner:
        # A fork that ran out of the code: this is not its place.
        os._exit(0)
    has_failed = "error" in outcome
    end(warned, b"\x1e" + word + b"\n")
    text = encoded(outcome).encode("utf-8", "replace")
    end(told, b"\x1e" + word + b" told " + binascii.b2a_base64(text))
sys.exit(1 if has_failed else 0)
