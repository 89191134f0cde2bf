//! The report: what came back, and what is missing.

use std::{collections::BTreeSet, fmt};

use crate::{
    findings::Findings,
    layout,
    plan::Node,
    shown::{shortened_path, visible},
};

/// What a call of the master came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spawned {
    pub(crate) node: Node,
    pub(crate) task: String,
    /// The sub-agent's last text, or what went wrong.
    pub(crate) result: Result<String, String>,
}

/// The report on all that the master's sub-agents came to. Every figure in it is one that a tool gave.
pub(crate) struct Report<'a>(&'a [Spawned]);

impl<'a> Report<'a> {
    pub(crate) fn new(spawned: &'a [Spawned]) -> Self {
        Self(spawned)
    }

    /// The nodes that failed, and their verb.
    fn missing(&self) -> String {
        let failed = self.0.iter().filter(|spawned| spawned.result.is_err());
        let nodes: BTreeSet<&str> = failed.map(|spawned| spawned.node.as_str()).collect();
        let verb = if nodes.len() == 1 { "is" } else { "are" };
        format!("{} {verb}", nodes.into_iter().collect::<Vec<_>>().join(" and "))
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Report")?;
        let mut written = Vec::new();
        for Spawned { node, task, result } in self.0 {
            match result.as_deref().map(|text| (text, Findings::parse(text))) {
                Ok((_, Some(findings))) => {
                    let of =
                        format!("{}, {}", shortened_path(&findings.filtered.file), findings.filtered.rows);
                    let table = layout::figures(&of, &findings.columns);
                    let left_out = findings.left_out.map(|columns| format!("\nnot numeric: {columns}"));
                    section(f, *node, &(table + &left_out.unwrap_or_default()))?;
                    written.push(findings.written);
                }
                Ok((text, None)) => section(f, *node, text)?,
                Err(reason) => {
                    section(f, *node, &format!("MISSING: {}\n{reason}", task.trim_end_matches('.')))?;
                }
            }
        }
        if !self.0.iter().any(|spawned| spawned.node == Node::N3) {
            section(f, Node::N3, &format!("MISSING: not run, because {} missing", self.missing()))?;
        }
        if !written.is_empty() {
            write!(f, "files: {}", written.join(", "))?;
        }
        Ok(())
    }
}

/// A node's id, and its text in a column of its own.
fn section(f: &mut fmt::Formatter<'_>, node: Node, text: &str) -> fmt::Result {
    for (index, line) in text.lines().enumerate() {
        let id = if index == 0 { node.as_str() } else { "" };
        writeln!(f, "{id:2}  {}", visible(line))?;
    }
    Ok(())
}
