//! A child with its ids, its announcement and what it inherits.

use std::sync::Arc;

use anabranch_pipeline::ToolStream;
use anabranch_proto::{
    ChildScope, Event, Message, Metadata, Scope, SpawnMechanism,
    event::{MessageOrigin, SpawnSessionStart},
};

use super::{
    Spawn,
    child::{Birth, Child},
    spawn::Keep,
};
use crate::{
    Agent, Prompt,
    elsewhere::{Remote, Template},
    run::{AgentRun, Manner, RunControl, RunIdentity},
};

/// How much of a prompt the announcement shows, in characters (RFC-0014).
const PROMPT_SHOWN: usize = 200;

/// A child that has everything but its work.
pub(crate) struct Newborn {
    pub(crate) birth: Birth,
    pub(crate) identity: RunIdentity,
    pub(crate) source_name: Arc<str>,
    pub(crate) prompt: Prompt,
    pub(crate) history: Vec<Message>,
}

impl Newborn {
    /// The child, with the run of its template as its work.
    pub(super) fn work(self, template: &Template) -> ToolStream {
        match template {
            Template::Agent(agent) => {
                let Self { birth, identity, source_name, prompt, history } = self;
                Box::pin(Child::new(
                    birth,
                    AgentRun::new(agent.clone(), source_name, identity, history, prompt),
                ))
            }
            Template::Elsewhere(elsewhere) => {
                let (birth, work) = Remote::new(self, elsewhere.clone());
                Box::pin(Child::new(birth, work))
            }
        }
    }
}

impl Spawn {
    /// The child with its ids, and its announcement made.
    pub(super) fn born(self, agent: Option<&Agent>) -> Newborn {
        let scope = self.scope();
        let control = self.host.identity.control.child(scope.child_session_id.clone());
        let announcement = self.announcement(&scope, None);
        let mut newborn = self.born_as(scope, control, agent);
        newborn.birth.announcement = Some(announcement);
        newborn
    }

    /// The child with these ids; its announcement is somebody else's.
    pub(super) fn born_as(
        self,
        scope: Arc<ChildScope>,
        control: Arc<RunControl>,
        agent: Option<&Agent>,
    ) -> Newborn {
        let shared = Arc::clone(&self.host.identity.shared);
        let agent = agent.map(Agent::inner);
        let metadata = self.child_metadata(&scope, agent.map(|agent| &agent.metadata));
        let own = agent.and_then(|agent| agent.permissions.as_ref());
        let permissions = self.host.identity.permissions.iter().chain(own).cloned().collect();
        let open = shared.runs.open(&control);
        let identity = RunIdentity {
            session_id: scope.child_session_id.clone(),
            scope: Scope::Child(Arc::clone(&scope)),
            metadata,
            control: Arc::clone(&control),
            permissions,
            attempt: self.attempt,
            kept: (self.keep == Keep::Kept).then(|| Arc::new(self.manner())),
            shared,
        };
        let footer = self.names_itself().then(|| {
            format!(
                "\n\n(To go on with this sub-agent, call `resume_subagent` with its id `{}`.)",
                scope.subagent_id
            )
        });
        let Self { keys, place, slot, timeout, loan, .. } = self;
        if let Some(loan) = loan {
            loan.spend();
        }
        let birth = Birth {
            announcement: None,
            scope,
            keys,
            place,
            slot,
            timeout,
            control,
            open,
            shared: Arc::clone(&identity.shared),
            footer,
            report: None,
        };
        let prompt = self.prompt.origin(MessageOrigin::Parent);
        Newborn { birth, identity, source_name: self.source_name, prompt, history: self.history }
    }

    /// Whether the caller's model is told the child's id: where it waits for the child and can go on with it later.
    fn names_itself(&self) -> bool {
        self.keep == Keep::Kept && self.mechanism == SpawnMechanism::Sync && self.tool_call_id.is_some()
    }

    fn manner(&self) -> Manner {
        Manner { description: self.description.clone(), keys: self.keys.clone(), timeout: self.timeout }
    }

    pub(super) fn scope(&self) -> Arc<ChildScope> {
        let RunIdentity { session_id, shared, .. } = &self.host.identity;
        let (child_session_id, subagent_id, run) = self.session.clone().unwrap_or_else(|| {
            let (child_session_id, subagent_id) = shared.stamp.session_ids();
            (child_session_id, subagent_id, 1)
        });
        let scope = ChildScope::new(child_session_id, session_id, subagent_id, Arc::clone(&self.source_name))
            .run(run)
            .tool_call_id(self.tool_call_id.clone())
            .source_type(self.source_type)
            .depth(self.host.child_depth());
        Arc::new(scope)
    }

    /// What it will do, for people (RFC-0014).
    pub(super) fn described(&self, task: Option<&str>) -> String {
        let default = || match task {
            Some(task) => format!("Run {} task (async: {task})", self.source_name),
            None => format!("Run {} task", self.source_name),
        };
        self.description.clone().unwrap_or_else(default)
    }

    /// The event that announces the child, in the caller's scope.
    pub(super) fn announcement(&self, scope: &ChildScope, task: Option<&str>) -> Arc<Event> {
        let identity = &self.host.identity;
        let mut metadata =
            Metadata::default().with_json("prompt", shown(&self.prompt.text()).as_str().into());
        if let Some(task) = task {
            metadata = metadata.with("task_id", task);
        }
        if let Some(message) = &self.host.user_message_id {
            metadata = metadata.with_json("user_message_id", message.as_str().into());
        }
        let metadata = metadata
            .with("max_depth", identity.shared.limits.max_depth)
            .merged(&identity.metadata)
            .merged(&self.keys);
        let spawn = SpawnSessionStart::new(scope, self.mechanism, self.described(task));
        Arc::new(Event::stamped(&*identity.shared.stamp, identity.scope.clone(), metadata, spawn))
    }

    /// What is on each of the child's events: whose it is, what it inherits, its agent's own keys above that, and the
    /// caller's above all.
    fn child_metadata(&self, scope: &ChildScope, agent: Option<&Metadata>) -> Metadata {
        let inherited = Metadata::default()
            .with_json("subagent_id", scope.subagent_id.as_str().into())
            .merged(&self.host.inherited());
        match agent {
            Some(agent) => inherited.merged(agent).merged(&self.keys),
            None => inherited.merged(&self.keys),
        }
    }
}

/// The beginning of a prompt, with `...` where it was cut.
fn shown(prompt: &str) -> String {
    match prompt.char_indices().nth(PROMPT_SHOWN) {
        Some((end, _)) => format!("{}...", prompt.get(..end).unwrap_or_default()),
        None => prompt.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_cut_on_a_character_boundary_and_only_when_longer() {
        let exact = "ü".repeat(200);
        assert_eq!(shown(&exact), exact);
        assert_eq!(shown(&format!("{exact}x")), format!("{exact}..."));
        assert_eq!(shown(""), "");
    }
}
