//! The status line.

use anabranch_proto::Outcome;

use super::Look;
use crate::{
    shown::shortened,
    summary::{Child, Summary},
};

/// Who runs and what they do, on one line. It begins with room for the `^C` that a terminal shows.
pub(super) fn status(summary: &Summary, look: Look) -> String {
    let children =
        summary.children().iter().enumerate().map(|(place, child)| look.coloured(place, &doing(child)));
    let running = summary.children().iter().filter(|child| child.outcome.is_none()).count();
    let who = match summary.children().len() {
        0 => "the master thinks".to_owned(),
        all => format!("{running} of {all} running"),
    };
    let counts = format!("   {who}, {} events", summary.events());
    let parts: Vec<String> = std::iter::once(look.dim(&counts)).chain(children).collect();
    parts.join(&look.dim(" | "))
}

fn doing(child: &Child) -> String {
    let name = &child.label;
    match (child.outcome, child.tool.as_deref().map(shortened)) {
        (Some(Outcome::Completed), _) => format!("{name} ✓"),
        (Some(_), _) => format!("{name} ✗"),
        (None, Some(tool)) if child.rows > 0 => format!("{name} {tool} {} rows", child.rows),
        (None, Some(tool)) => format!("{name} {tool}"),
        (None, None) => format!("{name} thinks"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_there_is_a_sub_agent_the_master_works() {
        assert_eq!(status(&Summary::default(), Look::Plain), "   the master thinks, 0 events");
    }
}
