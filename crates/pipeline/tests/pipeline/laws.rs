//! Laws that hold of a call whatever its tool does.

use std::sync::{Arc, Mutex};

use anabranch_pipeline::{
    Acting, ActingLayer, ActingStream, ExecuteToolCall, ExecuteToolCalls, Executed, Next, ToolCall,
    ToolContext, Toolkit,
};
use anabranch_proto::{
    ContentBlock, DataBlock, DataSource, Event, FinishedReason, TextBlock, ToolChunk, ToolResultState,
    event::ReplyEnd,
};
use futures::Stream;
use proptest::prelude::*;

use crate::support::{
    Script, Step, call, check_call, custom, drain, event, lines, poll, response, root_caller, scope,
};

fn block() -> impl Strategy<Value = ContentBlock> {
    let id = || prop_oneof![Just(None), Just(Some("1")), Just(Some("2"))];
    let text = ("[a-c\u{e9}]{0,4}", id()).prop_map(|(text, id)| {
        let block = TextBlock::new(text);
        id.map_or(block.clone(), |id| block.id(id)).into()
    });
    let data = (prop_oneof![Just("aGk="), Just("aGVs"), Just("")], id()).prop_map(|(data, id)| {
        let block = DataBlock::new(DataSource::Base64 { data: data.to_owned(), media_type: "x/y".into() });
        id.map_or(block.clone(), |id| block.id(id)).into()
    });
    prop_oneof![3 => text, 1 => data]
}

fn state() -> impl Strategy<Value = ToolResultState> {
    use ToolResultState::{Denied, Error, Interrupted, Running, Success};
    prop_oneof![8 => Just(Running), 2 => Just(Success), 1 => Just(Denied), 1 => Just(Interrupted), 1 => Just(Error)]
}

fn chunk() -> impl Strategy<Value = ToolChunk> {
    (prop::collection::vec(block(), 0..3), state(), prop::bool::weighted(0.05)).prop_map(
        |(content, state, is_last)| {
            let chunk = ToolChunk::new(content).state(state);
            if is_last { chunk.last() } else { chunk }
        },
    )
}

fn not_last(mut chunk: ToolChunk) -> ToolChunk {
    chunk.is_last = false;
    chunk
}

fn step() -> impl Strategy<Value = Step> {
    let child = || event(scope("ses_x", 1), ReplyEnd::new("ses_x", "reply", FinishedReason::Error));
    prop_oneof![
        4 => chunk().prop_map(Step::Chunk),
        // How far a tool gets after what it sends, the script does not say, so none of these is the last.
        4 => chunk().prop_map(|chunk| Step::Send(not_last(chunk))),
        2 => Just(()).prop_map(move |()| Step::Event(child())),
        2 => Just(()).prop_map(|()| Step::Emit(custom("x"))),
        2 => Just(Step::Yield),
        1 => Just(Step::Panic("boom")),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 0..20)
}

fn size(block: &ContentBlock) -> usize {
    if let ContentBlock::Data(block) = block
        && let DataSource::Base64 { data, .. } = &block.source
    {
        return data.len();
    }
    block.as_text().map_or(0, str::len)
}

/// What a script comes to, computed another way.
struct Expected {
    text: String,
    state: ToolResultState,
    events: Vec<Arc<Event>>,
    /// How many of the events must come. Those after a pause after the last chunk may, and those that had been emitted
    /// when the call failed: nobody waits for more.
    due: Option<usize>,
}

fn expected(steps: &[Step], limit: usize) -> Expected {
    let (mut text, mut state, mut events) = (String::new(), ToolResultState::Success, Vec::new());
    let mut due = None;
    let mut has_content = false;
    let mut bytes = 0;
    let mut is_complete = false;
    let mut failed = false;
    for step in steps {
        let failure = match step {
            Step::Event(event) | Step::Emit(event) => {
                events.push(Arc::clone(event));
                continue;
            }
            _ if failed => continue,
            Step::Chunk(_) | Step::Send(_) if is_complete => continue,
            Step::Chunk(chunk) | Step::Send(chunk) => {
                bytes += chunk.content.iter().map(size).sum::<usize>();
                if bytes <= limit {
                    text.extend(chunk.content.iter().filter_map(ContentBlock::as_text));
                    let is_content = |block: &ContentBlock| block.as_text() != Some("");
                    has_content |= chunk.content.iter().any(is_content);
                    state = state.worse(chunk.state);
                    is_complete = chunk.is_last;
                    continue;
                }
                format!("the output of `a` is over {limit} bytes and was cut")
            }
            Step::Yield => {
                if is_complete {
                    due = due.or(Some(events.len()));
                }
                continue;
            }
            Step::Panic(_) if is_complete => break,
            Step::Panic(message) => format!("`a` panicked: {message}"),
            Step::Hang => break,
        };
        if has_content {
            text.push('\n');
        }
        text.push_str(&failure);
        state = ToolResultState::Error;
        due = due.or(Some(events.len()));
        failed = true;
    }
    Expected { text, state, events, due }
}

fn acting(steps: &[Step]) -> Acting {
    Acting::new(Toolkit::new().with(Script::new("a", steps.to_vec())))
}

fn events(items: &[Executed]) -> Vec<&Arc<Event>> {
    let events = items.iter().filter_map(|item| match item {
        Executed::Event(event) => Some(event),
        Executed::Response(..) => None,
    });
    events.filter(|event| event.id.to_string() == "injected").collect()
}

/// Takes all items and checks at each that no fewer come than was promised.
fn check_size_hint<S: Stream + Unpin>(mut stream: S) -> Vec<S::Item> {
    let mut promises = Vec::new();
    let mut items = Vec::new();
    loop {
        let (lower, upper) = stream.size_hint();
        promises.push((items.len(), lower, upper));
        match poll(&mut stream) {
            std::task::Poll::Ready(Some(item)) => items.push(item),
            std::task::Poll::Ready(None) => break,
            std::task::Poll::Pending => assert!(promises.len() < 10_000, "the stream does not end"),
        }
    }
    for (before, lower, upper) in promises {
        let came = items.len() - before;
        assert!(lower <= came, "{lower} were promised and {came} came");
        assert!(upper.is_none_or(|upper| came <= upper), "at most {upper:?} were promised and {came} came");
    }
    assert_eq!(stream.size_hint(), (0, Some(0)), "after the end");
    items
}

/// Checks the size hint of what it wraps.
struct ChecksSizeHint(Mutex<bool>);

impl ActingLayer for ChecksSizeHint {
    fn act(self: Arc<Self>, call: ToolCall, context: ToolContext, next: Next) -> ActingStream {
        let items = check_size_hint(next.run(call, context));
        // A panic in a layer is caught, so that the test must ask.
        *self.0.lock().unwrap() = true;
        ActingStream::boxed(futures::stream::iter(items))
    }
}

proptest! {
    #[test]
    fn a_call_comes_to_what_its_tool_gave(steps in steps(), limit in prop_oneof![Just(usize::MAX), 0..40_usize]) {
        let expected = expected(&steps, limit);
        let call = ExecuteToolCall::new(call("a"), root_caller(), &acting(&steps).output_limit(limit));
        let items = drain(call);
        let response = check_call(&items);
        prop_assert_eq!(response.text(), expected.text);
        prop_assert_eq!(response.state, expected.state);
        let events = events(&items);
        prop_assert!(events.len() <= expected.events.len());
        prop_assert!(events.len() >= expected.due.unwrap_or(expected.events.len()));
        for (event, expected) in events.into_iter().zip(&expected.events) {
            prop_assert!(Arc::ptr_eq(event, expected));
        }
    }

    #[test]
    fn no_layer_and_a_layer_that_forwards_are_the_same(steps in steps()) {
        struct Forwards;
        impl ActingLayer for Forwards {}
        let layered = acting(&steps).layers([Arc::new(Forwards) as Arc<dyn ActingLayer>; 1]);
        let direct = drain(ExecuteToolCall::new(call("a"), root_caller(), &acting(&steps)));
        let items = drain(ExecuteToolCall::new(call("a"), root_caller(), &layered));
        prop_assert_eq!(direct, items);
    }

    #[test]
    fn no_fewer_items_come_than_were_promised(a in steps(), b in steps(), c in steps()) {
        let layer = Arc::new(ChecksSizeHint(Mutex::new(false)));
        let probed = acting(&a).layers([Arc::clone(&layer) as Arc<dyn ActingLayer>]);
        check_size_hint(ExecuteToolCall::new(call("a"), root_caller(), &probed));
        prop_assert!(*layer.0.lock().unwrap());
        check_size_hint(ExecuteToolCall::new(call("a"), root_caller(), &acting(&a)));
        let kit = Toolkit::new().with(Script::new("a", a)).with(Script::new("b", b)).with(Script::new("x", c).exclusive());
        let calls = ["a", "b", "x", "unknown"].map(call);
        check_size_hint(ExecuteToolCalls::new(calls, root_caller(), &Acting::new(kit)));
    }

    #[test]
    fn beside_others_a_call_says_what_it_says_alone(a in steps(), b in steps(), c in steps()) {
        let scripts = [("a", a), ("b", b), ("c", c)];
        let kit = scripts.iter().fold(Toolkit::new(), |kit, (name, steps)| kit.with(Script::new(name, steps.clone())));
        let acting = Acting::new(kit);
        let items = drain(ExecuteToolCalls::new(scripts.iter().map(|(name, _)| call(name)), root_caller(), &acting));
        for (name, _) in &scripts {
            let alone = drain(ExecuteToolCall::new(call(name), root_caller(), &acting));
            let own = |items: &[Executed]| {
                let prefix = format!("{name} ");
                lines(items).into_iter().filter(|line| line.starts_with(&prefix)).collect::<Vec<_>>()
            };
            prop_assert_eq!(own(&items), own(&alone));
            response(&alone);
        }
    }
}
