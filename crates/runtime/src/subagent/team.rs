//! Several agents on one task.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use anabranch_pipeline::{Merge, ToolStream, ToolYield};
use anabranch_proto::{
    Artifact, ContentBlock, ErrorInfo, ErrorType, Event, EventKind, Outcome, ReplyId, SourceType, TextBlock,
    ToolChunk, ToolResultState,
    event::{
        ReplyEnd, ReplyStart, StreamComplete, TextBlockDelta, TextBlockEnd, TextBlockStart, UserMessage,
    },
};
use futures::Stream;

use super::{Spawn, child::Work};
use crate::{
    Agent, Prompt,
    run::{Conversation, Host, RunIdentity, RunResult},
};

/// Several agents on one task, side by side or one after another.
///
/// A team is one child session, and each member a child of that session. Side by side each member has the task; one after
/// another each has the task and what the one before came to, and the first that does not complete is the last.
///
/// A team completes when all its members do. What those that completed said is in the result either way.
///
/// ```
/// use anabranch_runtime::{Agent, ScriptedModel, SpawnSubagent, Team, Turn};
///
/// let member = |name: &str| {
///     Agent::builder(name.to_owned(), ScriptedModel::new("scripted").turn(|_| Turn::new().text("Fine."))).build()
/// };
/// let team = Team::parallel("reviewers").member(member("security")).member(member("style"));
/// let tool = SpawnSubagent::team(team).as_tool("review", "Has the change reviewed by several reviewers.");
/// ```
#[derive(Clone)]
pub struct Team(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    name: Arc<str>,
    order: Order,
    members: Vec<Agent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Parallel,
    Sequential,
}

impl Team {
    /// A team whose members work side by side.
    pub fn parallel(name: impl Into<Arc<str>>) -> Self {
        Self(Arc::new(Inner { name: name.into(), order: Order::Parallel, members: Vec::new() }))
    }

    /// A team whose members work one after another, each with what the one before came to.
    pub fn sequential(name: impl Into<Arc<str>>) -> Self {
        Self(Arc::new(Inner { name: name.into(), order: Order::Sequential, members: Vec::new() }))
    }

    /// With a member, after those that were added before.
    #[must_use]
    pub fn member(mut self, agent: Agent) -> Self {
        Arc::make_mut(&mut self.0).members.push(agent);
        self
    }

    /// The team's name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.0.name
    }

    pub(super) fn source_type(&self) -> SourceType {
        match self.0.order {
            Order::Parallel => SourceType::TeamParallel,
            Order::Sequential => SourceType::TeamSequential,
        }
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Team")
            .field("name", &self.0.name)
            .field("order", &self.0.order)
            .field("members", &self.0.members)
            .finish()
    }
}

/// One run of a team.
pub(super) struct TeamRun {
    team: Team,
    task: Prompt,
    host: Arc<Host>,
    reply_id: ReplyId,
    running: Merge<MemberStream>,
    /// What each member came to, in their order; the first that are missing have not begun.
    results: Vec<Option<ToolChunk>>,
    ready: VecDeque<Arc<Event>>,
    result: Option<RunResult>,
    is_over: bool,
}

/// A member's stream, and which member's it is.
struct MemberStream(usize, ToolStream);

impl Stream for MemberStream {
    type Item = (usize, ToolYield);

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let index = self.0;
        self.1.as_mut().poll_next(cx).map(|item| item.map(|item| (index, item)))
    }
}

impl TeamRun {
    pub(super) fn new(team: Team, identity: RunIdentity, task: Prompt) -> Self {
        let stamp = &identity.shared.stamp;
        let (reply_id, message_id) = (stamp.reply_id(), stamp.message_id());
        identity.control.inbox.deafen();
        let host = Arc::new(Host {
            identity,
            conversation: Arc::new(Conversation::new(Vec::new())),
            user_message_id: Some(message_id.clone()),
        });
        let members = team.0.members.len();
        let mut this = Self {
            task: task.clone(),
            host,
            reply_id,
            running: Merge::new(),
            results: vec![None; members],
            ready: VecDeque::new(),
            result: None,
            is_over: false,
            team,
        };
        this.push(UserMessage::new(message_id, task.content, task.origin));
        let start =
            ReplyStart::new(&this.host.identity.session_id, &this.reply_id, Arc::clone(this.team.name()));
        this.push(start);
        match this.team.0.order {
            Order::Parallel => (0..members).for_each(|index| this.start(index, None)),
            Order::Sequential if members > 0 => this.start(0, None),
            Order::Sequential => {}
        }
        this
    }

    /// Starts a member, with what the one before came to.
    fn start(&mut self, index: usize, before: Option<&ToolChunk>) {
        let Some(agent) = self.team.0.members.get(index) else { return };
        let mut task = self.task.clone();
        if let Some(before) = before {
            let title = "\n\nWhat the member before you came to:\n".to_owned();
            task.content.push(TextBlock::new(title).into());
            task.content.extend(before.content.iter().cloned());
        }
        match Spawn::under(&self.host, None, Arc::clone(agent.name()), task) {
            Ok(spawn) => self.running.push(MemberStream(index, spawn.run(agent))),
            Err(error) => self.ended(index, ToolChunk::error(error.to_string())),
        }
    }

    /// A member has ended.
    fn ended(&mut self, index: usize, result: ToolChunk) {
        let is_last = self.team.0.order == Order::Parallel || !is_completed(&result);
        if !is_last {
            self.start(index + 1, Some(&result));
        }
        if let Some(place) = self.results.get_mut(index) {
            *place = Some(result);
        }
    }

    /// Says what the team came to.
    fn end(&mut self) {
        let members = self.team.0.members.iter().zip(&self.results);
        let failed: Vec<_> = members
            .clone()
            .filter(|(_, result)| !result.as_ref().is_some_and(is_completed))
            .map(|(member, _)| format!("`{}`", member.name()))
            .collect();
        let (outcome, error) = if failed.is_empty() {
            (Outcome::Completed, None)
        } else {
            let text = format!(
                "{} of {} members did not complete: {}",
                failed.len(),
                self.results.len(),
                failed.join(", ")
            );
            (Outcome::Failed, Some(ErrorInfo::new(ErrorType::UPSTREAM, text)))
        };
        let text = match (self.team.0.order, outcome) {
            (Order::Sequential, Outcome::Completed) => {
                self.results.last().and_then(Option::as_ref).map(text).unwrap_or_default()
            }
            _ => members
                .map(|(member, result)| section(member, result.as_ref()))
                .collect::<Vec<_>>()
                .join("\n\n"),
        };
        if !text.is_empty() {
            let block_id = self.host.identity.shared.stamp.block_id();
            self.push(TextBlockStart::new(&self.reply_id, &block_id));
            self.push(TextBlockDelta::new(&self.reply_id, &block_id, text));
            self.push(TextBlockEnd::new(&self.reply_id, block_id));
        }
        let session_id = self.host.identity.session_id.clone();
        let end = ReplyEnd::new(session_id, &self.reply_id, outcome.finished_reason())
            .error(error.clone().map(Box::new));
        self.push(end);
        self.terminate(outcome, error);
    }

    fn terminate(&mut self, outcome: Outcome, error: Option<ErrorInfo>) {
        let mut result = RunResult::new(outcome);
        result.message = self.host.conversation.final_message();
        result.error.clone_from(&error);
        if result.message.as_ref().is_none_or(|message| message.content.is_empty()) {
            let members = self.team.0.members.iter().zip(&self.results);
            let ended = members.filter(|(_, result)| result.is_some());
            let sections = ended.map(|(member, result)| section(member, result.as_ref()));
            result.said = sections.map(|section| TextBlock::new(section).into()).collect();
        }
        let files = self.results.iter().flatten().filter_map(|result| result.metadata.get("files"));
        result.files = files.filter_map(|files| files.to::<Vec<Artifact>>().ok()).flatten().collect();
        let complete = StreamComplete::new(outcome).error(error).message(result.message.clone());
        self.push(complete);
        self.result = Some(result);
        self.is_over = true;
    }

    /// Makes one of the team's own events.
    fn push(&mut self, kind: impl Into<EventKind>) {
        let RunIdentity { scope, metadata, shared, .. } = &self.host.identity;
        let event = Arc::new(Event::stamped(&*shared.stamp, scope.clone(), metadata.clone(), kind));
        self.host.conversation.apply(&event);
        self.ready.push_back(event);
    }
}

fn is_completed(result: &ToolChunk) -> bool {
    result.state.worse(ToolResultState::Success) == ToolResultState::Success
}

fn text(result: &ToolChunk) -> String {
    result.content.iter().filter_map(ContentBlock::as_text).collect::<Vec<_>>().join("\n")
}

/// What a member came to, under its name.
fn section(member: &Agent, result: Option<&ToolChunk>) -> String {
    match result {
        Some(result) if is_completed(result) => format!("{}:\n{}", member.name(), text(result)),
        Some(result) => format!("{} (did not complete):\n{}", member.name(), text(result)),
        None => format!("{}: has not begun.", member.name()),
    }
}

impl Stream for TeamRun {
    type Item = Arc<Event>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Arc<Event>>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            match std::task::ready!(Pin::new(&mut self.running).poll_next(cx)) {
                Some((_, ToolYield::Event(event))) => return Poll::Ready(Some(event)),
                Some((index, ToolYield::Chunk(result))) => self.ended(index, result),
                None => self.end(),
            }
        }
    }
}

impl Work for TeamRun {
    fn result(&self) -> Option<&RunResult> {
        self.result.as_ref()
    }

    fn cut(mut self: Pin<&mut Self>, outcome: Outcome, error: Option<ErrorInfo>) {
        if self.result.is_none() {
            self.terminate(outcome, error);
            // Last, for what is dropped may panic.
            self.running = Merge::new();
        }
    }
}
