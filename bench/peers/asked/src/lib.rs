//! A question a line on standard input, an answer a line of JSON on standard output: `{"nanos": 812.5}` of CPU for each
//! item, or `{"none": "why"}` where the library has no such thing.
//!
//! | question | what is done |
//! |---|---|
//! | `spawn 64 10` | ten times, one agent spawns 64 children in one turn, each of one turn with one word |
//! | `pass 4 1000` | four tools each put 1,000 items on the stream of the agent that called them |
//! | `stream 1000` | an agent's model says 1,000 pieces, read from the agent's stream |

use std::io::{self, BufRead as _, Write as _};

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

/// What each piece says, as the bench's own do.
pub const PIECE: &str = "a few words ";

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// So many children in one turn, so often.
    Spawn {
        /// In one turn.
        children: usize,
        /// How often.
        times: usize,
    },
    /// So many tools of so many items.
    Pass {
        /// In one turn.
        tools: usize,
        /// Of each.
        each: usize,
    },
    /// So many pieces of a model's text.
    Stream {
        /// How many.
        pieces: usize,
    },
}

impl Question {
    /// A line's.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let what = words.next()?;
        let mut number = || words.next()?.parse::<usize>().ok().filter(|number| *number > 0);
        match what {
            "spawn" => Some(Self::Spawn { children: number()?, times: number()? }),
            "pass" => Some(Self::Pass { tools: number()?, each: number()? }),
            "stream" => Some(Self::Stream { pieces: number()? }),
            _ => None,
        }
    }

    /// By how many the whole cost is divided.
    #[must_use]
    pub fn items(self) -> usize {
        match self {
            Self::Spawn { children, times } => children * times,
            Self::Pass { tools, each } => tools * each,
            Self::Stream { pieces } => pieces,
        }
    }
}

/// The CPU time of this process, in nanoseconds.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a run takes seconds, which a float holds to the nanosecond")]
pub fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Answers until there are no more questions. `answer` does the work and gives the CPU time it took, in nanoseconds, or
/// says why there is none.
///
/// # Errors
/// Where nobody listens.
pub fn serve(mut answer: impl FnMut(Question) -> Result<f64, String>) -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let line = line?;
        let said = match Question::parse(&line) {
            None => json!({ "none": format!("`{line}` is no question") }),
            #[expect(clippy::cast_precision_loss, reason = "a few millions at most")]
            Some(question) => match answer(question) {
                Ok(nanos) => json!({ "nanos": nanos / question.items() as f64 }),
                Err(why) => json!({ "none": why }),
            },
        };
        let mut out = io::stdout().lock();
        writeln!(out, "{said}")?;
        out.flush()?;
    }
    Ok(())
}
