//! What a tool emits by its context while it works.

use std::{
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
};

use anabranch_pipeline::{
    Acting, EmitError, ExecuteToolCall, Executed, FunctionTool, ToolContext, ToolYield, Toolkit,
};
use anabranch_proto::{EventKind, ToolChunk};
use futures::{Stream, StreamExt, future::join, stream};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::support::{
    StreamTool, WakeCounter, call, check_call, custom, drain, lines, pending_once, poll, root_caller,
    run_call,
};

#[derive(Deserialize, JsonSchema)]
struct Count {
    #[serde(default)]
    count: usize,
}

/// A tool that emits `count` events, then returns.
fn emitter() -> Acting {
    let tool = FunctionTool::new("a", "", |args: Count, context: ToolContext| async move {
        for number in 0..args.count {
            context.emit(custom(&number.to_string())).await.map_err(|error| error.to_string())?;
        }
        Ok::<_, String>("done")
    });
    Acting::new(Toolkit::new().with(tool))
}

fn emitter_call(count: usize) -> anabranch_pipeline::ToolCall {
    anabranch_pipeline::ToolCall::new("a", "a", format!("{{\"count\":{count}}}"))
}

fn expected(count: usize) -> Vec<String> {
    let mut lines = vec!["a start".to_owned()];
    lines.extend((0..count).map(|number| format!("custom {number}")));
    lines.extend(["a text \"done\"", "a end success", "a response success \"done\""].map(str::to_owned));
    lines
}

#[test]
fn what_is_emitted_before_a_value_is_returned_comes_before_it() {
    for count in [0, 1, 7, 8, 9, 16, 17, 100] {
        let items = run_call(emitter_call(count), &root_caller(), &emitter());
        assert_eq!(lines(&items), expected(count));
    }
}

/// A tokio task may take 128 items from tokio's channels before they all say "pending", ready or not. That must change
/// neither order nor what comes.
#[tokio::test]
async fn what_is_emitted_stays_in_order_when_the_task_has_had_its_share() {
    for taken in 0..=256 {
        let tool = FunctionTool::new("a", "", move |_: Count, context: ToolContext| async move {
            for _ in 0..taken {
                tokio::task::consume_budget().await;
            }
            for number in 0..3 {
                context.emit(custom(&number.to_string())).await.map_err(|error| error.to_string())?;
            }
            Ok::<_, String>("done")
        });
        let acting = Acting::new(Toolkit::new().with(tool));
        let items = ExecuteToolCall::new(call("a"), root_caller(), &acting).collect::<Vec<_>>().await;
        assert_eq!(lines(&items), expected(3), "{taken} taken");
    }
}

#[test]
fn a_clone_in_a_joined_future_emits_in_order() {
    let tool = FunctionTool::new("a", "", |_: Count, context: ToolContext| async move {
        let clone = context.clone();
        let beside = async move {
            for number in 0..20 {
                clone.emit(custom(&format!("beside {number}"))).await.unwrap();
                pending_once().await;
            }
        };
        let before = async {
            for number in 0..20 {
                context.emit(custom(&number.to_string())).await.unwrap();
            }
        };
        join(beside, before).await;
        Ok::<_, String>("done")
    });
    let items = run_call(call("a"), &root_caller(), &Acting::new(Toolkit::new().with(tool)));
    let lines = lines(&items);
    let of = |prefix: &str| {
        let mut positions = (0..20).map(|number| {
            let line = format!("custom {prefix}{number}");
            lines.iter().position(|known| *known == line).unwrap()
        });
        assert!(positions.clone().is_sorted());
        positions.next_back().unwrap()
    };
    let result = lines.iter().position(|line| line == "a text \"done\"").unwrap();
    assert!(of("").max(of("beside ")) < result);
    assert_eq!(lines.len(), 44);
}

#[test]
fn progress_is_a_custom_event_of_the_caller() {
    let tool = FunctionTool::new("a", "", |_: Count, context: ToolContext| async move {
        context.custom("progress", &0.5).await.map_err(|error| error.to_string())?;
        Ok::<_, String>(())
    });
    let caller = crate::support::child_caller();
    let items = run_call(call("a"), &caller, &Acting::new(Toolkit::new().with(tool)));
    let Executed::Event(event) = &items[1] else { panic!("{items:?}") };
    let EventKind::Custom(custom) = &event.kind else { panic!("{event:?}") };
    assert_eq!((&*custom.name, custom.value.as_str()), ("progress", "0.5"));
    assert_eq!(event.scope, caller.scope);
    assert_eq!(event.metadata, caller.metadata);
}

/// Where a tool leaves its context to whoever outlives it.
type Left = Arc<Mutex<Option<ToolContext>>>;

fn leave(left: &Left, context: ToolContext) {
    *left.lock().unwrap_or_else(PoisonError::into_inner) = Some(context);
}

fn take(left: &Left) -> ToolContext {
    left.lock().unwrap().take().unwrap()
}

/// A tool that leaves its context, then does `work`.
fn leaver<W>(work: impl Fn() -> W + Send + Sync + 'static) -> (Left, Acting)
where
    W: Future<Output = Result<&'static str, String>> + Send + 'static,
{
    let left = Left::default();
    let tool = {
        let left = Arc::clone(&left);
        FunctionTool::new("a", "", move |_: Count, context: ToolContext| {
            leave(&left, context);
            work()
        })
    };
    (left, Acting::new(Toolkit::new().with(tool)))
}

#[test]
fn nothing_can_be_emitted_after_the_end() {
    let (left, acting) = leaver(|| std::future::ready(Ok("done")));
    let mut running = ExecuteToolCall::new(call("a"), root_caller(), &acting);
    check_call(&drain(&mut running));

    let context = take(&left);
    let mut emit = pin!(context.emit(custom("late")));
    let result = emit.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(Err(error)) = result else { panic!("{result:?}") };
    let _: EmitError = error;
    assert_eq!(error.to_string(), "the tool call has ended");
    let mut send = pin!(context.send(ToolChunk::text("late")));
    let result = send.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(result, Poll::Ready(Err(_))));
}

#[test]
fn what_is_emitted_elsewhere_while_the_tool_waits_wakes_the_reader() {
    let (left, acting) = leaver(std::future::pending);
    let mut running = ExecuteToolCall::new(call("a"), root_caller(), &acting);
    let (counter, waker) = WakeCounter::pair();
    let cx = &mut Context::from_waker(&waker);
    assert!(Pin::new(&mut running).poll_next(cx).is_ready(), "the start");
    assert_eq!(Pin::new(&mut running).poll_next(cx), Poll::Pending);
    let event = custom("1");
    let context = take(&left);
    let mut emit = pin!(context.emit(Arc::clone(&event)));
    assert_eq!(emit.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(())));
    assert_eq!(counter.count(), 1);
    assert_eq!(Pin::new(&mut running).poll_next(cx), Poll::Ready(Some(Executed::Event(event))));
}

#[test]
fn whoever_waits_to_emit_is_told_when_the_call_is_dropped() {
    let (left, acting) = leaver(std::future::pending);
    let running = ExecuteToolCall::new(call("a"), root_caller(), &acting);
    let context = take(&left);
    let cx = &mut Context::from_waker(Waker::noop());
    for number in 0..8 {
        let mut emit = pin!(context.emit(custom(&number.to_string())));
        assert_eq!(emit.as_mut().poll(cx), Poll::Ready(Ok(())), "the queue holds eight");
    }
    let mut ninth = pin!(context.emit(custom("8")));
    assert_eq!(ninth.as_mut().poll(cx), Poll::Pending);
    drop(running);
    assert!(matches!(ninth.as_mut().poll(cx), Poll::Ready(Err(_))));
}

#[test]
fn somebody_who_emits_without_end_does_not_keep_the_tool_from_ending() {
    let left = Left::default();
    let tool = {
        let left = Arc::clone(&left);
        StreamTool::new("a", move |context| {
            leave(&left, context);
            let mut polls = 0;
            stream::poll_fn(move |cx| {
                polls += 1;
                match polls {
                    1..=3 => {
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    }
                    4 => Poll::Ready(Some(ToolYield::Chunk(ToolChunk::text("x")))),
                    _ => Poll::Ready(None),
                }
            })
        })
    };
    let acting = Acting::new(Toolkit::new().with(tool));
    let mut running = ExecuteToolCall::new(call("a"), root_caller(), &acting);
    let context = take(&left);
    let mut items = Vec::new();
    for _ in 0..200 {
        // As fast as the queue lets it.
        loop {
            let mut emit = pin!(context.emit(custom("flood")));
            if emit.as_mut().poll(&mut Context::from_waker(Waker::noop())) != Poll::Ready(Ok(())) {
                break;
            }
        }
        match poll(&mut running) {
            Poll::Ready(Some(item)) => items.push(item),
            Poll::Ready(None) => break,
            Poll::Pending => {}
        }
    }
    assert_eq!(check_call(&items).text(), "x");
}

#[test]
fn what_was_emitted_as_the_tool_ended_comes_and_later_it_cannot_be() {
    let left = Left::default();
    let tool = {
        let left = Arc::clone(&left);
        FunctionTool::new("a", "", move |_: Count, context: ToolContext| {
            let left = Arc::clone(&left);
            async move {
                leave(&left, context.clone());
                context.emit(custom("1")).await.unwrap();
                Err::<(), _>("it broke")
            }
        })
    };
    let caller = root_caller();
    let acting = Acting::new(Toolkit::new().with(tool));
    let mut running = ExecuteToolCall::new(call("a"), Arc::clone(&caller), &acting);
    let mut items = Vec::new();
    for expected in ["a start", "custom 1", "a text \"it broke\""] {
        let Poll::Ready(Some(item)) = poll(&mut running) else { panic!("no {expected}") };
        items.push(item);
        assert_eq!(lines(&items).last().unwrap(), expected);
    }
    // The tool has said its last, and nobody has looked whether it has ended.
    let context = take(&left);
    let cx = &mut Context::from_waker(Waker::noop());
    for name in ["2", "3"] {
        let mut emit = pin!(context.emit(custom(name)));
        assert_eq!(emit.as_mut().poll(cx), Poll::Ready(Ok(())));
    }
    let mut send = pin!(context.send(ToolChunk::text("too late")));
    assert_eq!(send.as_mut().poll(cx), Poll::Ready(Ok(())));
    items.extend(drain(&mut running));
    assert_eq!(lines(&items)[3..], ["custom 2", "custom 3", "a end error", "a response error \"it broke\""]);
    check_call(&items);
    assert_eq!(caller.counters.chunks_ignored(), 1);
    let mut emit = pin!(context.emit(custom("4")));
    assert!(matches!(emit.as_mut().poll(cx), Poll::Ready(Err(_))));
}

/// Emits when it is dropped, and notes whether it could.
struct EmitsWhenDropped(ToolContext, Arc<Mutex<Vec<bool>>>);

impl Drop for EmitsWhenDropped {
    fn drop(&mut self) {
        let emitted = futures::FutureExt::now_or_never(self.0.emit(custom("as it is dropped")));
        self.1.lock().unwrap().push(matches!(emitted, Some(Ok(()))));
    }
}

#[test]
fn an_emit_that_says_ok_is_never_lost_when_the_call_ends() {
    enum End {
        Ends,
        Panics,
        Overflows,
        Last,
    }
    for end in [End::Ends, End::Panics, End::Overflows, End::Last] {
        let emitted = Arc::new(Mutex::new(Vec::new()));
        let tool = {
            let emitted = Arc::clone(&emitted);
            StreamTool::new("a", move |context| {
                let (guard, mut step) = (EmitsWhenDropped(context, Arc::clone(&emitted)), 0);
                let chunk = match end {
                    End::Overflows => ToolChunk::text("x".repeat(100)),
                    End::Last => ToolChunk::text("x").last(),
                    End::Ends | End::Panics => ToolChunk::text("x"),
                };
                let panics = matches!(end, End::Panics);
                stream::poll_fn(move |_| {
                    step += 1;
                    for name in ["1", "2"] {
                        let emit = futures::FutureExt::now_or_never(guard.0.emit(custom(name)));
                        guard.1.lock().unwrap().push(matches!(emit, Some(Ok(()))));
                    }
                    assert!(step == 1 || !panics, "boom");
                    Poll::Ready((step == 1).then(|| ToolYield::Chunk(chunk.clone())))
                })
            })
        };
        let acting = Acting::new(Toolkit::new().with(tool)).output_limit(50);
        let items = run_call(call("a"), &root_caller(), &acting);
        check_call(&items);
        let came = lines(&items).iter().filter(|line| line.starts_with("custom")).count();
        let ok = emitted.lock().unwrap().iter().filter(|ok| **ok).count();
        assert_eq!(came, ok);
        assert!(came >= 2);
    }
}

#[test]
fn events_that_were_emitted_before_the_output_was_too_much_pass() {
    let tool = FunctionTool::new("a", "", |_: Count, context: ToolContext| async move {
        context.send(ToolChunk::text("x".repeat(100))).await.unwrap();
        context.emit(custom("1")).await.unwrap();
        context.send(ToolChunk::text("y")).await.unwrap();
        Ok::<_, String>("done")
    });
    let caller = root_caller();
    let acting = Acting::new(Toolkit::new().with(tool)).output_limit(50);
    let items = run_call(call("a"), &caller, &acting);
    assert_eq!(check_call(&items).text(), "the output of `a` is over 50 bytes and was cut");
    assert_eq!(lines(&items)[..2], ["a start", "custom 1"]);
    assert_eq!(caller.counters.chunks_ignored(), 2, "what was sent, and what was returned");
}

#[test]
fn what_waits_in_the_queue_is_bounded_in_bytes_and_what_is_larger_waits_alone() {
    let sizes = [600_000, 600_000, 3_000_000, 1];
    let sent = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&sent);
    let tool = FunctionTool::new("a", "", move |_: Count, context: ToolContext| {
        let counter = Arc::clone(&counter);
        async move {
            for size in sizes {
                context.send(ToolChunk::text("x".repeat(size))).await.map_err(|error| error.to_string())?;
                *counter.lock().unwrap() += 1;
            }
            Ok::<_, String>("")
        }
    });
    let acting = Acting::new(Toolkit::new().with(tool)).output_limit(10_000_000);
    let mut running = ExecuteToolCall::new(emitter_call(0), root_caller(), &acting);
    let mut sent_before = Vec::new();
    while let Poll::Ready(Some(item)) = poll(&mut running) {
        if matches!(&item, Executed::Event(event) if matches!(event.kind, EventKind::ToolResultTextDelta(_)))
        {
            sent_before.push(*sent.lock().unwrap());
        }
    }
    // Two of the first size are more than there is room for, and the large one waits until all before it was read.
    assert_eq!(sent_before[..2], [1, 2]);
    assert_eq!(sent_before.len(), sizes.len());
    assert_eq!(*sent.lock().unwrap(), sizes.len());
}
