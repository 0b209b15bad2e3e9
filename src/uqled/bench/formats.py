"""Tables as Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Iterable

from uqled.bench.tables import Block, Cell, Table

_ROWS_PER_PAGE = 44  # of LaTeX, with a caption above


def markdown(table: Table) -> str:
    """One Markdown table per data set under its heading."""
    lines = [f"## {table.title}", "", table.caption, ""]
    heads = ["", *(f"{group}, {name}" for group, names in table.groups for name in names)]
    for block in table.blocks:
        lines += [f"### {plain(block.title)}", "", *([block.note, ""] if block.note else [])]
        lines += [md_row(heads), md_row(["---", *["---:"] * (len(heads) - 1)])]
        lines += [md_row([plain(row.name), *map(md_cell, row.cells)]) for row in block.rows]
        lines.append("")
    return "\n".join(lines if table.blocks else [*lines, "Nothing is finished yet.", ""])


def latex(table: Table) -> str:
    """A table for a paper, in as many parts as pages need; wants booktabs and graphicx."""
    parts = _pages(table.blocks)
    return "".join(_latex_part(table, blocks, i) for i, blocks in enumerate(parts))


def _pages(blocks: Iterable[Block]) -> list[list[Block]]:
    """Blocks in groups that fit a page; at least one group."""
    found: list[list[Block]] = [[]]
    for block in blocks:
        rows = sum(len(one.rows) + 2 for one in (*found[-1], block))
        if found[-1] and rows > _ROWS_PER_PAGE:
            found.append([])
        found[-1].append(block)
    return found


def _latex_part(table: Table, blocks: list[Block], part: int) -> str:
    width = 1 + sum(len(names) for _, names in table.groups)
    layout = "l" + "".join("c" * len(names) for _, names in table.groups)
    heads, rules, place = [], [], 2
    for group, names in table.groups:
        heads.append(rf"\multicolumn{{{len(names)}}}{{c}}{{{_tex(group)}}}")
        rules.append(rf"\cmidrule(lr){{{place}-{place + len(names) - 1}}}")
        place += len(names)
    caption = f"{_tex(table.title)}. {_tex(table.caption)}"
    lines = [
        "% needs \\usepackage{booktabs,graphicx}",
        r"\begin{table}[ht]",
        rf"\caption{{{caption if not part else _tex(table.title) + ', continued.'}}}",
        rf"\label{{tab:{table.label}{f'-{part + 1}' if part else ''}}}",
        r"\centering",
        r"\resizebox{\textwidth}{!}{%",
        rf"\begin{{tabular}}{{{layout}}}",
        r"\toprule",
        " & ".join(["", *heads]) + r" \\",
        " ".join(rules),
        " & ".join([_tex(table.corner), *(_tex(n) for _, names in table.groups for n in names)])
        + r" \\",
    ]
    for block in blocks:
        lines += [r"\midrule", *_title_rows(block, width), r"\midrule"]
        lines += [
            " & ".join([_tex(row.name), *map(_tex_cell, row.cells)]) + r" \\" for row in block.rows
        ]
    lines += [r"\bottomrule", r"\end{tabular}%", "}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _title_rows(block: Block, width: int) -> list[str]:
    """Title and note, in boxes without a width: a long one must not stretch the last column."""
    note, _, warning = block.note.partition(". ")
    lines = [rf"\textbf{{{_tex(block.title)}}}" + (f" ({_tex(note)})" if note else "")]
    lines += [_tex(warning)] if warning else []
    return [rf"\multicolumn{{{width}}}{{c}}{{\makebox[0pt]{{{one}}}}} \\" for one in lines]


def md_row(cells: Iterable[str]) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def md_cell(cell: Cell) -> str:
    """A cell of one: bold if it is the best, italic if it is only the highest."""
    around = {"best": "**", "top": "*", "": ""}[cell.mark]
    return f"{around}{cell.text}{around}"


def plain(text: str) -> str:
    """A name that is no markup: a bar would end the cell."""
    return "".join("\\" + c if c in "\\|*_`[]<>" else c for c in text)


def _tex_cell(cell: Cell) -> str:
    text = _tex(cell.text)
    command = {"best": "textbf", "top": "textit"}.get(cell.mark)
    return rf"\{command}{{{text}}}" if command else text


_TEX = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "\N{MINUS SIGN}": "$-$",
    "\N{EN DASH}": "--",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{c: "\\" + c for c in "&%$#_{}"},
    **{c: f"${c}$" for c in "<>|"},  # the usual fonts have other signs in their places
}


def _tex(text: str) -> str:
    return "".join(_TEX.get(c, c) for c in text)
