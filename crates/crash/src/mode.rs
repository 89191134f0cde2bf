//! How the store is opened, and what is promised then.

use std::time::Duration;

use anabranch_server::StoreLogs;
use anabranch_store::{Barriers, Retention, Safety, StoreOptions};
use clap::ValueEnum;

/// How the store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// As the server does by itself.
    Default,
    /// The same without waiting for the disk: what ends is the process.
    ProcessEnd,
    /// As the server does, and old runs are forgotten.
    Forgetting,
    /// Only barriers are held.
    Held,
    /// Nothing is held.
    Open,
}

/// What of the events that a reader saw has to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// All of them, so that cursors are good.
    All,
    /// Those up to the last barrier.
    UptoBarriers,
    /// Those that were said to be durable.
    Durable,
}

impl Mode {
    pub(crate) const ALL: [Self; 5] =
        [Self::Default, Self::Held, Self::Forgetting, Self::ProcessEnd, Self::Open];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::ProcessEnd => "process-end",
            Self::Forgetting => "forgetting",
            Self::Held => "held",
            Self::Open => "open",
        }
    }

    pub(crate) fn options(self) -> StoreOptions {
        let options = StoreLogs::options().linger(Duration::from_millis(5));
        match self {
            Self::Default => options,
            Self::ProcessEnd => options.safety(Safety::ProcessEnd),
            Self::Forgetting => options.retention(Retention::all().events(400)),
            Self::Held => options.barriers(Barriers::Held),
            Self::Open => options.barriers(Barriers::Open).safety(Safety::ProcessEnd),
        }
    }

    pub(crate) fn promise(self) -> Promise {
        match self {
            Self::Default | Self::ProcessEnd | Self::Forgetting => Promise::All,
            Self::Held => Promise::UptoBarriers,
            Self::Open => Promise::Durable,
        }
    }
}
