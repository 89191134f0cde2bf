//! The status line.

use anabranch_proto::Outcome;

use super::Look;
use crate::{
    one_line::one_line,
    summary::{Child, Summary},
};

/// Who runs and what they do, on one line.
pub(super) fn status(summary: &Summary, look: Look) -> String {
    let children =
        summary.children().iter().enumerate().map(|(place, child)| look.coloured(place, &doing(child)));
    let running = summary.children().iter().filter(|child| child.outcome.is_none()).count();
    let counts = format!("{running} of {} running, {} events", summary.children().len(), summary.events());
    let parts: Vec<String> = std::iter::once(look.dim(&counts)).chain(children).collect();
    parts.join(&look.dim(" | "))
}

fn doing(child: &Child) -> String {
    let name = one_line(&child.name);
    match (child.outcome, &child.tool) {
        (Some(Outcome::Completed), _) => format!("{name} ✓"),
        (Some(_), _) => format!("{name} ✗"),
        (None, Some(tool)) if child.rows > 0 => format!("{name} {tool} {} rows", child.rows),
        (None, Some(tool)) => format!("{name} {tool}"),
        (None, None) => format!("{name} thinks"),
    }
}
