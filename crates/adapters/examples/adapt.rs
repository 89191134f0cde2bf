//! Gives an adapter so many of something: what `cargo xtask linear` counts instructions of.

use std::process::ExitCode;

use anabranch_adapters::{
    Adapter,
    acp::Acp,
    ag_ui::{AgUi, RunIds},
    coalesce::Coalesce,
    text::Text,
    tool_calls::ToolCalls,
};
use anabranch_proto::{
    ChildScope, Event, EventKind, Metadata, Outcome, Scope, SpawnMechanism, Timestamp, ToolCallBlock,
    ToolResultState,
    event::{
        RequireUserConfirm, SpawnSessionStart, StreamComplete, TextBlockDelta, TextBlockEnd, ToolCallDelta,
        ToolCallEnd, ToolCallStart, ToolResultEnd, ToolResultTextDelta,
    },
};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [adapter, what, count] = &*arguments else { return usage() };
    let Ok(count) = count.parse() else { return usage() };
    let done = match adapter.as_str() {
        "text" => give(Text::new().width(80), what, count),
        "tool-calls" => give(ToolCalls::new(), what, count),
        "acp-cards" => give(Acp::cards("root"), what, count),
        "acp-sessions" => give(Acp::sessions("root"), what, count),
        "ag-ui" => give(AgUi::new("root", RunIds::new("thread", "run")), what, count),
        _ => None,
    };
    done.map_or_else(usage, |()| ExitCode::SUCCESS)
}

fn usage() -> ExitCode {
    ExitCode::from(2)
}

/// A child's run.
fn child(number: usize, run: u32) -> ChildScope {
    ChildScope::new(format!("child {number}"), "root", format!("sub-agent {number}"), "worker").run(run)
}

/// An adapter that is given events; each of its frames is looked at.
struct Given<A>(Coalesce<A>);

impl<A: Adapter> Given<A> {
    fn event(&mut self, scope: impl Into<Scope>, kind: impl Into<EventKind>) {
        let event =
            Event::new("id", Timestamp::from_unix(0, 0), scope.into(), Metadata::default(), kind.into());
        self.0.event(&event, &mut |frame| {
            std::hint::black_box(&frame);
        });
    }

    fn spawn(&mut self, child: &ChildScope) {
        let mut spawn = SpawnSessionStart::new(child, SpawnMechanism::Sync, "work");
        spawn.tool_call_id = Some("spawn".into());
        self.event(Scope::Root, spawn);
    }
}

fn give<A: Adapter>(adapter: A, what: &str, count: usize) -> Option<()> {
    let mut given = Given(Coalesce::new(adapter));
    let (worker, numbers) = (Scope::from(child(0, 1)), 0..count);
    let name = |number: usize| format!("{number}");
    given.event(Scope::Root, ToolCallStart::new("reply", "spawn", "spawn_subagent"));
    given.spawn(&child(0, 1));
    match what {
        "pieces" => {
            for _ in numbers {
                given.event(worker.clone(), TextBlockDelta::new("reply", "block", "a few words "));
            }
        }
        // As many are open at once.
        "blocks" => {
            for _ in 0..2 {
                for number in numbers.clone() {
                    given.event(worker.clone(), TextBlockDelta::new("reply", name(number), "words "));
                }
            }
            // The last ends first.
            for number in numbers.rev() {
                given.event(worker.clone(), TextBlockEnd::new("reply", name(number)));
            }
        }
        "calls" => {
            for number in numbers.clone() {
                given.event(worker.clone(), ToolCallStart::new("reply", name(number), "read"));
                given.event(worker.clone(), ToolCallDelta::new("reply", name(number), "{}"));
                given.event(worker.clone(), ToolCallEnd::new("reply", name(number)));
            }
            let call = |number| ToolCallBlock::new(name(number), "read", "{}");
            let calls: Vec<_> = numbers.clone().map(call).collect();
            given.event(worker.clone(), RequireUserConfirm::new("reply", calls));
            for number in numbers.rev() {
                given.event(worker.clone(), ToolResultTextDelta::new("reply", name(number), "words"));
                let end = ToolResultEnd::new("reply", name(number), ToolResultState::Success);
                given.event(worker.clone(), end);
            }
        }
        // Of one call, and all at work at once.
        "children" => {
            for number in numbers.clone() {
                given.spawn(&child(number, 1));
            }
            given.event(Scope::Root, StreamComplete::new(Outcome::Completed));
            for number in numbers.rev() {
                given.event(child(number, 1), TextBlockDelta::new("reply", "block", "words"));
                given.event(child(number, 1), StreamComplete::new(Outcome::Completed));
            }
        }
        // Of one session, with something that comes late from each.
        "runs" => {
            let runs = || (2..).take(count);
            given.event(worker, StreamComplete::new(Outcome::Completed));
            for run in runs() {
                given.event(
                    Scope::Root,
                    SpawnSessionStart::new(&child(0, run), SpawnMechanism::Manual, "work"),
                );
                given.event(child(0, run), StreamComplete::new(Outcome::Completed));
            }
            for run in runs() {
                given.event(child(0, run), TextBlockDelta::new("reply", "block", "words"));
            }
        }
        _ => return None,
    }
    given.0.finish(&mut |frame| {
        std::hint::black_box(&frame);
    });
    Some(())
}
