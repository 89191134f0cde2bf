//! What tools, layers and models do, as tables: a new behaviour is a row with its weight and what must come of it.

use anabranch_proto::ToolResultState;

/// How a model's answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "a table of an internal tool")]
pub enum TurnEnd {
    /// In order.
    Done,
    /// With an error.
    Error,
    /// With a panic.
    Panic,
    /// With a panic when the stream is dropped.
    PanicInDrop,
    /// Never: it says nothing more.
    Silent,
    /// Never: it talks without end.
    Endless,
}

impl TurnEnd {
    /// Each way to end, and how often.
    pub(crate) const TABLE: &[(u64, Self)] = &[
        (900, Self::Done),
        (25, Self::Error),
        (15, Self::Panic),
        (15, Self::PanicInDrop),
        (12, Self::Silent),
        (10, Self::Endless),
    ];
}

/// What a tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "a table of an internal tool")]
pub enum Behaviour {
    /// Gives a result.
    Ok,
    /// Fails.
    Error,
    /// Says that it was refused.
    Denied,
    /// Says that it was stopped.
    Stopped,
    /// Ends without a word.
    Nothing,
    /// Panics when it is called.
    PanicAtCall,
    /// Panics after its first chunk.
    PanicAtPoll,
    /// Gives a result, and panics when it is dropped.
    PanicInDrop,
    /// An async function whose future panics when it is dropped.
    PanicInFuture,
    /// Never ends.
    Hang,
    /// Sleeps, then gives a result.
    Slow,
    /// Gives its result in many parts.
    Chatter,
    /// Gives text and data by turns, and is pending in between.
    Mixed,
    /// Goes on after its last chunk.
    AfterLast,
    /// Goes on after its last chunk, and panics.
    PanicAfterLast,
    /// Emits `CUSTOM` events by its context, more than the queue holds.
    Emits,
    /// Leaves its context to a task that goes on to emit `CUSTOM` events.
    Leaves,
    /// Yields `CUSTOM` events.
    Yields,
    /// Says what only others may: its caller's text and end, a sibling's text and end.
    Forges,
    /// Gives more than it may.
    TooMuch,
    /// Runs a blocking closure.
    Blocking,
    /// An async function with typed arguments.
    Typed,
    /// Cancels the session's reply from inside, then gives a result.
    Cancels,
}

impl Behaviour {
    /// Each behaviour, and how often.
    pub(crate) const TABLE: &[(u64, Self)] = &[
        (60, Self::Ok),
        (20, Self::Error),
        (8, Self::Denied),
        (6, Self::Stopped),
        (8, Self::Nothing),
        (8, Self::PanicAtCall),
        (10, Self::PanicAtPoll),
        (8, Self::PanicInDrop),
        (8, Self::PanicInFuture),
        (8, Self::Hang),
        (30, Self::Slow),
        (14, Self::Chatter),
        (14, Self::Mixed),
        (8, Self::AfterLast),
        (6, Self::PanicAfterLast),
        (14, Self::Emits),
        (8, Self::Leaves),
        (12, Self::Yields),
        (12, Self::Forges),
        (5, Self::TooMuch),
        (2, Self::Blocking),
        (12, Self::Typed),
        (2, Self::Cancels),
    ];

    /// The state of the call's result; none where the tool never ends.
    #[must_use]
    pub fn state(self) -> Option<ToolResultState> {
        Some(match self {
            Self::Hang => return None,
            Self::Error
            | Self::PanicAtCall
            | Self::PanicAtPoll
            | Self::PanicInDrop
            | Self::PanicInFuture
            | Self::TooMuch => ToolResultState::Error,
            Self::Denied => ToolResultState::Denied,
            Self::Stopped => ToolResultState::Interrupted,
            Self::Ok
            | Self::Nothing
            | Self::Slow
            | Self::Chatter
            | Self::Mixed
            | Self::AfterLast
            | Self::PanicAfterLast
            | Self::Emits
            | Self::Leaves
            | Self::Yields
            | Self::Forges
            | Self::Blocking
            | Self::Typed
            | Self::Cancels => ToolResultState::Success,
        })
    }

    /// What the result's text has in it.
    #[must_use]
    pub fn says(self, number: u32) -> String {
        match self {
            Self::Nothing | Self::Hang => String::new(),
            Self::PanicAtCall | Self::PanicAtPoll | Self::PanicInDrop | Self::PanicInFuture => {
                format!("panicked: {PANIC}")
            }
            Self::TooMuch => "and was cut".to_owned(),
            Self::Ok
            | Self::Error
            | Self::Denied
            | Self::Stopped
            | Self::Slow
            | Self::Chatter
            | Self::Mixed
            | Self::AfterLast
            | Self::PanicAfterLast
            | Self::Emits
            | Self::Leaves
            | Self::Yields
            | Self::Forges
            | Self::Blocking
            | Self::Typed
            | Self::Cancels => format!("<{number}>"),
        }
    }
}

/// What each panic that is planned says; any other is a finding.
pub(crate) const PANIC: &str = "planned";

/// How many `CUSTOM` events a tool makes that makes any: more than the queue of a call holds.
pub(crate) const REPORTS: usize = 11;

/// Why a call is refused before a tool runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "a table of an internal tool")]
pub enum Refusal {
    /// There is no such tool.
    UnknownTool,
    /// The arguments are cut JSON.
    Malformed,
    /// The arguments are no object.
    NoObject,
    /// The arguments are of another type.
    WrongType,
}

impl Refusal {
    /// Each refusal, and how often.
    pub(crate) const TABLE: &[(u64, Self)] =
        &[(3, Self::UnknownTool), (3, Self::Malformed), (1, Self::NoObject), (2, Self::WrongType)];

    /// What the result's text has in it.
    #[must_use]
    pub fn says(self) -> &'static str {
        match self {
            Self::UnknownTool => "there is no tool",
            Self::Malformed | Self::NoObject | Self::WrongType => "invalid arguments",
        }
    }
}

/// What becomes of a call that may not run without leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "a table of an internal tool")]
pub enum Ask {
    /// A person allows it.
    Allowed,
    /// A person allows it with other arguments.
    Edited,
    /// A person refuses it.
    Refused,
    /// Nobody answers.
    Unanswered,
    /// It is forbidden; nobody is asked.
    Forbidden,
}

impl Ask {
    /// Each, and how often.
    pub(crate) const TABLE: &[(u64, Option<Self>)] = &[
        (300, None),
        (14, Some(Self::Allowed)),
        (6, Some(Self::Edited)),
        (8, Some(Self::Refused)),
        (3, Some(Self::Unanswered)),
        (5, Some(Self::Forbidden)),
    ];

    /// Whether the call runs.
    #[must_use]
    pub fn allows(self) -> bool {
        matches!(self, Self::Allowed | Self::Edited)
    }

    /// What the result's text has in it where the call does not run.
    #[must_use]
    pub fn says(self) -> &'static str {
        match self {
            Self::Allowed | Self::Edited => "",
            Self::Refused => "the user did not allow",
            Self::Unanswered => "nobody answered within",
            Self::Forbidden => "may not run: planned",
        }
    }
}

/// What a layer around a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "a table of an internal tool")]
pub enum Meddling {
    /// Forwards.
    None,
    /// Gives every spawn twice.
    RepeatsSpawns,
    /// Gives every event twice.
    RepeatsAll,
    /// Keeps every spawn to itself.
    DropsSpawns,
    /// Keeps the terminal of every child to itself.
    DropsTerminals,
    /// Keeps the ends of blocks and replies to itself.
    DropsEnds,
    /// Says something in a child's name after the child's end.
    SpeaksLate,
    /// Says something in the name of a sibling's child, and ends it.
    Forges,
    /// Panics at the response.
    Panics,
    /// Keeps the response to itself.
    LosesResponse,
}

impl Meddling {
    /// Each meddling, and how often.
    pub(crate) const TABLE: &[(u64, Self)] = &[
        (300, Self::None),
        (8, Self::RepeatsSpawns),
        (8, Self::RepeatsAll),
        (8, Self::DropsSpawns),
        (6, Self::DropsTerminals),
        (6, Self::DropsEnds),
        (8, Self::SpeaksLate),
        (8, Self::Forges),
        (3, Self::Panics),
        (3, Self::LosesResponse),
    ];

    /// Whether it ends the call itself, as failed.
    #[must_use]
    pub fn breaks_call(self) -> bool {
        matches!(self, Self::Panics | Self::LosesResponse)
    }
}
