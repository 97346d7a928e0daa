"""Pages that are made from something else, so that they cannot fall behind it: commands, errors, study files, notebooks."""

import base64
import inspect
import json
import re
from pathlib import Path

import typer
from mkdocs.structure.files import File
from typer.testing import CliRunner

import colonnade
from colonnade import NotFittedError, errors
from colonnade.cli import app
from colonnade.service.study_keys import reference_page


def on_files(files, config):
    """Add the generated pages."""
    pages = {
        "reference/command-line.md": command_line(),
        "reference/study-file.md": reference_page(),
        "reference/errors.md": every_error(),
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    for notebook in sorted(Path(config["docs_dir"], "notebooks").glob("*.ipynb")):
        text, pictures = notebook_page(notebook)
        files.append(
            File.generated(config, f"notebooks/{notebook.stem}.md", content=text)
        )
        for name, picture in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=picture))
    return files


def on_page_markdown(markdown, page, **_):
    """Link every public name in the text to its place in the reference."""
    if page.file.src_uri.startswith("reference/"):
        return markdown
    names = {*colonnade.__all__} - {*errors.__all__, NotFittedError.__name__}
    named = "|".join(sorted(name for name in names if name[0].isupper()))
    # Blocks of code, headings and links stay as they are.
    parts = rf"^ *```.*?^ *```|^#.*?$|\[[^\]]*\]\([^)]*\)|(?P<code>`(?:cn\.)?(?P<name>{named})`)"

    def linked(found):
        if found["code"] is None:
            return found[0]
        return f"[{found['code']}][colonnade.{found['name']}]"

    return re.sub(parts, linked, markdown, flags=re.DOTALL | re.MULTILINE)


def notebook_page(notebook: Path) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as a page, outputs under the code, and the pictures that it shows by file name."""
    parts, pictures = [], {}
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(
            source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```"
        )
        for output in cell.get("outputs", []):
            data = output.get("data", {"text/plain": output.get("text", "")})
            if "image/png" in data:
                name = f"{notebook.stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode("".join(data["image/png"]))
                parts.append(f"![A picture that this cell draws]({name})")
            elif "text/html" in data:
                table = re.sub(
                    r"<style.*?</style>",
                    "",
                    "".join(data["text/html"]),
                    flags=re.DOTALL,
                )  # the site has its own
                lines = (line.strip() for line in table.splitlines())
                parts.append(
                    "".join(line for line in lines if line)
                )  # on one line, Markdown leaves it alone
            else:
                parts.append(f"```text\n{''.join(data['text/plain']).rstrip()}\n```")
    parts.insert(
        1, f"[This page as a notebook]({notebook.name}){{ .md-button download }}"
    )
    return "\n\n".join(parts), pictures


def command_line() -> str:
    """Return one section per command: its own help."""
    parts = [
        "# Command line",
        "Exit status: 0 done; 1 refused or failed (a code, what happened, whether budget was spent, what to do); 2 usage.",
    ]
    for words in commands(typer.main.get_command(app)):
        shown = CliRunner().invoke(
            app,
            [*words, "--help"],
            env={"COLUMNS": "100", "TERM": "dumb"},
            prog_name="colonnade",
        )
        parts.append(
            f"## `colonnade {' '.join(words)}`\n\n```text\n{shown.output.strip()}\n```"
        )
    return "\n\n".join(parts)


def commands(group, prefix=()):
    """Yield the words of every command."""
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            yield from commands(command, (*prefix, name))
        elif not command.hidden:
            yield (*prefix, name)


def every_error() -> str:
    """Return one section per error code: what it means, and what to do."""
    intro = (
        "Every exception derives from `cn.ColonnadeError` and carries `code`, `spent` (what the failed call cost each "
        "ledger, or `None`) and `remedy`. The command line prints the same and exits with status 1. "
        "No message contains a value from a table."
    )
    parts = ["# Errors", intro]
    kinds = [
        kind
        for kind in (getattr(errors, name) for name in errors.__all__)
        if inspect.isclass(kind)
    ]
    kinds.append(
        NotFittedError
    )  # which knows scikit-learn, as the tree of errors does not
    for kind in sorted(kinds, key=lambda one: one.code):
        meaning = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0]
        parts.append(
            f"## `{kind.code}`\n\n`cn.{kind.__name__}`. {meaning}\n\n**What to do.** {kind.default_remedy}"
        )
    return "\n\n".join(parts)
