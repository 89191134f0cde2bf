//! Children: how they are spawned and what runs in them.

use anabranch_proto::Outcome;

use super::AgentPlan;

/// A child and how it is spawned.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "plain data of an internal tool, made and taken apart everywhere"
)]
pub struct SpawnPlan {
    /// Whether the tool `spawn_subagent` does it, or a tool's own code.
    pub by_tool: bool,
    /// After how many milliseconds it is stopped. Whole seconds where the tool spawns it.
    pub timeout: Option<u64>,
    /// Where it runs, and whether it is waited for.
    pub way: Way,
    /// Whether it starts from its parent's conversation.
    pub fork: bool,
    /// What runs in it.
    pub child: Child,
}

/// Where a child runs, and whether it is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "a table of an internal tool")]
pub enum Way {
    /// In its parent's task.
    InTask,
    /// On a task of its own.
    OwnTask,
    /// In the background; stopped when the reply is.
    Background,
    /// In the background; goes on when the reply is stopped.
    Kept,
}

impl Way {
    /// Each way, and how often.
    pub(crate) const TABLE: &[(u64, Self)] =
        &[(70, Self::InTask), (14, Self::OwnTask), (12, Self::Background), (4, Self::Kept)];

    /// Each way where many are in the background.
    pub(crate) const BACKGROUND: &[(u64, Self)] =
        &[(30, Self::InTask), (25, Self::OwnTask), (35, Self::Background), (10, Self::Kept)];

    /// Whether nobody waits for it.
    #[must_use]
    pub fn is_background(self) -> bool {
        matches!(self, Self::Background | Self::Kept)
    }
}

/// What runs in a child.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a choice of an internal tool")]
pub enum Child {
    /// An agent.
    Agent(AgentPlan),
    /// Somebody else's stream of events.
    Foreign(ForeignPlan),
    /// Several agents on one task.
    Team(TeamPlan),
}

/// Several agents on one task.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "plain data of an internal tool, made and taken apart everywhere"
)]
pub struct TeamPlan {
    /// Its number, unique among agents.
    pub number: u32,
    /// Whether its members work side by side.
    pub parallel: bool,
    /// Its members.
    pub members: Vec<AgentPlan>,
}

/// Somebody else's stream of events.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "plain data of an internal tool, made and taken apart everywhere"
)]
pub struct ForeignPlan {
    /// Its number, unique among agents.
    pub number: u32,
    /// Whether it begins with a prompt of its own.
    pub prompt: bool,
    /// How many words it says.
    pub words: u64,
    /// A pause of so many milliseconds before it ends.
    pub pause: u64,
    /// A stream that it has spawned itself.
    pub nested: Option<Box<ForeignPlan>>,
    /// How it ends.
    pub end: ForeignEnd,
}

/// How somebody else's stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a choice of an internal tool")]
pub enum ForeignEnd {
    /// With a terminal, and something behind it that nobody may see.
    Terminal(Outcome),
    /// With the end of its reply.
    Reply,
    /// In the middle of its reply.
    Cut,
    /// With a panic.
    Panic,
    /// With the end of its reply, and a panic when it is dropped.
    PanicInDrop,
    /// Never.
    Never,
}
