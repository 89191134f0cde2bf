//! A progress bar per sub-agent, as an adapter of one's own: who works, how many tools it has used, how it ended.

use std::collections::HashMap;

use anabranch_adapters::Adapter;
use anabranch_proto::{Event, EventKind, SessionId};
use serde::Serialize;

/// What the progress bars' frontend is told.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Progress<'a> {
    /// A bar appears.
    Began { bar: &'a str, title: &'a str },
    /// A tool was used.
    Step { bar: &'a str, tools: u32 },
    /// The bar is full, or broken.
    Ended { bar: &'a str, outcome: &'a str },
}

/// Counts each child's tool calls.
#[derive(Debug, Default)]
pub struct ProgressBars {
    tools: HashMap<SessionId, u32>,
}

impl Adapter for ProgressBars {
    type Frame<'a> = Progress<'a>;

    fn event(&mut self, event: &Event, out: &mut dyn for<'a> FnMut(Progress<'a>)) {
        // A child is announced by its parent; all else it says itself.
        if let EventKind::SpawnSessionStart(spawn) = &event.kind {
            out(Progress::Began { bar: spawn.child_session_id.as_str(), title: &spawn.description });
        }
        let Some(child) = event.scope.child() else { return };
        let bar = child.child_session_id.as_str();
        match &event.kind {
            EventKind::ToolResultEnd(_) => {
                let tools = self.tools.entry(child.child_session_id.clone()).or_default();
                *tools += 1;
                out(Progress::Step { bar, tools: *tools });
            }
            EventKind::StreamComplete(complete) => {
                self.tools.remove(&child.child_session_id);
                out(Progress::Ended { bar, outcome: complete.outcome.as_str() });
            }
            _ => {}
        }
    }

    fn finish(&mut self, _out: &mut dyn for<'a> FnMut(Progress<'a>)) {}
}
