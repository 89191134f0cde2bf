//! Who is whose child, and which run each session is in.

use std::collections::{BTreeSet, HashMap};

use super::{
    Rule,
    error::Step,
    reply::Reply,
    run::{Progress, Run},
};
use crate::{
    ChildScope, Scope, SessionId, SpawnMechanism, SubagentId, ToolCallId,
    event::{SessionUpdated, SpawnSessionStart},
};

pub(super) const ROOT: usize = 0;

/// The sessions of a stream, ended ones included.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    sessions: Vec<Session>,
    index: HashMap<SessionId, usize>,
    /// The open children by the id that clients route by.
    subagents: HashMap<SubagentId, usize>,
}

/// A session. What is open in it is in its run, so an ended one costs little.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    /// None for the root until a spawn or a reply says it.
    id: Option<SessionId>,
    parent: usize,
    depth: u32,
    /// None where the spawn did not say it, until the run's first event does.
    subagent_id: Option<SubagentId>,
    tie: Tie,
    /// Whether its run began while its parent had none.
    is_between: bool,
    /// The call of its parent that it waits with its result for this one.
    call: Option<ToolCallId>,
    /// How many runs it has had; the number of the last one.
    pub(super) runs: u32,
    pub(super) run: Option<Box<Run>>,
    /// Its open children that must end before it does.
    awaited: BTreeSet<usize>,
}

/// How a child's end is bound to its parent's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Tie {
    /// A call of the parent waits for it.
    Call,
    /// The parent does.
    #[default]
    Parent,
    /// Nobody does before the stream ends.
    Background,
    /// It was not announced, so that nobody knows who its parent is.
    Unknown,
}

impl Tree {
    pub(super) fn new() -> Self {
        Self { sessions: vec![Session::default()], index: HashMap::new(), subagents: HashMap::new() }
    }

    pub(super) fn session_mut(&mut self, session: usize) -> Option<&mut Session> {
        self.sessions.get_mut(session)
    }

    pub(super) fn root_is_open(&self) -> bool {
        self.sessions.get(ROOT).is_some_and(|root| root.run.is_some())
    }

    /// How many things are open in all sessions.
    pub(super) fn open(&self) -> usize {
        self.sessions.iter().filter_map(|session| session.run.as_ref()).map(|run| run.open()).sum()
    }

    /// The sessions with an open run, the root first, then in the order in which they came.
    pub(super) fn running(&self) -> impl Iterator<Item = (Option<&SessionId>, u32, &Run)> {
        self.sessions.iter().enumerate().filter_map(|(at, session)| {
            let id = session.id.as_ref().filter(|_| at != ROOT);
            Some((id, session.runs, session.run.as_deref()?))
        })
    }

    /// The session that a scope names.
    pub(super) fn find(&self, scope: &Scope) -> Option<usize> {
        match scope {
            Scope::Root => Some(ROOT),
            Scope::Child(child) => self.index.get(&child.child_session_id).copied(),
        }
    }

    /// That a child's event comes in an open run and says of it what its spawn did.
    pub(super) fn fits(&mut self, session: usize, scope: &ChildScope, runs: Runs) -> Step {
        let id = &scope.child_session_id;
        Rule::SessionUnique.demand(session != ROOT, || format!("another id than the root's `{id}`"))?;
        let Some(known) = self.sessions.get(session) else { return Ok(()) };
        if runs == Runs::Counted {
            Rule::Announced.demand((1..=known.runs).contains(&scope.run), || {
                format!("a spawn of run {} of `{id}` before it", scope.run)
            })?;
            Rule::AfterTerminal.demand(scope.run == known.runs && known.run.is_some(), || {
                format!("nothing more of run {} of `{id}`, which has ended", scope.run)
            })?;
        }
        let parent = self.sessions.get(known.parent).filter(|_| known.tie != Tie::Unknown);
        let parent = parent.and_then(|parent| parent.id.as_ref());
        Rule::ScopeAsAnnounced.demand(parent.is_none_or(|id| *id == scope.parent_session_id), || {
            format!("the parent `{}`", parent.map_or("root", SessionId::as_str))
        })?;
        Rule::ScopeAsAnnounced.demand(known.depth == scope.depth, || format!("the depth {}", known.depth))?;
        let subagent = known.subagent_id.as_ref();
        Rule::ScopeAsAnnounced.demand(subagent.is_none_or(|id| *id == scope.subagent_id), || {
            format!("the sub-agent `{}`", subagent.map_or("", SubagentId::as_str))
        })?;
        if subagent.is_none() {
            self.route(session, &scope.subagent_id)?;
        }
        Ok(())
    }

    /// Takes note of the sub-agent that an open child is.
    fn route(&mut self, child: usize, id: &SubagentId) -> Step {
        if let Some(other) = self.subagents.get(id).filter(|&&other| other != child) {
            let other = self.sessions.get(*other).and_then(|other| other.id.as_ref());
            let other = other.map_or("", SessionId::as_str);
            return Err(Rule::SubagentUnique
                .expected(format!("another sub-agent than `{id}`, which the open child `{other}` is")));
        }
        self.subagents.insert(id.clone(), child);
        if let Some(known) = self.sessions.get_mut(child) {
            known.subagent_id = Some(id.clone());
        }
        Ok(())
    }

    /// That a session's reply names it. The root's first one says the root's id.
    pub(super) fn learn_own(&mut self, session: usize, stated: &SessionId) -> Step {
        let Some(known) = self.sessions.get_mut(session) else { return Ok(()) };
        let Some(id) = &known.id else {
            known.id = Some(stated.clone());
            self.index.insert(stated.clone(), session);
            return Ok(());
        };
        Rule::ReplyOfSession.demand(id == stated, || format!("the session `{id}`, not `{stated}`"))
    }

    /// Opens the run that a spawn of `parent` announces; gives the child and whether it is new.
    pub(super) fn spawn(&mut self, parent: usize, spawn: &SpawnSessionStart, max_depth: u32) -> Step<IsNew> {
        let id = &spawn.child_session_id;
        self.learn_parent(parent, &spawn.parent_session_id)?;
        let known = self.index.get(id).copied();
        Rule::SessionUnique.demand(known != Some(ROOT), || format!("another id than the root's `{id}`"))?;
        let depth = self.sessions.get(parent).map_or(0, |parent| parent.depth).saturating_add(1);
        Rule::Depth.demand(spawn.depth == depth, || format!("the depth {depth}, not {}", spawn.depth))?;
        Rule::DepthLimit
            .demand(depth <= max_depth, || format!("no child deeper than {max_depth}, not {depth}"))?;
        let (runs, is_open) = known
            .and_then(|known| self.sessions.get(known))
            .map_or((0, false), |known| (known.runs, known.run.is_some()));
        let next = runs.saturating_add(1);
        let run = spawn.run.unwrap_or(if is_open { runs } else { next });
        Rule::AnnouncedOnce
            .demand(run > runs, || format!("a run of `{id}` from {next} on, not a second spawn of {run}"))?;
        Rule::OneRunAtATime
            .demand(!is_open, || format!("the terminal of run {runs} of `{id}` before run {run}"))?;
        let is_between = self.is_without_run(parent);
        let tie = tie(parent, spawn.spawn_mechanism, is_between);
        let call = spawn.tool_call_id.as_ref().filter(|_| tie == Tie::Call);
        if let Some(call) = call {
            self.may_spawn(parent, call)?;
        }
        let child = known.unwrap_or(self.sessions.len());
        let session = Session {
            id: Some(id.clone()),
            parent,
            depth,
            subagent_id: None,
            tie,
            is_between,
            call: call.cloned(),
            runs: run,
            run: Some(Box::new(Run::new(Progress::Announced))),
            awaited: BTreeSet::new(),
        };
        self.put(child, session);
        if let Some(id) = &spawn.subagent_id {
            self.route(child, id)?;
        }
        self.tie(child);
        Ok(if known.is_some() { IsNew::No } else { IsNew::Yes })
    }

    /// Makes a session of a child that nobody announced, without a run.
    pub(super) fn appear(&mut self, scope: &ChildScope, max_depth: u32) -> Step<usize> {
        Rule::DepthLimit.demand(scope.depth <= max_depth, || {
            format!("no child deeper than {max_depth}, not {}", scope.depth)
        })?;
        let child = self.sessions.len();
        let session = Session {
            id: Some(scope.child_session_id.clone()),
            depth: scope.depth,
            subagent_id: Some(scope.subagent_id.clone()),
            tie: Tie::Unknown,
            ..Session::default()
        };
        self.put(child, session);
        Ok(child)
    }

    fn put(&mut self, child: usize, session: Session) {
        if let Some(id) = &session.id {
            self.index.insert(id.clone(), child);
        }
        match self.sessions.get_mut(child) {
            Some(known) => *known = session,
            None => self.sessions.push(session),
        }
    }

    /// That a spawn is said by the parent that it names. The root's first one says the root's id.
    fn learn_parent(&mut self, parent: usize, stated: &SessionId) -> Step {
        let named = self.index.get(stated).copied();
        let Some(session) = self.sessions.get_mut(parent) else { return Ok(()) };
        if parent == ROOT && session.id.is_none() && named.is_none() {
            session.id = Some(stated.clone());
            self.index.insert(stated.clone(), ROOT);
            return Ok(());
        }
        Rule::SpawnInParent.demand(named == Some(parent), || {
            format!("the parent `{}`, not `{stated}`", session.id.as_ref().map_or("root", SessionId::as_str))
        })
    }

    /// Takes note of what is learnt of a child, said by `speaker`.
    pub(super) fn update(&mut self, speaker: usize, update: &SessionUpdated) -> Step {
        let id = &update.child_session_id;
        let child = self.index.get(id).copied().filter(|&child| child != ROOT);
        let known = child.and_then(|child| Some((child, self.sessions.get(child)?)));
        let Some((child, known)) = known.filter(|(_, known)| (1..=known.runs).contains(&update.run)) else {
            return Err(
                Rule::UpdateOfChild.expected(format!("a spawn of run {} of `{id}` before it", update.run))
            );
        };
        let (parent, is_last) = (known.parent, update.run == known.runs);
        let (is_open, is_between) = (known.run.is_some(), known.is_between || self.is_without_run(parent));
        let above = self.nearest_open(parent);
        Rule::UpdateOfChild.demand(speaker == above, || {
            let above = self.sessions.get(above).and_then(|above| above.id.as_ref());
            format!("the scope of `{}`, not this one", above.map_or("root", SessionId::as_str))
        })?;
        if is_last {
            let waits = is_open && update.spawn_mechanism == Some(SpawnMechanism::Sync);
            Rule::BetweenRuns.demand(!(waits && self.is_without_run(parent)), || {
                format!("the prompt of the root's next run before `{id}` is a sync child")
            })?;
            self.untie(child);
            if let Some(child) = self.sessions.get_mut(child) {
                if let Some(mechanism) = update.spawn_mechanism {
                    child.tie = tie(parent, mechanism, is_between);
                }
                if update.tool_call_id.is_some() {
                    child.call.clone_from(&update.tool_call_id);
                }
            }
            self.tie(child);
        }
        Ok(())
    }

    fn is_without_run(&self, session: usize) -> bool {
        self.sessions.get(session).is_some_and(|session| session.run.is_none())
    }

    fn nearest_open(&self, mut session: usize) -> usize {
        while session != ROOT
            && let Some(known) = self.sessions.get(session).filter(|known| known.run.is_none())
        {
            session = known.parent;
        }
        session
    }

    /// Ends a session's run in which nothing is open.
    pub(super) fn end_run(&mut self, session: usize) -> Step {
        let Some(known) = self.sessions.get(session) else { return Ok(()) };
        if let Some(child) = known.awaited.first().and_then(|&child| self.sessions.get(child)) {
            let child = child.id.as_ref().map_or("", SessionId::as_str);
            return Err(
                Rule::ChildrenFirst.expected(format!("the terminal of the child `{child}` before it"))
            );
        }
        self.untie(session);
        if let Some(known) = self.sessions.get_mut(session) {
            known.run = None;
            if let Some(id) = &known.subagent_id
                && self.subagents.get(id) == Some(&session)
            {
                self.subagents.remove(id);
            }
        }
        Ok(())
    }

    /// Makes a child's parent, and its call, wait for the child.
    fn tie(&mut self, child: usize) {
        let Some(known) = self.sessions.get(child).filter(|known| known.run.is_some()) else { return };
        let (parent, tie, call) = (known.parent, known.tie, known.call.clone());
        if matches!(tie, Tie::Call | Tie::Parent)
            && let Some(parent) = self.sessions.get_mut(parent)
        {
            parent.awaited.insert(child);
        }
        if let (Tie::Call, Some(call)) = (tie, call)
            && let Some(call) = self.reply_mut(parent).and_then(|reply| reply.call_mut(&call))
        {
            call.children.insert(child);
        }
    }

    fn untie(&mut self, child: usize) {
        let Some(known) = self.sessions.get(child) else { return };
        let (parent, call) = (known.parent, known.call.clone());
        if let Some(parent) = self.sessions.get_mut(parent) {
            parent.awaited.remove(&child);
        }
        if let Some(call) = call
            && let Some(call) = self.reply_mut(parent).and_then(|reply| reply.call_mut(&call))
        {
            call.children.remove(&child);
        }
    }

    fn may_spawn(&mut self, parent: usize, id: &ToolCallId) -> Step {
        match self.reply_mut(parent).and_then(|reply| reply.call_mut(id)) {
            Some(call) => call.may_spawn(id),
            None => Err(Rule::ChildWithinCall
                .expected(format!("the call `{id}` of the parent complete and without a result"))),
        }
    }

    fn reply_mut(&mut self, session: usize) -> Option<&mut Reply> {
        self.sessions.get_mut(session)?.run.as_mut()?.reply_mut()
    }
}

impl Session {
    /// Opens a run that no spawn announced: from here on nobody knows whose child this is.
    pub(super) fn begin_run(&mut self, run: Run) {
        self.runs = self.runs.saturating_add(1);
        self.run = Some(Box::new(run));
        self.parent = ROOT;
        self.tie = Tie::Unknown;
    }
}

/// Whether a session's runs are announced, so that their numbers mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runs {
    Counted,
    Uncounted,
}

/// Whether a spawn made a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IsNew {
    Yes,
    No,
}

/// `is_between`: whether the child began, or is learnt about, while its parent had no run that could wait for it.
fn tie(parent: usize, mechanism: SpawnMechanism, is_between: bool) -> Tie {
    match mechanism {
        SpawnMechanism::Manual if parent == ROOT && is_between => Tie::Background,
        SpawnMechanism::Sync => Tie::Call,
        // A sub-agent waits for its background children itself.
        SpawnMechanism::AsyncWorker if parent == ROOT => Tie::Background,
        SpawnMechanism::AsyncWorker | SpawnMechanism::Manual => Tie::Parent,
    }
}
