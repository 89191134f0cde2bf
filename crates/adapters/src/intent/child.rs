//! Who speaks.

use std::sync::Arc;

use anabranch_proto::{
    ChildScope, SessionId, SourceType, SpawnMechanism,
    event::{SessionUpdated, SpawnSessionStart},
};

/// One run of a child session, as it is known so far.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Child {
    /// The child's session.
    pub session: SessionId,
    /// Which run of that session, from 1.
    pub run: u32,
    /// The session that spawned it.
    pub parent: SessionId,
    /// The card's id: `spawn:<child>`, from the second run on `spawn:<child>#<run>`.
    pub card: Arc<str>,
    /// The id of a second card, for adapters that show a background child's result apart: `spawn:<child>/result`.
    pub result: Arc<str>,
    /// The name of the agent or team.
    pub name: Arc<str>,
    /// What it is to do, for people.
    pub description: Arc<str>,
    /// What created it.
    pub mechanism: SpawnMechanism,
    /// What runs in it.
    pub source_type: SourceType,
    /// How deep it lies, from 1.
    pub depth: u32,
    /// The card of the parent's call that spawned it, where one did and was seen.
    pub call: Option<Arc<str>>,
}

impl Child {
    pub(super) fn learn(&mut self, update: &SessionUpdated, call: Option<Arc<str>>) {
        if let Some(name) = &update.source_name {
            self.name = Arc::clone(name);
        }
        if let Some(description) = &update.description {
            self.description = description.as_str().into();
        }
        self.mechanism = update.spawn_mechanism.unwrap_or(self.mechanism);
        self.source_type = update.source_type.unwrap_or(self.source_type);
        self.call = self.call.take().or(call);
    }
}

/// The spawn that nobody saw, as far as a scope says what was in it.
pub(crate) fn met(scope: &ChildScope) -> SpawnSessionStart {
    SpawnSessionStart::new(scope, SpawnMechanism::Manual, format!("Run {} task", scope.source_name))
}

/// What a spawn says of a run that was met before.
pub(crate) fn learnt(spawn: &SpawnSessionStart, run: u32) -> SessionUpdated {
    SessionUpdated::new(&spawn.child_session_id, run)
        .source_name(Some(Arc::clone(&spawn.source_name)))
        .source_type(Some(spawn.source_type))
        .description(Some(spawn.description.clone()))
        .spawn_mechanism(Some(spawn.spawn_mechanism))
        .tool_call_id(spawn.tool_call_id.clone())
}

/// Whose text, call or event it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "an event is the root's or a child's; there is no third")]
pub enum Speaker<'a> {
    /// The root agent's.
    Root,
    /// A child's.
    Child(&'a Child),
}

impl<'a> Speaker<'a> {
    /// The child, where it is one.
    #[must_use]
    pub fn child(self) -> Option<&'a Child> {
        match self {
            Self::Root => None,
            Self::Child(child) => Some(child),
        }
    }

    /// The id of the child's card; empty for the root, which has none.
    #[must_use]
    pub fn card(self) -> &'a str {
        self.child().map_or("", |child| &child.card)
    }

    /// How deep the speaker lies: 0 for the root.
    #[must_use]
    pub fn depth(self) -> u32 {
        self.child().map_or(0, |child| child.depth)
    }
}
