//! The command line.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    pin::pin,
    process::ExitCode,
};

use anabranch_runtime::Read;
use clap::{Parser, ValueEnum};
use futures::StreamExt as _;

use crate::{
    output::{Look, Printer},
    plan::{Node, Pace, Plan},
    run::Run,
    summary::Summary,
};

/// Somebody stopped the run by Ctrl-C: 128 and the number of the signal.
const STOPPED: u8 = 130;

/// How many events are shown at once, where so many are at hand.
const BATCH: usize = 64;

/// Two sub-agents analyse a CSV file each, side by side in one stream; a third compares what they found.
///
/// The models are scripts, the tools are real: every figure comes from the files. Exits with 1 where a sub-agent failed.
#[derive(Debug, Parser)]
#[command(name = "anabranch-demo", bin_name = "cargo xtask demo", version)]
struct Options {
    /// How to write the events
    #[arg(long = "as", value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Compare these CSV files instead of Seattle's and New York's weather
    #[arg(long, num_args = 2, value_names = ["A.csv", "B.csv"])]
    input: Vec<PathBuf>,

    /// Write the results into this folder instead of a temporary one
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Make this node's first tool fail
    #[arg(long, value_name = "NODE", value_enum)]
    fail: Vec<Node>,

    /// Let n1 spawn a sub-agent of its own
    #[arg(long)]
    nested: bool,

    /// Give a node two sub-agents, one for the odd rows and one for the even
    #[arg(long, value_name = "NODE=2", value_parser = fan)]
    fan: Vec<Node>,
}

/// How to write the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Lines for people
    Text,
    /// A JSON line per change of a tool-call card
    ToolCalls,
    /// A JSON line per event
    Native,
}

/// Reads `n1=2`.
fn fan(text: &str) -> Result<Node, String> {
    let (node, count) =
        text.split_once('=').ok_or("write a node and how many sub-agents it gets, as in n1=2")?;
    let node = Node::ANALYSES
        .into_iter()
        .find(|known| known.as_str() == node)
        .ok_or_else(|| format!("`{node}` is no node that analyses a file; n1 and n2 are"))?;
    match count {
        "2" => Ok(node),
        _ => Err("a node fans out to 2 sub-agents: one for the odd rows, one for the even".to_owned()),
    }
}

impl Options {
    fn plan(&self) -> Plan {
        let mut plan = Plan::new();
        if let [first, second] = self.input.as_slice() {
            plan = plan.inputs([first.clone(), second.clone()]);
        }
        if let Some(folder) = &self.out {
            plan = plan.out(folder.clone());
        }
        plan = self.fail.iter().fold(plan, |plan, node| plan.fail(*node));
        plan = self.fan.iter().fold(plan, |plan, node| plan.fan(*node));
        if self.nested { plan.nested() } else { plan }
    }
}

/// Runs the demo as the command line says.
#[must_use]
pub fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            // Where even this cannot be written, there is nobody to tell.
            error.print().ok();
            return u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    let ended = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("the runtime cannot start: {error}"))
        .and_then(|runtime| runtime.block_on(run(&options)));
    match ended {
        Ok(ended) => ended.into(),
        Err(message) => {
            complain(&message);
            ExitCode::FAILURE
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// Every agent did its work.
    Completed,
    /// One did not.
    Failed,
    /// Somebody stopped it.
    Stopped,
    /// Nobody reads any more.
    Unread,
}

impl From<Ended> for ExitCode {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Completed | Ended::Unread => Self::SUCCESS,
            Ended::Failed => Self::FAILURE,
            Ended::Stopped => Self::from(STOPPED),
        }
    }
}

async fn run(options: &Options) -> Result<Ended, String> {
    let look = Look::of_stdout(options.format == Format::Text);
    let pace = if look.is_terminal() { Pace::watchable() } else { Pace::default() };
    let run = options.plan().pace(pace).start().await.map_err(|error| with_causes(&error))?;
    let mut printer = match options.format {
        Format::Text => Printer::text(look),
        Format::ToolCalls => Printer::tool_calls(),
        Format::Native => Printer::native(),
    };
    let session = run.session.clone();
    let shown = show(run, &mut printer, options.format).await;
    session.close().await;
    match shown {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Ended::Unread),
        Err(error) => Err(format!("the output cannot be written: {error}")),
        Ok(ended) => Ok(ended),
    }
}

/// Shows the run until it ends. The first Ctrl-C stops the run, whose end is still shown; the second leaves at once.
async fn show(run: Run, printer: &mut Printer, format: Format) -> io::Result<Ended> {
    let Run { session, reply, folder } = run;
    let mut batches = reply.ready_chunks(BATCH);
    let mut summary = Summary::default();
    let mut is_stopped = false;
    // One future until it is ready: a Ctrl-C that comes while a batch is written is not missed.
    let mut stop = pin!(tokio::signal::ctrl_c());
    loop {
        let batch = tokio::select! {
            biased;
            Ok(()) = &mut stop => {
                if is_stopped {
                    break;
                }
                is_stopped = true;
                session.cancel();
                stop.set(tokio::signal::ctrl_c());
                continue;
            }
            batch = batches.next() => batch,
        };
        let Some(batch) = batch else { break };
        for read in batch {
            match read {
                Read::Event(admitted) => {
                    summary.observe(&admitted.event);
                    printer.event(&admitted)?;
                }
                Read::Gap { from, to } => {
                    complain(&format!("events {from} to {to} came too late to be shown"));
                }
            }
        }
        printer.show(&summary)?;
    }
    printer.finish()?;
    let place = format!("results in {}", folder.display());
    match format {
        Format::Text => printer.line(&format!("{summary}; {place}"))?,
        Format::ToolCalls | Format::Native => complain(&place),
    }
    Ok(match (is_stopped, summary.is_success()) {
        (true, _) => Ended::Stopped,
        (false, true) => Ended::Completed,
        (false, false) => Ended::Failed,
    })
}

/// Tells on stderr what belongs to no event.
fn complain(message: &str) {
    // Where even this cannot be written, there is nobody to tell.
    writeln!(io::stderr(), "anabranch-demo: {message}").ok();
}

/// An error and what lies behind it.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn only_a_node_with_a_file_fans_out_and_to_two() {
        assert_eq!(fan("n1=2"), Ok(Node::N1));
        for text in ["n1", "n3=2", "n1=1", "n1=3", "n1=", "=2", ""] {
            assert!(fan(text).is_err(), "{text}");
        }
    }
}
