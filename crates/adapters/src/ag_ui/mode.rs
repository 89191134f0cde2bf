//! What a client is told of children.

/// What a client is told of children. Chosen per client, by the version that it speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Each run of a child is a sub-agent: `SUBAGENT_*` says when it begins and ends, and everything of it bears its
    /// `subagentRunId`. For clients of AG-UI 1.0, and of its packages from 0.0.59 on.
    #[default]
    Attributed,
    /// Everything of a child bears its `subagentRunId`, but no `SUBAGENT_*` is sent: clients before 0.0.59 end with an
    /// error on the first.
    AttributionOnly,
    /// What children say and do stands among what the root says and does, and bears no name. For clients that have no
    /// place for children.
    Inline,
}

impl Mode {
    /// Whether `SUBAGENT_*` is sent.
    pub(super) fn announces(self) -> bool {
        self == Self::Attributed
    }

    /// The `subagentRunId` that a frame of this owner bears.
    pub(super) fn attribution(self, owner: Option<&str>) -> Option<&str> {
        match self {
            Self::Attributed | Self::AttributionOnly => owner,
            Self::Inline => None,
        }
    }
}
