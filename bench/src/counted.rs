//! Work whose instructions are counted: what is made before, and what is then done.
//!
//! Each case can be made of any number of items. Counted at two numbers, the difference is what an item takes, whatever
//! it takes to start and to end.

use anabranch_adapters::{
    Encode,
    acp::Acp,
    ag_ui::{AgUi, RunIds},
    agentscope::AgentScope,
    encode::{JsonLines, NativeLines, Plain, Sse},
    text::Text,
    tool_calls::ToolCalls,
};
use anabranch_pipeline::{ExecuteToolCalls, Merge};
use anabranch_proto::native::{self, Reader};
use anabranch_session::{EventProcessor, Limits, MessageAccumulator};
use futures::StreamExt as _;

use crate::{
    deltas::Yields,
    measure::runtime,
    rows::{depth, driver, encode::Sample, merge},
    tools::{caller, calls, spawning, stamp},
};

/// What is done while instructions are counted. What it is given it also frees.
pub type Work = Box<dyn FnOnce()>;

/// Events made before, through so many levels of calls.
fn passed(depth: usize, events: usize) -> Work {
    let caller = caller(&stamp());
    let acting = depth::level(&caller, depth, events);
    let runtime = runtime();
    Box::new(move || {
        let merged = ExecuteToolCalls::new(calls("level", 1), caller, &acting);
        let count = runtime.block_on(merged.count());
        assert!(count >= events, "every event passes");
    })
}

/// Events made before, from a tool to the stream of its calls.
#[must_use]
pub fn passed_at_1(events: usize) -> Work {
    passed(1, events)
}

/// The same through five levels.
#[must_use]
pub fn passed_at_5(events: usize) -> Work {
    passed(5, events)
}

/// Events made when they are asked for, of four streams that are always ready.
#[must_use]
pub fn merged_ready(events: usize) -> Work {
    let (stamp, runtime) = (stamp(), runtime());
    let mut all = Merge::new();
    for stream in merge::streams(&stamp, 4, events / 4) {
        all.push(stream);
    }
    Box::new(move || _ = runtime.block_on(all.count()))
}

/// Items of 64 streams, each of which waits before each of its items and is woken.
#[must_use]
pub fn merged_woken(items: usize) -> Work {
    let runtime = runtime();
    let mut all = Merge::new();
    for _ in 0..64 {
        let mut left = items / 64;
        let mut waits = true;
        all.push(futures::stream::poll_fn(move |cx| {
            waits = !waits;
            if !waits {
                cx.waker().wake_by_ref();
                return std::task::Poll::Pending;
            }
            let item = left.checked_sub(1);
            left = item.unwrap_or_default();
            std::task::Poll::Ready(item)
        }));
    }
    Box::new(move || assert_eq!(runtime.block_on(all.count()), items / 64 * 64, "every item passes"))
}

/// Events of a child, through the processor.
#[must_use]
pub fn processed(events: usize) -> Work {
    let Sample { stamp, caller, prelude, events, .. } = Sample::new(events);
    Box::new(move || {
        let mut processor = EventProcessor::new(caller.session_id.clone(), Limits::default());
        let mut admitted = Vec::new();
        for event in prelude.into_iter().chain(events) {
            processor.process(event, &*stamp, &mut admitted);
            admitted.clear();
        }
    })
}

/// Pieces of one block of text, gathered into a message.
#[must_use]
pub fn accumulated(events: usize) -> Work {
    let Sample { prelude, events, .. } = Sample::new(events);
    Box::new(move || {
        let mut messages = MessageAccumulator::new();
        prelude.into_iter().chain(events).for_each(|event| messages.apply(&event));
        std::hint::black_box(messages);
    })
}

/// A child's events, as an encoder writes them.
fn encoded(events: usize, mut encoder: impl Encode + 'static) -> Work {
    let Sample { prelude, events, .. } = Sample::new(events);
    let mut buffer = Vec::with_capacity(32 * 1024);
    Box::new(move || {
        for (seq, event) in (1..).zip(prelude.into_iter().chain(events)) {
            encoder.event(Some(seq), &event, &mut buffer).expect("an event has frames");
            if buffer.len() > 16 * 1024 {
                buffer.clear();
            }
        }
    })
}

/// To lines of the native spelling.
#[must_use]
pub fn encoded_native(events: usize) -> Work {
    encoded(events, NativeLines)
}

/// To agentscope's server-sent events.
#[must_use]
pub fn encoded_agentscope(events: usize) -> Work {
    encoded(events, Sse::new(AgentScope))
}

/// To AG-UI's server-sent events.
#[must_use]
pub fn encoded_ag_ui(events: usize) -> Work {
    encoded(events, Sse::new(AgUi::new("session", RunIds::new("thread", "run"))))
}

/// To lines of the Agent Client Protocol.
#[must_use]
pub fn encoded_acp(events: usize) -> Work {
    encoded(events, JsonLines::new(Acp::sessions("editor")))
}

/// To lines of tool calls.
#[must_use]
pub fn encoded_tool_calls(events: usize) -> Work {
    encoded(events, JsonLines::new(ToolCalls::new()))
}

/// To plain text.
#[must_use]
pub fn encoded_text(events: usize) -> Work {
    encoded(events, Plain::new(Text::new()))
}

/// A child's lines of the native spelling, read.
#[must_use]
pub fn native_read(lines: usize) -> Work {
    let sample = Sample::new(0);
    let lines: Vec<_> = (0..lines).map(|_| sample.piece_line()).collect();
    Box::new(move || {
        let mut reader = Reader::new(sample.stamp);
        for line in lines {
            std::hint::black_box(reader.read(&line).expect("it was written by us"));
        }
    })
}

/// A child's events, each written to a text of its own.
#[must_use]
pub fn native_written(events: usize) -> Work {
    let sample = Sample::new(0);
    let pieces: Vec<_> = (0..events).map(|_| sample.piece()).collect();
    Box::new(move || {
        for piece in pieces {
            std::hint::black_box(native::to_string(&piece).expect("an event has a spelling"));
        }
    })
}

/// Children, each with one turn of a scripted model, spawned in one turn of their parent and read to the end.
#[must_use]
pub fn spawned(children: usize) -> Work {
    let (agent, runtime) = (spawning(children), runtime());
    Box::new(move || {
        let run = runtime.block_on(async { agent.reply_stream("go").finished().await });
        run.expect("the session ends in order");
    })
}

/// A child's events made when they are asked for, from its tool through a whole session to the reader.
#[must_use]
pub fn in_session(events: usize) -> Work {
    let runtime = runtime();
    let agent = driver::talking(1, events);
    Box::new(move || {
        runtime.block_on(async { agent.reply_stream("go").for_each(|_| async {}).await });
    })
}

/// The same of an agent's model, five levels down.
#[must_use]
pub fn in_session_at_5(events: usize) -> Work {
    let (agent, runtime) = (crate::tools::chain(5, events), runtime());
    Box::new(move || {
        runtime.block_on(async { agent.reply_stream("go").for_each(|_| async {}).await });
    })
}

/// The stream of a tool, without anything around it: what the cases above also do.
#[must_use]
pub fn made(events: usize) -> Work {
    let (stamp, runtime) = (stamp(), runtime());
    let streams = merge::streams(&stamp, 1, events);
    Box::new(move || _ = runtime.block_on(futures::stream::iter(streams).flatten().count()))
}

/// A stream of events that lie ready, as `passed_at_1` and `passed_at_5` have it at the bottom.
#[must_use]
pub fn taken(events: usize) -> Work {
    let (sample, runtime) = (Sample::new(events), runtime());
    Box::new(move || _ = runtime.block_on(Yields(sample.events).count()))
}
