//! Tables of text.

use crate::{
    columns::ColumnFigures,
    figure::Figure,
    shown::{abridged, listed},
    tools::{Compared, Joined},
};

/// What stands where there is no figure.
const NONE: &str = "-";

/// Columns' figures as a table, below what they are of.
pub(crate) fn figures(of: &str, columns: &[ColumnFigures]) -> String {
    let head = [of, "count", "sum", "mean", "min", "max"].map(str::to_owned);
    let rows = columns.iter().map(|figures| {
        let ColumnFigures { column, count, sum, mean, min, max } = figures;
        [abridged(column), count.to_string(), shown(*sum), shown(*mean), shown(*min), shown(*max)]
    });
    table(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
}

/// The figures of a node whose parts were joined.
pub(crate) fn joined(joined: &Joined) -> String {
    figures(&format!("{}, {} parts joined", joined.node, joined.parts), &joined.columns)
}

/// Two nodes side by side.
pub(crate) fn comparison(compared: &Compared) -> String {
    let Compared { left, right, columns, only_left, only_right } = compared;
    let mut blocks = Vec::new();
    if columns.is_empty() {
        blocks.push(format!("{left} and {right} have no numeric column in common"));
    } else {
        let head = ["means compared", left, right, &format!("{right} - {left}")].map(str::to_owned);
        let rows = columns.iter().map(|column| {
            [
                abridged(&column.column),
                shown(column.left_mean),
                shown(column.right_mean),
                column.too_large.clone().unwrap_or_else(|| shown(column.difference)),
            ]
        });
        blocks.push(table(&std::iter::once(head).chain(rows).collect::<Vec<_>>()));
    }
    for (node, only) in [(left, only_left), (right, only_right)] {
        if !only.is_empty() {
            blocks
                .push(format!("numeric only in {node}: {}", listed(only.iter().map(|name| abridged(name)))));
        }
    }
    blocks.join("\n")
}

fn shown(figure: Option<Figure>) -> String {
    figure.map_or_else(|| NONE.to_owned(), |figure| figure.to_string())
}

/// What a cell lacks to fill its column. Not by the formatter, which panics above a width of 65,535.
fn gap(cell: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(cell.chars().count()))
}

/// Lines whose cells stand below each other: the first of each to the left, the others to the right.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width =
        |index: usize| rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..N).filter_map(width).collect();
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths).enumerate().map(|(index, (cell, width))| match index {
            0 => format!("{cell}{}", gap(cell, *width)),
            _ => format!("{}{cell}", gap(cell, *width)),
        });
        cells.collect::<Vec<_>>().join("  ")
    });
    lines.collect::<Vec<_>>().join("\n")
}
