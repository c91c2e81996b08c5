"""Reads the Rust sources of the product for `metrics` and `check-names`: names, comments and methods, without tests and testkit."""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Tools hold their arguments in a type of this name, one a file; crates may have an alias for their result.
SHARED_ON_PURPOSE = {"Arguments", "Result"}

TYPE = re.compile(r"^(?:pub(?:\([^)]*\))?\s+)?(?:struct|enum|trait|type|union)\s+(\w+)", re.MULTILINE)
FUNCTION = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:const\s+)?(?:async\s+)?(?:unsafe\s+)?fn\s+(\w+)", re.MULTILINE)
METHOD = re.compile(r"    (?:pub(?:\([^)]*\))? )?(?:const )?(?:async )?(?:unsafe )?fn ")
INHERENT_IMPL = re.compile(r"impl(?:<.*?>)?\s+([A-Z]\w*)(?:<.*>)?\s*(?:\{|where|$)")
INLINE_TESTS = re.compile(r"#\[cfg\(test\)\]\s*\n(?:#\[[^\]]*\]\s*\n)*mod \w+ \{")
COMMENT = re.compile(r"\s*(//[/!]?)\s?(.*)")


@dataclass
class Source:
    """One file, without its tests."""

    path: Path
    text: str

    @property
    def crate(self):
        return self.path.relative_to(ROOT).parts[1]

    @property
    def name(self):
        return str(self.path.relative_to(ROOT))

    def types(self):
        return TYPE.findall(self.text)

    def functions(self):
        return FUNCTION.findall(self.text)

    def comments(self):
        """Yields the marker and the text of each comment line, with its line number."""
        for number, line in enumerate(self.text.split("\n"), 1):
            if found := COMMENT.match(line):
                yield number, found.group(1), found.group(2)

    def code_lines(self):
        return sum(1 for line in self.text.split("\n") if line.strip() and not COMMENT.match(line))

    def matches_on_bool(self):
        return len(re.findall(r"^\s*(?:true|false) =>", self.text, re.MULTILINE)) // 2

    def methods(self):
        """Yields the type of each inherent method."""
        owner = None
        for line in self.text.split("\n"):
            found = INHERENT_IMPL.match(line)
            if found and " for " not in line:
                owner = found.group(1)
            elif line.startswith("}"):
                owner = None
            if owner and METHOD.match(line):
                yield owner


@dataclass
class Tree:
    """All sources of the product."""

    sources: list = field(default_factory=list)

    @classmethod
    def read(cls):
        paths = sorted((ROOT / "crates").glob("*/src/**/*.rs"))
        product = [path for path in paths if "testkit" not in path.parts and path.name not in ("tests.rs", "test.rs")]
        texts = ((path, path.read_text(encoding="utf-8")) for path in product)
        return cls([Source(path, INLINE_TESTS.split(text)[0]) for path, text in texts])

    def types(self):
        """Maps each type name to the files that define a type of that name."""
        found = defaultdict(list)
        for source in self.sources:
            # Two definitions in one file are the forms of one type for different targets.
            for name in dict.fromkeys(source.types()):
                found[name].append(source.name)
        return found


def is_one_word_type(name):
    return len(re.findall("[A-Z]", name)) == 1
