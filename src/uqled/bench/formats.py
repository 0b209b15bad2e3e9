"""Tables as Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Iterable

from uqled.bench.tables import Cell, Table


def markdown(table: Table) -> str:
    """One Markdown table per data set under its heading."""
    lines = [f"## {table.title}", "", table.caption, ""]
    heads = ["", *(f"{group}, {name}" for group, names in table.groups for name in names)]
    for block in table.blocks:
        lines += [f"### {_plain(block.title)}", "", *([block.note, ""] if block.note else [])]
        lines += [_md_row(heads), _md_row(["---", *["---:"] * (len(heads) - 1)])]
        lines += [_md_row([_plain(row.name), *map(_md_cell, row.cells)]) for row in block.rows]
        lines.append("")
    return "\n".join(lines if table.blocks else [*lines, "Nothing is finished yet.", ""])


def latex(table: Table) -> str:
    """A table for a paper; needs the package booktabs."""
    width = 1 + sum(len(names) for _, names in table.groups)
    layout = "l" + "".join("|" + "c" * len(names) for _, names in table.groups)
    groups = [
        rf"\multicolumn{{{len(names)}}}{{c}}{{{_tex(group)}}}" for group, names in table.groups
    ]
    lines = [
        "% needs \\usepackage{booktabs,graphicx}",
        r"\begin{table}[ht]",
        rf"\caption{{{_tex(table.title)}. {_tex(table.caption)}}}",
        rf"\label{{tab:{table.label}}}",
        r"\centering",
        r"\resizebox{\textwidth}{!}{%",
        rf"\begin{{tabular}}{{{layout}}}",
        r"\toprule",
        " & ".join(["", *groups]) + r" \\",
        " & ".join([_tex(table.corner), *(_tex(n) for _, names in table.groups for n in names)])
        + r" \\",
    ]
    for block in table.blocks:
        title = rf"\textbf{{{_tex(block.title)}}}" + (
            f" ({_tex(block.note)})" if block.note else ""
        )
        lines += [r"\midrule", rf"\multicolumn{{{width}}}{{c}}{{{title}}} \\", r"\midrule"]
        lines += [
            " & ".join([_tex(row.name), *map(_tex_cell, row.cells)]) + r" \\" for row in block.rows
        ]
    lines += [r"\bottomrule", r"\end{tabular}%", "}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _md_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _md_cell(cell: Cell) -> str:
    around = {"best": "**", "top": "*", "": ""}[cell.mark]
    return f"{around}{cell.text}{around}"


def _plain(text: str) -> str:
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
}


def _tex(text: str) -> str:
    return "".join(_TEX.get(c, c) for c in text)
