//! The command line.

use std::path::PathBuf;

use anabranch_proto::{grammar, lines::MAX_LINE};
use clap::{Parser, ValueEnum};

/// Says of a stream of events whether it is well formed.
///
/// Exits with 0 where it is, with 1 where a line is wrong or cannot be read, with 2 where the arguments are.
#[derive(Debug, Parser)]
#[command(name = "anabranch-check", bin_name = "cargo xtask check", version)]
pub(crate) struct Cli {
    /// A file of one event a line, or - for the standard input
    #[arg(value_name = "FILE")]
    pub(crate) input: PathBuf,

    /// Whose stream it is
    #[arg(long, value_enum, default_value_t = Profile::Native)]
    pub(crate) profile: Profile,

    /// How the events are written
    #[arg(long, value_enum, default_value_t = Written::Auto)]
    pub(crate) spelling: Written,

    /// How deep a child may lie
    #[arg(long, value_name = "LEVELS", default_value_t = 5)]
    pub(crate) max_depth: u32,

    /// The longest line that is read
    #[arg(long, value_name = "BYTES", default_value_t = MAX_LINE)]
    pub(crate) max_line: usize,
}

/// Whose stream it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// One of ours
    Native,
    /// agentscope's own: a reply's end is the end, a reply that waits has none, children come unannounced
    Agentscope,
}

/// How the events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Written {
    /// As the first line looks that is not the same in both
    Auto,
    /// A child's event in a `SUB_AGENT` object
    Native,
    /// agentscope's: a child's event has `metadata.subagent_id`
    Flat,
}

impl From<Profile> for grammar::Profile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Native => Self::Native,
            Profile::Agentscope => Self::Agentscope,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
