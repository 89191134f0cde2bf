//! The trait of whoever runs children elsewhere.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use anabranch_proto::{Admitted, ContentBlock, ErrorInfo, SessionId, ToolCallId};
use futures::{Stream, stream::BoxStream};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::Order;
use crate::Answer;

/// How many instructions wait for a runner. Nothing is lost where it is slow: messages wait in their inbox, answers where
/// they were given.
const INSTRUCTIONS: usize = 16;

/// What comes of an order: the events of the child and of those below it.
///
/// - Each has its producer's number, from 1 without gaps. One that comes again is dropped, one that comes too early is kept
///   for a while; what never comes ends the child as failed.
/// - They are those of a root session, which the child is on its side: its own are in
///   [`Scope::Root`](anabranch_proto::Scope::Root), the first is its prompt, the last its
///   [`StreamComplete`](anabranch_proto::event::StreamComplete). After that nothing is read.
/// - An error ends the child as failed, with its text. So does an end without a terminal, and an event that breaks the
///   rules of a stream ([`anabranch_proto::grammar`]).
pub type RunnerStream = BoxStream<'static, Result<Heard, ErrorInfo>>;

/// What is heard of a child elsewhere.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Heard {
    /// An event, with its producer's number.
    Event(Admitted),
    /// Whoever ran the child is lost, and somebody else runs it from its beginning. What was said stands, what was open is
    /// closed as interrupted, and the run goes on: events count from 1 again, and of the prompt that comes again nothing is
    /// seen. Only from a [`Runner`] that [says so](Runner::runs_again).
    #[non_exhaustive]
    Again {
        /// Why, for people.
        why: String,
    },
}

impl Heard {
    /// The child is run again.
    pub fn again(why: impl Into<String>) -> Self {
        Self::Again { why: why.into() }
    }
}

impl From<Admitted> for Heard {
    fn from(numbered: Admitted) -> Self {
        Self::Event(numbered)
    }
}

/// Where children run that do not run here.
///
/// `run` gives an order to the other side and brings back what it says. Connections, retries and what becomes of an order
/// whose worker is lost are the runner's; that a child ends once, in time and within its session's rules holds without its
/// help.
///
/// Dropping the stream means that the child is to be stopped: it was cancelled, its time is over, its session is closed, or it
/// broke a rule. The runner tells the other side, which nobody waits for.
///
/// ```
/// use anabranch_runtime::{Agent, Heard, Instructions, Order, Runner, RunnerStream};
/// use futures::{StreamExt, stream};
///
/// /// Runs orders in this process, each in a session of its own.
/// struct Here(Agent);
///
/// impl Runner for Here {
///     fn run(&self, order: Order, mut instructions: Instructions) -> RunnerStream {
///         let agent = self.0.clone();
///         let events = async move {
///             let run = order.start(&agent).await.expect("its limits allow it");
///             let handle = run.handle();
///             tokio::spawn(async move {
///                 while let Some(instruction) = instructions.next().await {
///                     handle.follow(instruction);
///                 }
///             });
///             run.map(|event| event.map(Heard::from))
///         };
///         stream::once(events).flatten().boxed()
///     }
/// }
/// ```
pub trait Runner: Send + Sync {
    /// Has the other side run a child. Called where the child's announcement has entered its session's stream; it must not
    /// block. What it cannot do it says by an error on the stream.
    fn run(&self, order: Order, instructions: Instructions) -> RunnerStream;

    /// Whether messages to a child that is under way can be carried. Where they cannot, whoever sends one is told so.
    fn takes_messages(&self) -> bool {
        true
    }

    /// Whether a child may be [run again](Heard::Again). What it has open is kept track of then, which costs a little for
    /// each event.
    fn runs_again(&self) -> bool {
        false
    }
}

/// What flows to a child elsewhere while it runs.
///
/// It has a spelling in JSON, so that it can be sent. Instructions are carried in order. Sessions are named as on this side:
/// the child by [`Order::session_id`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Instruction {
    /// The answer to a question about a call.
    Answer {
        /// The session whose call it is.
        session_id: SessionId,
        /// The call.
        call_id: ToolCallId,
        /// The answer.
        answer: Answer,
    },
    /// A message to a run that is under way.
    Message {
        /// The session.
        session_id: SessionId,
        /// The message.
        content: Vec<ContentBlock>,
    },
    /// A session below the child is to be stopped. The child itself is stopped by dropping its stream.
    Stop {
        /// The session.
        session_id: SessionId,
    },
}

/// Stream of the [`Instruction`]s for one child. It ends with the child.
///
/// Dropping it means that instructions cannot be carried: messages to the child are refused then, and where it asks
/// something it has failed.
///
/// # Cancel safety
/// `next()` loses nothing when dropped.
#[derive(Debug)]
#[must_use = "a child whose instructions nobody reads waits for its answers in vain"]
pub struct Instructions(mpsc::Receiver<Instruction>);

impl Instructions {
    pub(super) fn new() -> (mpsc::Sender<Instruction>, Self) {
        let (sender, receiver) = mpsc::channel(INSTRUCTIONS);
        (sender, Self(receiver))
    }
}

impl Stream for Instructions {
    type Item = Instruction;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instruction>> {
        self.0.poll_recv(cx)
    }
}
