//! What a seed stands for: a conversation, as plain data.
//!
//! A plan says what every fake does, so that one can be shrunk and printed, and so that the checks know what must come
//! out. Numbers name agents and calls: a part that is taken away leaves the others what they were.

mod around;
mod behaviour;
mod generate;
mod spawn;
mod walk;

pub use behaviour::{Ask, Behaviour, Meddling, Refusal, TurnEnd};
pub(crate) use behaviour::{PANIC, REPORTS};
pub(crate) use generate::WINDOW;
pub use generate::generate;
pub use spawn::{Child, ForeignEnd, ForeignPlan, SpawnPlan, TeamPlan, Way};
pub use walk::{agents, calls, depth};

/// A whole conversation: prompts, who reads, what goes wrong.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "plain data of an internal tool, made and taken apart everywhere"
)]
pub struct Plan {
    /// The session's limits.
    pub limits: LimitsPlan,
    /// How many bytes of events the log keeps; none for all.
    pub retention: Option<usize>,
    /// What is asked, in order.
    pub prompts: Vec<PromptPlan>,
    /// Who reads besides the replies.
    pub readers: Vec<ReaderPlan>,
    /// Who stops what, and when.
    pub cancels: Vec<CancelPlan>,
    /// After how many milliseconds without an end the session is closed whatever runs.
    pub patience: u64,
    /// How many milliseconds lie between the end of the last run and that of the session.
    pub linger: u64,
    /// How the session ends.
    pub ending: SessionEnding,
}

/// The session's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "plain data of an internal tool, made and taken apart everywhere"
)]
pub struct LimitsPlan {
    /// How deep a child may lie.
    pub depth: u32,
    /// How many children at once.
    pub running: usize,
    /// How many children in total.
    pub spawned: usize,
    /// How many model calls a reply.
    pub iterations: u32,
    /// How many bytes a lossless reader may be behind.
    pub window: usize,
    /// How many milliseconds a lossless reader may hold producers back.
    pub stall: u64,
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a choice of an internal tool")]
pub enum SessionEnding {
    /// By `Session::close`.
    Close,
    /// By dropping every handle.
    Drop,
}

/// One prompt and what the root does for it.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "plain data of an internal tool, made and taken apart everywhere"
)]
pub struct PromptPlan {
    /// Whether it is given while the one before it is answered.
    pub queued: bool,
    /// What becomes of the stream of the reply.
    pub reply: ReplyPlan,
    /// What the root does.
    pub agent: AgentPlan,
}

/// How somebody reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a choice of an internal tool")]
pub enum Pace {
    /// As fast as can be.
    Fast,
    /// With a pause of so many milliseconds after every eighth event.
    Slow(u64),
    /// Not at all.
    Never,
}

/// What becomes of the stream of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "plain data of an internal tool, made and taken apart everywhere"
)]
pub struct ReplyPlan {
    /// How it is read.
    pub pace: Pace,
    /// What its reader does in the end.
    pub fate: Fate,
}

/// What the reader of a reply does in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a choice of an internal tool")]
pub enum Fate {
    /// Reads to the end.
    Reads,
    /// Cancels the reply after so many events and reads on.
    Cancels(u64),
    /// Drops the reply after so many events, which cancels nothing.
    Leaves(u64),
    /// Drops the reply after so many events, which cancels it.
    LeavesAndCancels(u64),
    /// Reads to the end, and then at once cancels what the session does next.
    CancelsNext,
}

/// A reader that subscribes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "plain data of an internal tool, made and taken apart everywhere"
)]
pub struct ReaderPlan {
    /// Whether it holds producers back.
    pub lossless: bool,
    /// How it reads.
    pub pace: Pace,
    /// After how many milliseconds it comes.
    pub comes: u64,
    /// After which number it begins to read.
    pub after: u64,
    /// After how many events it goes; none where it stays.
    pub vanishes: Option<u64>,
}

/// Who stops what, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "plain data of an internal tool, made and taken apart everywhere"
)]
pub struct CancelPlan {
    /// At which poll of all the fakes' polls, from 1.
    pub poll: u64,
    /// What is called there.
    pub how: CancelHow,
}

/// What is called to stop something. Each happens inside a poll of a fake, so in the middle of the driver's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "a choice of an internal tool")]
pub enum CancelHow {
    /// `Session::cancel`.
    Session,
    /// `Session::close`, its future dropped at once.
    Close,
    /// `Session::cancel`, by a task of its own, so between the driver's turns.
    Task,
    /// `Session::cancel`, outside of all polls of fakes; no row of a plan.
    Now,
    /// `Session::cancel_session`, of a child.
    Child,
    /// `Session::steer`, which stops nothing: something is said to a child, or to the root.
    Steer,
}

/// An agent: what its model answers, turn by turn. Beyond the last turn it says `done`.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "plain data of an internal tool, made and taken apart everywhere"
)]
pub struct AgentPlan {
    /// Its number, unique in the plan.
    pub number: u32,
    /// What its model answers.
    pub turns: Vec<TurnPlan>,
}

/// One answer of a model.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "plain data of an internal tool, made and taken apart everywhere"
)]
pub struct TurnPlan {
    /// What it gives.
    pub parts: Vec<Part>,
    /// How it ends.
    pub end: TurnEnd,
}

/// A part of a model's answer.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a choice of an internal tool")]
pub enum Part {
    /// So many words of text.
    Text(u64),
    /// So many words of thinking.
    Thinking(u64),
    /// Tokens used.
    Usage(u64),
    /// A pause of so many milliseconds.
    Pause(u64),
    /// Pending once, and woken at once.
    Yield,
    /// A call.
    Call(CallPlan),
}

/// A call and what comes of it.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "plain data of an internal tool, made and taken apart everywhere"
)]
pub struct CallPlan {
    /// Its number, unique in the plan.
    pub number: u32,
    /// Whether the model calls it `call_0`, as it does others.
    pub repeated: bool,
    /// Whether its arguments come in parts.
    pub in_parts: bool,
    /// What it does.
    pub work: Work,
    /// What a layer around it does.
    pub meddling: Meddling,
    /// Whether a person is asked first, and what they answer.
    pub ask: Option<Ask>,
}

/// What a call does.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a choice of an internal tool")]
pub enum Work {
    /// Runs a tool.
    Tool {
        /// What the tool does.
        behaviour: Behaviour,
        /// Whether it must run alone.
        exclusive: bool,
    },
    /// Is refused before a tool runs.
    Refused(Refusal),
    /// Spawns a child.
    Spawn(Box<SpawnPlan>),
    /// Is run by somebody else, who gives its result after so many milliseconds; none where nobody does.
    External(Option<u64>),
}
