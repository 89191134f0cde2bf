//! Where the events of a child elsewhere enter their session.

use std::{
    collections::HashMap,
    fmt, mem,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use anabranch_proto::{
    Admitted, ChildScope, ErrorInfo, ErrorType, Event, EventKind, Metadata, Outcome, Scope, SessionId,
    event::{MessageOrigin, SpawnSessionStart},
    grammar::{Profile, Verifier},
};
use anabranch_session::{EventProcessor, Limits};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};

use super::{
    Instruction, OrderLimits, Runner,
    questions::{Questions, Seen, TooMany},
};
use crate::{
    Permissions, Prompt,
    limits::Slot,
    run::{OpenRun, RunControl, RunIdentity},
};

/// How much of what is wrong is told: ids from elsewhere may be of any length.
const TOLD: usize = 1_000;

/// Takes the events of a child elsewhere, which is a root session there, into the child's place in its session here.
///
/// What breaks a rule of a stream, speaks of a session that is somebody else's or spawns more than it may is refused, and
/// with it all that follows. Sessions below the child have their slots here, and can be stopped and told something.
pub(super) struct Border {
    identity: RunIdentity,
    scope: Arc<ChildScope>,
    /// What is on all of the child's events, and without what is the child's own on those below it.
    inherited: Metadata,
    verifier: Verifier,
    /// Knows what is open there, where it may have to be closed from here.
    closer: Option<EventProcessor>,
    prompt: PromptSeen,
    /// What the child calls itself there.
    root: Option<SessionId>,
    scopes: HashMap<(SessionId, u32), Arc<ChildScope>>,
    /// What metadata became last: most events share theirs with the one before.
    last_own: (Metadata, Metadata),
    last_below: (Metadata, Metadata),
    /// How many more it may spawn.
    spawns_left: usize,
    below: HashMap<SessionId, Below>,
    /// Whether messages to those below can be carried.
    takes_messages: bool,
    said_below: FuturesUnordered<BoxFuture<'static, (SessionId, Said)>>,
    questions: Questions,
}

/// Whether the child's prompt stands in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PromptSeen {
    No,
    Yes,
    /// It does, and comes again.
    Again,
}

/// A run below the child.
struct Below {
    control: Arc<RunControl>,
    _open: OpenRun,
    _slot: Slot,
}

/// What somebody here wants of a run below the child.
enum Said {
    Message(Arc<RunControl>),
    Stop,
}

impl Border {
    pub(super) fn new(
        identity: RunIdentity,
        scope: Arc<ChildScope>,
        limits: OrderLimits,
        runner: &dyn Runner,
    ) -> Self {
        let closer = runner.runs_again().then(|| closer(&scope));
        let inherited = identity.metadata.clone().without_reserved();
        Self {
            inherited,
            scope,
            identity,
            verifier: Verifier::new(Profile::Native).max_depth(limits.depth),
            closer,
            prompt: PromptSeen::No,
            root: None,
            scopes: HashMap::new(),
            last_own: Default::default(),
            last_below: Default::default(),
            spawns_left: limits.spawned,
            below: HashMap::new(),
            takes_messages: runner.takes_messages(),
            said_below: FuturesUnordered::new(),
            questions: Questions::default(),
        }
    }

    /// Whether an event that was taken is the child's own.
    pub(super) fn is_own(&self, event: &Event) -> bool {
        event.scope.child().is_some_and(|scope| Arc::ptr_eq(scope, &self.scope))
    }

    /// Takes the next event; gives it as it is to stand in the session's stream, where it does.
    pub(super) fn take(&mut self, event: Arc<Event>) -> Result<Option<Arc<Event>>, ErrorInfo> {
        if let Some(closer) = &mut self.closer {
            closer.process(Arc::clone(&event), &*self.identity.shared.stamp, &mut Vec::new());
        }
        if let (Scope::Root, EventKind::UserMessage(_)) = (&event.scope, &event.kind) {
            let is_again = self.prompt == PromptSeen::Again;
            self.prompt = PromptSeen::Yes;
            if is_again {
                return Ok(None);
            }
        }
        self.enter(event)
    }

    /// Closes what the child has open there, all but its run: somebody else runs it from its beginning.
    pub(super) fn again(&mut self) -> Result<Vec<Arc<Event>>, ErrorInfo> {
        let mut closing = Vec::new();
        if let Some(mut open) = self.closer.replace(closer(&self.scope)) {
            open.close(Outcome::Interrupted, &*self.identity.shared.stamp, &mut closing);
        }
        if self.prompt == PromptSeen::Yes {
            self.prompt = PromptSeen::Again;
        }
        let mut closed = Vec::new();
        for Admitted { event, .. } in closing {
            let is_terminal =
                event.scope == Scope::Root && matches!(event.kind, EventKind::StreamComplete(_));
            if !is_terminal {
                closed.extend(self.enter(event)?);
            }
        }
        self.close();
        self.root = None;
        Ok(closed)
    }

    fn enter(&mut self, event: Arc<Event>) -> Result<Option<Arc<Event>>, ErrorInfo> {
        self.verifier.check(&event).map_err(|violation| {
            refused(format!("the other side's events break a rule of a stream: {violation}"))
        })?;
        let mut event = Arc::unwrap_or_clone(event);
        match event.scope.clone() {
            Scope::Root => self.own(&mut event),
            Scope::Child(scope) => self.below(&mut event, &scope),
        }
        if let EventKind::SpawnSessionStart(spawn) = &mut event.kind {
            spawn.depth = spawn.depth.saturating_add(self.scope.depth);
            self.announce(spawn)?;
            let max_depth = self.identity.shared.limits.max_depth;
            event.metadata = event.metadata.with("max_depth", max_depth);
        }
        let session = match &event.scope {
            Scope::Root => &self.scope.child_session_id,
            Scope::Child(scope) => &scope.child_session_id,
        };
        let control = self.below.get(session).map_or(&self.identity.control, |below| &below.control);
        let seen = self.questions.note(&event, session, control, &self.identity);
        let seen = seen.map_err(|TooMany| {
            refused(format!("the other side has more than {} questions open", TooMany::LIMIT))
        })?;
        if let EventKind::StreamComplete(_) = event.kind {
            self.below.remove(session);
        }
        Ok((seen == Seen::Yes).then(|| Arc::new(event)))
    }

    /// The other root's own event: the child's, in its scope, with its metadata.
    fn own(&mut self, event: &mut Event) {
        let session = &self.scope.child_session_id;
        if let EventKind::ReplyStart(start) = &mut event.kind {
            self.root = Some(mem::replace(&mut start.session_id, session.clone()));
        } else if let EventKind::ReplyEnd(end) = &mut event.kind {
            end.session_id = session.clone();
        } else if let EventKind::SpawnSessionStart(spawn) = &mut event.kind {
            self.root = Some(mem::replace(&mut spawn.parent_session_id, session.clone()));
        } else if let EventKind::UserMessage(message) = &mut event.kind
            && message.origin == MessageOrigin::User
        {
            message.origin = MessageOrigin::Parent;
        }
        event.scope = Scope::Child(Arc::clone(&self.scope));
        if let EventKind::SpawnSessionStart(_) = event.kind {
            // Its reserved keys say what it is for.
            event.metadata = mem::take(&mut event.metadata).merged(&self.identity.metadata);
            return;
        }
        if !event.metadata.shares_with(&self.last_own.0) || self.last_own.1.is_empty() {
            let own = event.metadata.clone().without_reserved().merged(&self.identity.metadata);
            self.last_own = (event.metadata.clone(), own);
        }
        event.metadata = self.last_own.1.clone();
    }

    /// An event of a session below, as many levels deeper as the child lies.
    fn below(&mut self, event: &mut Event, scope: &Arc<ChildScope>) {
        let key = (scope.child_session_id.clone(), scope.run);
        let adopted = self.scopes.entry(key).or_insert_with(|| {
            let mut adopted = ChildScope::clone(scope).depth(scope.depth.saturating_add(self.scope.depth));
            if self.root.as_ref() == Some(&adopted.parent_session_id) {
                adopted.parent_session_id = self.scope.child_session_id.clone();
            }
            Arc::new(adopted)
        });
        event.scope = Scope::Child(Arc::clone(adopted));
        if let EventKind::SpawnSessionStart(_) = event.kind {
            event.metadata = self.inherited.clone().merged(&event.metadata);
            return;
        }
        if !event.metadata.shares_with(&self.last_below.0) || self.last_below.1.is_empty() {
            self.last_below = (event.metadata.clone(), self.inherited.clone().merged(&event.metadata));
        }
        event.metadata = self.last_below.1.clone();
    }

    /// A session below the child begins a run.
    fn announce(&mut self, spawn: &SpawnSessionStart) -> Result<(), ErrorInfo> {
        let shared = &self.identity.shared;
        let session = &spawn.child_session_id;
        if !shared.claimed.claim(session, &self.scope.child_session_id) {
            return Err(refused(format!(
                "the other side spawned `{session}`, which is somebody else's session"
            )));
        }
        self.spawns_left = self
            .spawns_left
            .checked_sub(1)
            .ok_or_else(|| refused("the other side spawned more sub-agents than are left".to_owned()))?;
        let above = self.below.get(&spawn.parent_session_id);
        let above = above.map_or(&self.identity.control, |below| &below.control);
        let control = above.child(session.clone());
        if !self.takes_messages {
            control.inbox.deafen();
        }
        self.said_below.push(said(session.clone(), Arc::clone(&control)).boxed());
        let below = Below { _open: shared.runs.open(&control), _slot: shared.slots.count(), control };
        self.below.insert(session.clone(), below);
        Ok(())
    }

    /// Whether the child, or one below it, waits for an answer.
    pub(super) fn is_asking(&self) -> bool {
        self.questions.is_asking()
    }

    /// The child has ended, and with it all below it.
    pub(super) fn close(&mut self) {
        self.below.clear();
        self.questions = Questions::default();
    }

    /// The next instruction for the other side, because of what is asked there or wanted of those below the child.
    pub(super) fn poll_instruction(&mut self, cx: &mut Context<'_>) -> Poll<Instruction> {
        if let Poll::Ready(((session_id, call_id), answer)) = self.questions.poll_answer(cx) {
            let has_code = self.identity.permissions.iter().any(Permissions::has_code);
            // Rules that a person gave hold where nothing but a person would be asked, so not over code.
            let answer = if has_code { answer.without_rules() } else { answer };
            return Poll::Ready(Instruction::Answer { session_id, call_id, answer });
        }
        while let Poll::Ready(Some((session_id, said_of_it))) = self.said_below.poll_next_unpin(cx) {
            let is_open = self.below.contains_key(&session_id);
            match said_of_it {
                Said::Stop if is_open => return Poll::Ready(Instruction::Stop { session_id }),
                Said::Message(control) if is_open => {
                    let next = control.inbox.take_one();
                    self.said_below.push(said(session_id.clone(), control).boxed());
                    if let Some(Prompt { content, .. }) = next {
                        return Poll::Ready(Instruction::Message { session_id, content });
                    }
                }
                Said::Stop | Said::Message(_) => {}
            }
        }
        Poll::Pending
    }
}

/// Takes note of what is open in the run of a child. Its session is called there as it is here, or never named.
fn closer(scope: &ChildScope) -> EventProcessor {
    let limits = Limits::default().max_depth(u32::MAX).max_spawned(usize::MAX);
    EventProcessor::new(scope.child_session_id.clone(), limits)
}

/// Waits until somebody wants something of a run, or it has ended.
async fn said(session: SessionId, control: Arc<RunControl>) -> (SessionId, Said) {
    tokio::select! {
        biased;
        () = control.token().cancelled() => return (session, Said::Stop),
        () = async {
            while control.inbox.is_empty() {
                control.inbox.arrived().await;
            }
        } => {}
    }
    (session, Said::Message(control))
}

fn refused(mut text: String) -> ErrorInfo {
    if let Some((end, _)) = text.char_indices().nth(TOLD) {
        text.truncate(end);
        text.push('…');
    }
    ErrorInfo::new(ErrorType::UPSTREAM, text)
}

impl fmt::Debug for Border {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Border")
            .field("scope", &self.scope)
            .field("below", &self.below.len())
            .finish_non_exhaustive()
    }
}

/// Which sessions below a root came from elsewhere, and by which child.
pub(crate) struct Claimed {
    by: Mutex<HashMap<SessionId, SessionId>>,
    processor: Arc<Mutex<EventProcessor>>,
}

impl Claimed {
    pub(crate) fn new(processor: Arc<Mutex<EventProcessor>>) -> Self {
        Self { by: Mutex::default(), processor }
    }

    /// Whether a session is below this child; one that nobody knows is from here on.
    fn claim(&self, session: &SessionId, child: &SessionId) -> bool {
        let mut by = self.by.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = by.get(session) {
            return owner == child;
        }
        let processor = self.processor.lock().unwrap_or_else(PoisonError::into_inner);
        if processor.tree().get(session).is_some() {
            return false;
        }
        drop(processor);
        by.insert(session.clone(), child.clone());
        true
    }
}
