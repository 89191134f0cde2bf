//! Which children are hidden.

use std::{fmt, sync::Arc};

use anabranch_proto::{
    ChildScope, Event, EventKind, Metadata, Scope, SessionId, SourceType, SpawnMechanism, SubagentId,
    event::SpawnSessionStart,
};
use foldhash::{HashMap, HashSet};

use super::Shown;

/// Says whether a child is hidden.
type Which = Arc<dyn Fn(&Candidate<'_>) -> bool + Send + Sync>;

/// A child that may be hidden, as its first spawn says; where that was not seen, as its first event does.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Candidate<'a> {
    /// The child's session.
    pub session: &'a SessionId,
    /// The session that spawned it.
    pub parent: &'a SessionId,
    /// The sub-agent as the application knows it, where that is said.
    pub subagent: Option<&'a SubagentId>,
    /// The name of the agent or team.
    pub name: &'a str,
    /// What runs in it.
    pub source_type: SourceType,
    /// What created it; not known where its spawn was not seen.
    pub mechanism: Option<SpawnMechanism>,
    /// How deep it lies, from 1.
    pub depth: u32,
    /// The event's metadata.
    pub metadata: &'a Metadata,
}

/// Which children are hidden.
#[derive(Clone, Default)]
pub(super) struct Children {
    which: Option<Which>,
    /// Each child that was met.
    known: HashMap<SessionId, Known>,
    /// The ids of those that are hidden, sessions' and sub-agents'.
    hidden: HashSet<String>,
}

/// What was decided of a child.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// For itself, whoever spawns it.
    own: Shown,
    /// In its present run, which somebody hidden may have begun.
    now: Shown,
}

impl Children {
    pub(super) fn hiding(which: Which) -> Self {
        Self { which: Some(which), ..Self::default() }
    }

    /// Whether an event is shown, as far as it is a child's or about one.
    pub(super) fn of(&mut self, event: &Event) -> Shown {
        let Some(which) = self.which.clone() else { return Shown::Yes };
        let speaker = match &event.scope {
            Scope::Root => Shown::Yes,
            Scope::Child(scope) => self.decided(&Candidate::of_scope(scope, &event.metadata), &which),
        };
        if let EventKind::SpawnSessionStart(spawn) = &event.kind {
            self.begins(&Candidate::of_spawn(spawn, &event.metadata), speaker, &which)
        } else if let EventKind::SessionUpdated(update) = &event.kind {
            // Of whom nobody has heard there is nothing to update, and nobody can say whether it is hidden.
            let child = self.known.get(&update.child_session_id).map_or(Shown::No, |known| known.now);
            if speaker == Shown::Yes { child } else { Shown::No }
        } else {
            speaker
        }
    }

    /// Whether a text is the id of a hidden child.
    pub(super) fn hides_id(&self, text: &str) -> bool {
        self.hidden.contains(text)
    }

    pub(super) fn hides_some(&self) -> bool {
        !self.hidden.is_empty()
    }

    /// Whether a child is shown that speaks.
    fn decided(&mut self, child: &Candidate<'_>, which: &Which) -> Shown {
        match self.known.get(child.session) {
            Some(known) => known.now,
            None => self.begins(child, Shown::Yes, which),
        }
    }

    /// Whether a child is shown that `speaker` spawns, perhaps again.
    fn begins(&mut self, child: &Candidate<'_>, speaker: Shown, which: &Which) -> Shown {
        let known = self.known.get(child.session).map(|known| known.own);
        let own = known.unwrap_or_else(|| if which(child) { Shown::No } else { Shown::Yes });
        let above = self.known.get(child.parent).map_or(Shown::Yes, |above| above.now);
        let is_shown = [own, speaker, above].iter().all(|shown| *shown == Shown::Yes);
        let now = if is_shown { Shown::Yes } else { Shown::No };
        self.known.insert(child.session.clone(), Known { own, now });
        if now == Shown::No {
            self.hidden.insert(child.session.to_string());
            self.hidden.extend(child.subagent.map(ToString::to_string));
        }
        now
    }
}

impl<'a> Candidate<'a> {
    fn of_spawn(spawn: &'a SpawnSessionStart, metadata: &'a Metadata) -> Self {
        Self {
            session: &spawn.child_session_id,
            parent: &spawn.parent_session_id,
            subagent: spawn.subagent_id.as_ref(),
            name: &spawn.source_name,
            source_type: spawn.source_type,
            mechanism: Some(spawn.spawn_mechanism),
            depth: spawn.depth,
            metadata,
        }
    }

    fn of_scope(scope: &'a ChildScope, metadata: &'a Metadata) -> Self {
        Self {
            session: &scope.child_session_id,
            parent: &scope.parent_session_id,
            subagent: Some(&scope.subagent_id),
            name: &scope.source_name,
            source_type: scope.source_type,
            mechanism: None,
            depth: scope.depth,
            metadata,
        }
    }
}

impl fmt::Debug for Children {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Children").field("known", &self.known).finish_non_exhaustive()
    }
}
