//! A child at work on the side that was given its order.

use std::{
    collections::HashMap,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use anabranch_proto::{Admitted, ChildScope, ErrorInfo, ErrorType, Event, EventKind, Scope, SessionId};
use futures::{Stream, StreamExt, stream::FusedStream};

use super::{Instruction, Order, Template};
use crate::{Agent, Permissions, Prompt, Read, Reader, Session, Spawn, SpawnError, agent::Inner, run::Host};

impl Order {
    /// Runs the child here, with an agent of ours: in a session of its own, of which the child is the only one directly
    /// below the root, so that it behaves as any other child does.
    ///
    /// The limits are the agent's, where the order's are not narrower. Its time-out holds here too.
    ///
    /// # Errors
    /// When its time-out is none that a child can have.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, nothing runs.
    pub async fn start(self, agent: &Agent) -> Result<OrderRun, SpawnError> {
        let Self { session_id, run, subagent_id, parent_session_id, tool_call_id, source_name, .. } = self;
        let inner = agent.inner();
        let limits = self.limits.over(inner.limits);
        // The root has the order's limits, and says nothing.
        let root = Agent::of(Inner { limits, permissions: None, metadata: self.metadata, ..inner.clone() });
        let session = root.session_builder().id(parent_session_id).start_anew();
        let reader = session.subscribe_lossless(0);
        let mut host = session.host_identity();
        host.permissions = self.permissions.into_iter().map(Permissions::of_policy).collect();
        let host = Host::silent(host);
        let prompt = Prompt::from_content(self.prompt);
        let mut spawn = Spawn::under(&Arc::new(host), tool_call_id, source_name, prompt)?;
        spawn.session = Some((session_id.clone(), subagent_id, run));
        spawn.history = self.history;
        spawn.attempt = self.attempt;
        if let Some(timeout) = self.timeout {
            spawn = spawn.timeout(timeout)?;
        }
        session.start(spawn, &Template::Agent(agent.clone())).await?;
        let handle = OrderHandle { session: Arc::new(session), child: session_id.clone() };
        let outward = Outward { child: session_id, scopes: HashMap::new() };
        Ok(OrderRun { reader, outward, handle, number: 0, is_over: false })
    }
}

/// Stream of what a child says that runs here for somebody else: as a [`RunnerStream`](crate::RunnerStream) is to be.
///
/// An error means that the child's events were forgotten before they were read, after which there are none.
///
/// # Cancel safety
/// `next()` loses nothing when dropped. Dropping the stream stops the child and ends its session.
#[must_use = "streams do nothing unless polled"]
pub struct OrderRun {
    reader: Reader,
    outward: Outward,
    handle: OrderHandle,
    number: u64,
    is_over: bool,
}

impl OrderRun {
    /// What can be done to the child while it runs.
    #[must_use]
    pub fn handle(&self) -> OrderHandle {
        self.handle.clone()
    }
}

/// What can be done to a child that runs here for somebody else. Dropping it changes nothing.
#[derive(Clone)]
pub struct OrderHandle {
    session: Arc<Session>,
    child: SessionId,
}

impl OrderHandle {
    /// Does what the other side says. An answer to what is no longer asked, a message to what has ended and a stop of it
    /// change nothing.
    pub fn follow(&self, instruction: Instruction) {
        let followed: Result<(), String> = match instruction {
            Instruction::Answer { session_id, call_id, answer } => {
                self.session.answer(&session_id, &call_id, answer).map_err(|error| error.to_string())
            }
            Instruction::Message { session_id, content } => {
                let message = Prompt::from_content(content);
                self.session.steer(&session_id, message).map_err(|error| error.to_string())
            }
            Instruction::Stop { session_id } => {
                self.session.cancel_session(&session_id).map_err(|error| error.to_string())
            }
        };
        if let Err(why) = followed {
            tracing::debug!(%why, "an instruction came too late");
        }
    }

    /// Stops the child, as interrupted: its terminal follows on its stream.
    pub fn stop(&self) {
        let child = &self.child;
        // Where it has ended, there is nothing to stop.
        self.session.cancel_session(child).ok();
    }
}

impl Stream for OrderRun {
    type Item = Result<Admitted, ErrorInfo>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.is_over {
                return Poll::Ready(None);
            }
            let Some(read) = std::task::ready!(self.reader.poll_next_unpin(cx)) else {
                self.is_over = true;
                return Poll::Ready(None);
            };
            let event = match read {
                Read::Event(admitted) => admitted.event,
                Read::Gap { from, to } => {
                    self.is_over = true;
                    let text = format!("events {from} to {to} were forgotten before they could be sent");
                    return Poll::Ready(Some(Err(ErrorInfo::new(ErrorType::INTERNAL, text))));
                }
            };
            let Some(event) = self.outward.translate(event) else { continue };
            self.number += 1;
            self.is_over = event.scope == Scope::Root && matches!(event.kind, EventKind::StreamComplete(_));
            return Poll::Ready(Some(Ok(Admitted::new(self.number, event))));
        }
    }
}

impl FusedStream for OrderRun {
    fn is_terminated(&self) -> bool {
        self.is_over
    }
}

impl Drop for OrderRun {
    fn drop(&mut self) {
        // Handles may outlive it; the session does not.
        self.handle.session.end();
    }
}

/// Takes the events of a child as those of a root.
struct Outward {
    child: SessionId,
    /// The scopes that were met, by address, each with what it became. Both are kept, so no address is used twice.
    scopes: HashMap<usize, (Arc<ChildScope>, Arc<ChildScope>)>,
}

impl Outward {
    /// The event as the other side reads it; none where it is the root's here.
    fn translate(&mut self, event: Arc<Event>) -> Option<Arc<Event>> {
        let Scope::Child(scope) = &event.scope else { return None };
        let scope = if scope.child_session_id == self.child {
            Scope::Root
        } else {
            let address = Arc::as_ptr(scope).addr();
            let (_, outward) = self.scopes.entry(address).or_insert_with(|| {
                let outward = ChildScope::clone(scope).depth(scope.depth.saturating_sub(1));
                (Arc::clone(scope), Arc::new(outward))
            });
            Scope::Child(Arc::clone(outward))
        };
        let mut event = Arc::unwrap_or_clone(event);
        event.scope = scope;
        if let EventKind::SpawnSessionStart(spawn) = &mut event.kind {
            spawn.depth = spawn.depth.saturating_sub(1);
        }
        Some(Arc::new(event))
    }
}

impl fmt::Debug for OrderRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderRun").field("child", &self.outward.child).finish_non_exhaustive()
    }
}

impl fmt::Debug for OrderHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderHandle").finish_non_exhaustive()
    }
}
