#!/usr/bin/env python3
"""Checks that docs/functions.md names every public function, module, optimizer and schedule.

    python3 tools/check_functions_page.py       prints what is missing; exit 1 if something is

Looks through the headers that pippin.h includes (data, files, models and the Accelerator have pages of
their own) for free functions and for classes and structs with a body, of the
namespaces pippin, nn, nn::init and optim, and for the methods of Tensor. A name counts as there if the
page has it in backquotes.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Parts of the vocabulary that pippin.h brings but that are no functions, and one that it leaves out.
NOT_HERE = {"stats.h", "text.h"}
ALSO = {"amp.h", "module.h", "profiler.h"}


def stripped(text):
    """Without comments, preprocessor lines and strings."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r'"(\\.|[^"\\])*"', '""', text)
    return re.sub(r"^\s*#[^\n]*", "", text, flags=re.M)


def blocks(text):
    """(head, body) of each top-level item: a declaration's body is None."""
    depth, start, head = 0, 0, ""
    parens = 0
    for i, c in enumerate(text):
        if c in "([":
            parens += 1
        elif c in ")]":
            parens -= 1
        elif c == "{" and not parens:
            if depth == 0:
                head, start = text[start:i], i + 1
            depth += 1
        elif c == "}" and not parens:
            depth -= 1
            if depth == 0:
                yield head.strip(), text[start:i]
                start = i + 1
        elif c == ";" and depth == 0 and not parens:
            if text[start:i].strip():
                yield text[start:i].strip(), None
            start = i + 1


FUNCTION = re.compile(r"([A-Za-z_]\w*)\s*\(")


def function_name(head):
    """The name of a declared function, or None. Operators have none here."""
    head = re.sub(r"^template\s*<[^{;]*?>\s*(?=[A-Za-z])", "", head)
    if head.startswith(("using", "friend", "typedef", "static_assert", "return")) or "operator" in head:
        return None
    m = FUNCTION.search(head)
    return m.group(1) if m and "=" not in head[:m.start()] else None


def names_of(text):
    names = set()
    for head, body in blocks(text):
        if head.startswith(("namespace", "inline namespace")):
            names |= names_of(body)
            continue
        kind = re.match(r"(?:template\s*<[^>]*>\s*)?(class|struct)\s+(\w+)", head)
        if kind and body is not None:
            names.add(kind.group(2))
            if kind.group(2) == "Tensor":
                names |= methods_of(body)
        elif kind or head.startswith(("enum", "extern", "constexpr", "inline constexpr")):
            continue
        elif name := function_name(head):
            names.add(name)
    return names


def methods_of(body):
    public = body.split("private:")[0].split("for the library's own use")[0]
    public = re.sub(r"\b(public|protected):", "", public)
    names = {function_name(head) for head, _ in blocks(public)}
    return {n for n in names if n and n != "Tensor"}


def main():
    page = (ROOT / "docs" / "functions.md").read_text()
    on_page = set(re.findall(r"[A-Za-z_]\w*", " ".join(re.findall(r"`([^`]*)`", page))))
    missing, total = [], 0
    folder = ROOT / "include" / "pippin"
    included = set(re.findall(r'#include "pippin/([\w.]+)"', (folder / "pippin.h").read_text()))
    for header in sorted(folder / name for name in (included | ALSO) - NOT_HERE):
        names = names_of(stripped(header.read_text()))
        total += len(names)
        missing += [f"{header.name}: {n}" for n in sorted(names - on_page)]
    if missing:
        print("docs/functions.md lacks", *missing, sep="\n    ")
        return 1
    print(f"docs/functions.md has all {total} names")
    return 0 if total > 300 else 1  # fewer: this script no longer reads the headers


if __name__ == "__main__":
    sys.exit(main())
