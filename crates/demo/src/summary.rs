//! Who runs, what they do, and what they came to.

use std::fmt;

use anabranch_proto::{Event, EventKind, Outcome, Scope, SessionId};

use crate::{
    shown::shortened,
    tools::{PROGRESS, Progress},
};

/// What a run came to so far, by its events alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Summary {
    children: Vec<Child>,
    root: Option<Outcome>,
    tool_calls: u64,
    events: u64,
}

/// A sub-agent.
#[derive(Clone, Debug)]
pub(crate) struct Child {
    session: SessionId,
    /// What it is called on its lines: `n2`, a second one `n2·2`, a child of its own `n2/aggregate`.
    pub(crate) label: String,
    /// The tool that works for it.
    pub(crate) tool: Option<String>,
    /// How many rows the tool has read.
    pub(crate) rows: u64,
    pub(crate) outcome: Option<Outcome>,
}

impl Summary {
    pub(crate) fn observe(&mut self, event: &Event) {
        self.events += 1;
        if let EventKind::SpawnSessionStart(spawn) = &event.kind {
            self.children.push(Child {
                session: spawn.child_session_id.clone(),
                label: self.label(&spawn.parent_session_id, &spawn.source_name),
                tool: None,
                rows: 0,
                outcome: None,
            });
        }
        let is_call = matches!(event.kind, EventKind::ToolCallStart(_));
        self.tool_calls += u64::from(is_call);
        let Scope::Child(scope) = &event.scope else {
            if let EventKind::StreamComplete(complete) = &event.kind {
                self.root = Some(complete.outcome);
            }
            return;
        };
        let Some(child) =
            self.children.iter_mut().rev().find(|child| child.session == scope.child_session_id)
        else {
            return;
        };
        if let EventKind::ToolCallStart(call) = &event.kind {
            (child.tool, child.rows) = (Some(call.tool_call_name.to_string()), 0);
        } else if let EventKind::ToolResultEnd(_) = &event.kind {
            child.tool = None;
        } else if let EventKind::Custom(custom) = &event.kind {
            if let (PROGRESS, Ok(progress)) = (&*custom.name, custom.value.to::<Progress>()) {
                child.rows = progress.rows;
            }
        } else if let EventKind::StreamComplete(complete) = &event.kind {
            (child.tool, child.outcome) = (None, Some(complete.outcome));
        }
    }

    /// All sub-agents, in the order of their spawns.
    pub(crate) fn children(&self) -> &[Child] {
        &self.children
    }

    /// Which sub-agent a session is, by its place in [`children`](Self::children).
    pub(crate) fn place(&self, session: &SessionId) -> Option<usize> {
        self.children.iter().position(|child| child.session == *session)
    }

    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// How the run ended, once it has.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.root
    }

    /// A label as the text adapter gives it.
    fn label(&self, parent: &SessionId, name: &str) -> String {
        let name = shortened(name);
        let parent = self.children.iter().find(|child| child.session == *parent);
        let wanted = parent.map_or_else(|| name.clone(), |parent| format!("{}/{name}", parent.label));
        let numbered = (2..).map(|count| format!("{wanted}·{count}"));
        let is_free = |label: &String| self.children.iter().all(|child| child.label != *label);
        std::iter::once(wanted.clone()).chain(numbered).find(is_free).unwrap_or_default()
    }

    /// Whether every agent did its work.
    pub(crate) fn is_success(&self) -> bool {
        let children = self.children.iter().map(|child| child.outcome);
        children.chain([self.root]).all(|outcome| outcome == Some(Outcome::Completed))
    }
}

impl fmt::Display for Summary {
    /// `3 sub-agents, 1 failed, 12 tool calls, 345 events`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", count(self.children.len() as u64, "sub-agent"))?;
        let mut outcomes: Vec<Outcome> = self.children.iter().filter_map(|child| child.outcome).collect();
        outcomes.retain(|outcome| *outcome != Outcome::Completed);
        while let Some(outcome) = outcomes.first().copied() {
            let all = outcomes.len();
            outcomes.retain(|other| *other != outcome);
            write!(f, ", {} {}", all - outcomes.len(), outcome.as_str().replace('_', " "))?;
        }
        write!(f, ", {}, {}", count(self.tool_calls, "tool call"), count(self.events, "event"))
    }
}

fn count(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use anabranch_adapters::{Encode as _, encode::Plain, text::Text};
    use anabranch_runtime::Read;
    use futures::StreamExt as _;

    use super::*;
    use crate::plan::{Node, Plan};

    #[tokio::test]
    async fn a_sub_agent_is_called_as_on_its_lines() {
        let mut run = Plan::new().nested().fan(Node::N2).start().await.unwrap();
        let (mut summary, mut text, mut shown) = (Summary::default(), Plain::new(Text::new()), Vec::new());
        while let Some(read) = run.reply.next().await {
            let Read::Event(admitted) = read else { panic!("events were lost: {read:?}") };
            summary.observe(&admitted.event);
            text.event(Some(admitted.seq), &admitted.event, &mut shown).unwrap();
        }
        run.session.close().await;
        std::fs::remove_dir_all(&run.folder).unwrap();
        let labels: Vec<&str> = summary.children().iter().map(|child| &*child.label).collect();
        assert_eq!(labels, ["n1", "n2", "n2·2", "n1/aggregate", "n3"]);
        let shown = String::from_utf8(shown).unwrap();
        let of_lines = shown.lines().filter_map(|line| line.split_once(" │").map(|(label, _)| label));
        assert_eq!(of_lines.collect::<BTreeSet<_>>(), labels.into_iter().collect());
    }
}
