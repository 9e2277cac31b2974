"""A file changed in place or shown as a difference: byte order mark, line endings, permissions and links stay."""

from __future__ import annotations

import contextlib
import difflib
import os
import shutil
import tempfile
from pathlib import Path

MARK = "\ufeff"


def whole_text(name: str) -> str:
    """The text of a UTF-8 file with its mark and its line endings, which readers leave out."""
    return Path(name).read_bytes().decode("utf-8")


def write_whole(name: str, text: str) -> None:
    """Replace what a file holds, all at once: a reader, or a crash, sees the old text or the new one. A link is followed.
    Raises `OSError` for a file that may not be written."""
    file = Path(name).resolve()
    with open(file, "ab") as stream:  # a file that may not be written is not to be replaced by one that may
        held = os.fstat(stream.fileno())
    made = ""
    if held.st_nlink == 1:
        with contextlib.suppress(OSError):
            handle, made = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    if not made:
        # the folder takes no new file, or another name would keep the old text
        file.write_bytes(text.encode())
        return
    try:
        with open(handle, "wb") as stream:
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())
        with contextlib.suppress(OSError, AttributeError):
            os.chown(made, held.st_uid, held.st_gid)
        shutil.copymode(file, made)
        os.replace(made, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(made)
        raise


def endings_kept(old: str, new: str) -> str:
    """The new text with the line endings of the old one: lines that stayed keep theirs, new ones take the most frequent."""
    before = old.split("\n")
    marked = [line.endswith("\r") for line in before[:-1]]
    if not any(marked):
        return new
    usual = sum(marked) * 2 >= len(marked)
    after = new.split("\n")
    ends = [usual] * len(after)
    if not all(marked):
        matcher = difflib.SequenceMatcher(None, [line.removesuffix("\r") for line in before], after, autojunk=False)
        for first, second, size in matcher.get_matching_blocks():
            for offset in range(size):
                if first + offset < len(marked):
                    ends[second + offset] = marked[first + offset]
    return "".join([*(line + ("\r\n" if end else "\n") for line, end in zip(after[:-1], ends, strict=False)), after[-1]])


def unified(name: str, old: str, new: str) -> list[str]:
    """A unified diff that `git apply` and `patch` take."""
    path = name.removeprefix("./").lstrip("/")
    # a tab ends a name that has spaces in it
    tail = "\t" if any(letter.isspace() for letter in path) else ""
    lines = []
    for line in difflib.unified_diff(_lines(old), _lines(new), f"a/{path}{tail}", f"b/{path}{tail}"):
        lines.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return lines


def _lines(text: str) -> list[str]:
    """The lines with their line feeds, which alone end a line of a difference."""
    *lines, last = text.split("\n")
    return [*(f"{line}\n" for line in lines), *([last] if last else [])]
