//! Accumulates so many deltas, blocks, pieces of base64 or results: what `cargo xtask linear` counts instructions of.

use std::process::ExitCode;

use anabranch_proto::{
    Event, EventKind, Metadata, Scope, Timestamp, ToolResultState,
    event::{
        DataBlockDelta, DataBlockStart, DataPart, ReplyStart, TextBlockDelta, TextBlockEnd, TextBlockStart,
        ToolCallEnd, ToolCallStart, ToolResultEnd, ToolResultStart,
    },
};
use anabranch_session::MessageAccumulator;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [what, count] = &*arguments else { return usage() };
    let Ok(count) = count.parse::<usize>() else { return usage() };
    let mut messages = MessageAccumulator::new();
    let mut apply = |kind: EventKind| {
        messages.apply(&Event::new("id", Timestamp::from_unix(0, 0), Scope::Root, Metadata::default(), kind));
    };
    apply(ReplyStart::new("session", "reply", "agent").into());
    match what.as_str() {
        "deltas" => {
            apply(TextBlockStart::new("reply", "block").into());
            for _ in 0..count {
                apply(TextBlockDelta::new("reply", "block", "a few words ").into());
            }
        }
        "blocks" => {
            for number in 0..count {
                let block = format!("block {number}");
                apply(TextBlockStart::new("reply", &*block).into());
                apply(TextBlockDelta::new("reply", &*block, "a few words").into());
                apply(TextBlockEnd::new("reply", &*block).into());
            }
        }
        "base64" => {
            apply(DataBlockStart::new("reply", "block", "image/png").into());
            for _ in 0..count {
                // One byte, padded: each piece shifts all that follow.
                let part = DataPart::Base64("aA==".to_owned());
                apply(DataBlockDelta::new("reply", "block", "image/png", part).into());
            }
        }
        "results" => {
            let call = |number: usize| format!("call {number}");
            for number in 0..count {
                apply(ToolCallStart::new("reply", call(number), "tool").into());
                apply(ToolCallEnd::new("reply", call(number)).into());
            }
            // The last call ends first.
            for number in (0..count).rev() {
                apply(ToolResultStart::new("reply", call(number), "tool").into());
                apply(ToolResultEnd::new("reply", call(number), ToolResultState::Success).into());
            }
        }
        _ => return usage(),
    }
    // Read, so that none of it can be left out.
    std::hint::black_box(messages.messages());
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    ExitCode::from(2)
}
