"""Tables as Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Iterable

from uqled.bench.results.tables import Block, ResultTable, TableCell

_ROWS_PER_PAGE = 44  # of LaTeX, with a caption above


def format_markdown(table: ResultTable) -> str:
    """One Markdown table per data set under its heading."""
    lines = [f"## {table.title}", "", table.caption, ""]
    heads = ["", *(f"{group}, {name}" for group, names in table.groups for name in names)]
    for block in table.blocks:
        lines += [
            f"### {escape_markdown(block.title)}",
            "",
            *([block.note, ""] if block.note else []),
        ]
        lines += [
            format_markdown_row(heads),
            format_markdown_row(["---", *["---:"] * (len(heads) - 1)]),
        ]
        lines += [
            format_markdown_row([escape_markdown(row.name), *map(format_markdown_cell, row.cells)])
            for row in block.rows
        ]
        lines.append("")
    return "\n".join(lines if table.blocks else [*lines, "Nothing is finished yet.", ""])


def format_latex(table: ResultTable) -> str:
    """A table for a paper, in as many parts as pages need; wants booktabs and graphicx."""
    parts = _split_pages(table.blocks)
    return "".join(_format_latex_part(table, blocks, i) for i, blocks in enumerate(parts))


def _split_pages(blocks: Iterable[Block]) -> list[list[Block]]:
    """Blocks in groups that fit a page; at least one group."""
    pages: list[list[Block]] = [[]]
    for block in blocks:
        rows = sum(len(one.rows) + 2 for one in (*pages[-1], block))
        if pages[-1] and rows > _ROWS_PER_PAGE:
            pages.append([])
        pages[-1].append(block)
    return pages


def _format_latex_part(table: ResultTable, blocks: list[Block], part: int) -> str:
    width = 1 + sum(len(names) for _, names in table.groups)
    layout = "l" + "".join("c" * len(names) for _, names in table.groups)
    heads, rules, place = [], [], 2
    for group, names in table.groups:
        heads.append(rf"\multicolumn{{{len(names)}}}{{c}}{{{_escape_latex(group)}}}")
        rules.append(rf"\cmidrule(lr){{{place}-{place + len(names) - 1}}}")
        place += len(names)
    caption = f"{_escape_latex(table.title)}. {_escape_latex(table.caption)}"
    lines = [
        "% needs \\usepackage{booktabs,graphicx}",
        r"\begin{table}[ht]",
        rf"\caption{{{caption if not part else _escape_latex(table.title) + ', continued.'}}}",
        rf"\label{{tab:{table.label}{f'-{part + 1}' if part else ''}}}",
        r"\centering",
        r"\resizebox{\textwidth}{!}{%",
        rf"\begin{{tabular}}{{{layout}}}",
        r"\toprule",
        " & ".join(["", *heads]) + r" \\",
        " ".join(rules),
        " & ".join(
            [
                _escape_latex(table.corner),
                *(_escape_latex(n) for _, names in table.groups for n in names),
            ]
        )
        + r" \\",
    ]
    for block in blocks:
        lines += [r"\midrule", *_format_title_rows(block, width), r"\midrule"]
        lines += [
            " & ".join([_escape_latex(row.name), *map(_format_latex_cell, row.cells)]) + r" \\"
            for row in block.rows
        ]
    lines += [r"\bottomrule", r"\end{tabular}%", "}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _format_title_rows(block: Block, width: int) -> list[str]:
    """Title and note, in boxes without a width: a long one must not stretch the last column."""
    note, _, warning = block.note.partition(". ")
    lines = [
        rf"\textbf{{{_escape_latex(block.title)}}}" + (f" ({_escape_latex(note)})" if note else "")
    ]
    lines += [_escape_latex(warning)] if warning else []
    return [rf"\multicolumn{{{width}}}{{c}}{{\makebox[0pt]{{{one}}}}} \\" for one in lines]


def format_markdown_row(cells: Iterable[str]) -> str:
    """A row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def format_markdown_cell(cell: TableCell) -> str:
    """A cell of one: bold if it is the best, italic if it is only the highest."""
    around = {"best": "**", "top": "*", "": ""}[cell.mark]
    return f"{around}{cell.text}{around}"


def escape_markdown(text: str) -> str:
    """A name that is no markup: a bar would end the cell."""
    escaped_text = "".join("\\" + c if c in "\\|*_`[]>" else c for c in text)
    return escaped_text.replace("<", "&lt;")  # not every renderer knows \\<


def _format_latex_cell(cell: TableCell) -> str:
    text = _escape_latex(cell.text)
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


def _escape_latex(text: str) -> str:
    return "".join(_TEX.get(c, c) for c in text)
