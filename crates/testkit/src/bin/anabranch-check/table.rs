//! What came, as a table.

use std::fmt::Write as _;

use anabranch_proto::EventKind;

use crate::check::Checked;

/// How many of each kind, and of what they make.
pub(crate) fn of(checked: &Checked) -> String {
    let names = EventKind::TAGS.iter().copied().chain(["(other kinds)"]);
    let rows: Vec<_> = names.zip(&checked.kinds).filter(|(_, count)| **count > 0).collect();
    let name_width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let count_width = rows.iter().map(|(_, count)| count.to_string().len()).max().unwrap_or_default();
    let mut table = String::new();
    for (name, count) in rows {
        let _ = writeln!(table, "{name:name_width$}  {count:>count_width$}");
    }
    let counts = &checked.counts;
    let _ = writeln!(
        table,
        "events: {}, sessions: {}, runs: {}, replies: {}, model calls: {}, blocks: {}, tool calls: {}, depth: {}",
        counts.events,
        counts.sessions,
        counts.runs,
        counts.replies,
        counts.model_calls,
        counts.blocks,
        counts.tool_calls,
        counts.deepest,
    );
    table
}
