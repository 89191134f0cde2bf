//! The command line.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use anabranch_adapters::{acp::Acp, ag_ui::Mode, visibility::Visibility};
use anabranch_proto::Outcome;
use anabranch_runtime::Read;
use clap::{CommandFactory as _, Parser, ValueEnum};
use futures::StreamExt as _;
use tokio::runtime::Runtime;

use crate::{
    output::{Look, Printer},
    plan::{Node, Pace, Plan},
    run::{Run, StartError},
    shown::visible,
    stop::{self, STOPPED},
    summary::Summary,
};

/// The command line is wrong.
const USAGE: u8 = 2;

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
    #[arg(long, num_args = 2, value_names = ["A.csv", "B.csv"], action = clap::ArgAction::Set)]
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

    /// Hide this from the output, whatever its format; may be given again
    #[arg(long, value_name = "WHAT", value_enum)]
    hide: Vec<Hidden>,
}

/// What to hide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Hidden {
    /// What the models think
    Thinking,
    /// What agents ask agents, as prompts and as arguments of the calls that spawn
    Prompts,
    /// The arguments of all tools
    Arguments,
    /// What all tools answer
    Results,
    /// The sub-agents of this node, and theirs
    N1,
    /// The sub-agents of this node, and theirs
    N2,
    /// The sub-agents of this node, and theirs
    N3,
}

impl Hidden {
    fn from(self, view: Visibility) -> Visibility {
        match self {
            Self::Thinking => view.hide_thinking(),
            Self::Prompts => view.hide_prompts(),
            Self::Arguments => view.hide_arguments(|_| true),
            Self::Results => view.hide_results(|_| true),
            Self::N1 | Self::N2 | Self::N3 => view,
        }
    }

    /// The node whose sub-agents are hidden.
    fn node(self) -> Option<Node> {
        match self {
            Self::Thinking | Self::Prompts | Self::Arguments | Self::Results => None,
            Self::N1 => Some(Node::N1),
            Self::N2 => Some(Node::N2),
            Self::N3 => Some(Node::N3),
        }
    }
}

/// How to write the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Lines for people
    Text,
    /// A JSON line per change of a tool-call card
    ToolCalls,
    /// The Agent Client Protocol's updates, with a card per sub-agent
    Acp,
    /// The same with a session per sub-agent, for clients that know such
    AcpSessions,
    /// A JSON line per event
    Native,
    /// A JSON line per event, as agentscope 2 reads them
    Flat,
    /// Server-sent events of AG-UI 1.0, with a sub-agent per child
    AgUi,
    /// The same for AG-UI's clients before 0.0.59: children are named, and not announced
    AgUiAttribution,
    /// The same with all that children do among what the master does
    AgUiInline,
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

    /// What is shown of the run.
    fn view(&self) -> Visibility {
        let mut view = self.hide.iter().fold(Visibility::new(), |view, hidden| hidden.from(view));
        let is_hidden = |hidden| self.hide.contains(&hidden);
        // A model writes its sub-agents' prompts as arguments first.
        if is_hidden(Hidden::Prompts) && !is_hidden(Hidden::Arguments) {
            view = view.hide_arguments(|tool| tool == "spawn_subagent");
        }
        let nodes: Vec<Node> = self.hide.iter().filter_map(|hidden| hidden.node()).collect();
        if nodes.is_empty() {
            return view;
        }
        view.hide_children(move |child| {
            let node = child.metadata.get_str("node_id");
            nodes.iter().any(|hidden| node.as_deref() == Some(hidden.as_str()))
        })
    }
}

/// Runs the demo as the command line says.
#[must_use]
pub fn main() -> ExitCode {
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) if error.use_stderr() => {
            let message = with_usage(&error.render().to_string());
            // Where even this cannot be written, there is nobody to tell.
            io::stderr().write_all(message.as_bytes()).ok();
            return ExitCode::from(USAGE);
        }
        Err(answer) => {
            answer.print().ok();
            return ExitCode::SUCCESS;
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Failure::new(&error).because("the runtime cannot start").told(),
    };
    let ended = run(&runtime, &options);
    // A tool that waits for a disk does not keep the process.
    runtime.shutdown_background();
    ended.map_or_else(Failure::told, ExitCode::from)
}

/// What is wrong with a command line, with the usage; what was written there is made harmless.
fn with_usage(message: &str) -> String {
    let mut message = message.lines().map(|line| visible(line) + "\n").collect::<String>();
    if !message.contains("Usage: ") {
        let usage = format!("{}\n\n", Options::command().render_usage());
        let at = message.find("For more information").unwrap_or(message.len());
        message.insert_str(at, &usage);
    }
    message
}

/// Why there is no run, or none to see.
#[derive(Debug)]
struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    fn new(error: &dyn std::error::Error) -> Self {
        let causes = std::iter::successors(error.source(), |error| error.source());
        let message = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
        Self { message, code: 1 }
    }

    fn because(self, what: &str) -> Self {
        Self { message: format!("{what}: {}", self.message), ..self }
    }

    fn told(self) -> ExitCode {
        complain(&self.message);
        ExitCode::from(self.code)
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let code = if let StartError::Overwrites { .. } = error { USAGE } else { 1 };
        Self { code, ..Self::new(&error) }
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
}

impl From<Ended> for ExitCode {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Completed => Self::SUCCESS,
            Ended::Failed => Self::FAILURE,
            Ended::Stopped => Self::from(STOPPED),
        }
    }
}

fn run(runtime: &Runtime, options: &Options) -> Result<Ended, Failure> {
    let look = Look::of_stdout(options.format == Format::Text);
    let pace = if look.is_terminal() { Pace::watchable() } else { Pace::default() };
    let mut run = runtime.block_on(options.plan().pace(pace).start())?;
    stop::on_ctrl_c(run.session.clone())
        .map_err(|error| Failure::new(&error).because("Ctrl-C cannot be listened for"))?;
    let mut printer = match options.format {
        Format::Text => Printer::text(look),
        Format::ToolCalls => Printer::tool_calls(),
        Format::Acp => Printer::acp(Acp::cards(run.session.id().as_str())),
        Format::AcpSessions => Printer::acp(Acp::sessions(run.session.id().as_str())),
        Format::Native => Printer::native(),
        Format::Flat => Printer::flat(),
        Format::AgUi => Printer::ag_ui(&run.session, Mode::Attributed),
        Format::AgUiAttribution => Printer::ag_ui(&run.session, Mode::AttributionOnly),
        Format::AgUiInline => Printer::ag_ui(&run.session, Mode::Inline),
    };
    runtime.block_on(async {
        let shown = show(&mut run, &mut printer, options).await;
        run.session.close().await;
        shown.map_err(|error| Failure::new(&error).because("the output cannot be written"))
    })
}

/// Shows the run until it ends. Where nobody reads any more, the run goes on all the same: its results are written, and
/// the exit code says how it ended.
async fn show(run: &mut Run, printer: &mut Printer, options: &Options) -> io::Result<Ended> {
    let mut batches = run.reply.by_ref().ready_chunks(BATCH);
    let mut view = options.view();
    // How the run went is said by all of it, what is told of it by what is shown.
    let (mut all, mut summary) = (Summary::default(), Summary::default());
    let mut is_read = true;
    while let Some(batch) = batches.next().await {
        for read in batch {
            match read {
                Read::Event(admitted) => {
                    all.observe(&admitted.event);
                    let Some(event) = view.pass(&admitted.event) else { continue };
                    summary.observe(&event);
                    if is_read {
                        // Where events are missing, their numbers would look as if some were lost.
                        let seq = options.hide.is_empty().then_some(admitted.seq);
                        printer.event(seq, &event)?;
                    }
                }
                Read::Gap { from, to } => {
                    complain(&format!("events {from} to {to} came too late to be shown"));
                }
            }
        }
        is_read = is_read && still_read(printer.show(&summary))?;
    }
    let place = match run.results() {
        Some(folder) => format!("results in {}", visible(&folder.to_string_lossy())),
        None => "no results were written".to_owned(),
    };
    if is_read && still_read(printer.finish())? {
        match options.format {
            Format::Text => still_read(printer.line(&format!("{summary}; {place}")))?,
            Format::ToolCalls
            | Format::Acp
            | Format::AcpSessions
            | Format::Native
            | Format::Flat
            | Format::AgUi
            | Format::AgUiAttribution
            | Format::AgUiInline => {
                complain(&place);
                true
            }
        };
    }
    // What the stream says, so that the two do not contradict each other: a Ctrl-C may come too late to stop anything.
    Ok(match all.outcome() {
        Some(Outcome::Interrupted) => Ended::Stopped,
        Some(_) | None if all.is_success() => Ended::Completed,
        Some(_) | None => Ended::Failed,
    })
}

/// Whether somebody still reads what was written.
fn still_read(written: io::Result<()>) -> io::Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// Tells on stderr what belongs to no event.
fn complain(message: &str) {
    // Where even this cannot be written, there is nobody to tell.
    writeln!(io::stderr(), "anabranch-demo: {}", visible(message)).ok();
}

#[cfg(test)]
mod tests {
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
