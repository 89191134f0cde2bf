//! The command line of `anabranch`.

mod acp;
mod demo;
mod descriptors;
mod event_logs;
mod kept;
mod nats;
mod results;
mod serve;
mod signals;
mod worker;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Agents and their sub-agents, served.
#[derive(Debug, Parser)]
#[command(name = "anabranch", version, arg_required_else_help = true)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

/// One for each way to be served.
#[derive(Debug, Subcommand)]
enum Command {
    /// Speaks the Agent Client Protocol over stdin and stdout, with the demo's agents.
    Acp(acp::Options),
    /// Serves the demo's agents over HTTP, as runs of AG-UI.
    Serve(Box<serve::Options>),
    /// Runs sub-agents for sessions elsewhere: takes their orders from a NATS JetStream queue, with the demo's agents.
    Worker(worker::Options),
}

/// The program: reads the command line, serves, and says how that ended.
#[must_use]
pub fn main() -> ExitCode {
    let Options { command } = Options::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let ended = runtime.block_on(async {
        match command {
            Command::Acp(options) => acp::run(options).await,
            Command::Serve(options) => serve::run(*options).await,
            Command::Worker(options) => worker::run(options).await,
        }
    });
    // What a client does not read, and a tool that waits for a disk, do not keep the process.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&*error),
    }
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    let causes = std::iter::successors(error.source(), |error| error.source());
    let message = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
    // Where even this cannot be written, there is nobody to tell.
    std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("anabranch: {message}\n")).ok();
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }
}
