//! What networks do to a stream.

use std::{sync::Arc, time::Duration};

use anabranch_proto::{ErrorInfo, Outcome};
use anabranch_runtime::{Agent, Heard, RunnerStream, ScriptedModel, SpawnSubagent, Turn};
use futures::{StreamExt, stream};
use serde_json::json;

use super::support::{Here, SECOND, Says, all, ends, failure, last_text, task, waits_for};
use crate::support::{of_child, outline, says};

const TEXT: &str = "one two three four five six";

fn talker() -> Agent {
    says("worker", TEXT)
}

/// What the master hears at last, and what the child said, over a stream that something was done to.
async fn over(
    mangle: impl Fn(RunnerStream) -> RunnerStream + Send + Sync + 'static,
) -> (String, Vec<String>) {
    let runner = Here::mangled(talker(), mangle);
    let session = waits_for(SpawnSubagent::on(runner.clone(), "worker"), task()).session();
    let events = all(&session).await;
    assert_eq!(ends(&events, "n1").len(), 1, "it ends once");
    assert_eq!(runner.open(), 0, "nobody reads on");
    let text = last_text(&session);
    let (_, result) = text.split_once("\n\n").unwrap();
    (result.to_owned(), outline(&of_child(&events, "n1").cloned().collect::<Vec<_>>()))
}

/// A change of all that there is, once it is there.
fn whole(
    change: impl Fn(Vec<Result<Heard, ErrorInfo>>) -> Vec<Result<Heard, ErrorInfo>> + Send + Sync + 'static,
) -> impl Fn(RunnerStream) -> RunnerStream + Send + Sync + 'static {
    let change = Arc::new(change);
    move |stream| {
        let change = Arc::clone(&change);
        let changed = async move { stream::iter(change(stream.collect().await)) };
        stream::once(changed).flatten().boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_again_or_in_another_order_changes_nothing() {
    let (text, plain) = over(|stream| stream).await;
    assert_eq!(text, TEXT);
    let (text, doubled) =
        over(|stream| stream.flat_map(|item| stream::iter([item.clone(), item])).boxed()).await;
    assert_eq!((text.as_str(), doubled), (TEXT, plain.clone()));
    let (text, resumed) = over(whole(|all| {
        // The connection broke twice, and each time more was sent again than was asked for.
        let (half, most) = (all[..7].to_vec(), all[2..11].to_vec());
        [half, most, all].concat()
    }))
    .await;
    assert_eq!((text.as_str(), resumed), (TEXT, plain.clone()));
    let (text, reversed) = over(whole(|mut all| {
        all.reverse();
        all
    }))
    .await;
    assert_eq!((text.as_str(), reversed), (TEXT, plain));
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_fails_the_child_and_is_named() {
    let (text, _) = over(whole(|mut all| {
        all.drain(4..6);
        all
    }))
    .await;
    assert!(text.starts_with("events 5 to 6 of the sub-agent did not come"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_off_fails_the_child_and_keeps_what_came() {
    for (count, expected) in [
        (0, "the other side's events ended before the sub-agent did"),
        (1, "the other side's events ended before the sub-agent did"),
        (
            6,
            "the other side's events ended before the sub-agent did\n\nBefore that, the sub-agent said:\none two ",
        ),
    ] {
        let (text, said) = over(move |stream| stream.take(count).boxed()).await;
        assert_eq!(text, expected);
        assert_eq!(said.first().unwrap(), "n1 USER_MESSAGE");
    }
    let (text, _) =
        over(|stream| stream.take(6).chain(stream::iter([failure("the worker `w` was lost")])).boxed()).await;
    assert_eq!(text, "the worker `w` was lost\n\nBefore that, the sub-agent said:\none two ");
}

#[tokio::test(start_paused = true)]
async fn a_place_that_cannot_be_reached_is_an_error_that_the_model_can_read() {
    let runner = Arc::new(Says(Box::new(|_| vec![failure("`http://far` cannot be reached")])));
    let session = waits_for(SpawnSubagent::on(runner, "worker"), task()).session();
    let events = all(&session).await;
    assert_eq!(ends(&events, "n1"), [(Outcome::Failed, "`http://far` cannot be reached".to_owned())]);
    let said = "The background task `task_1` (n1) has ended: failed.\n\n`http://far` cannot be reached";
    assert_eq!(last_text(&session), said);
}

#[tokio::test(start_paused = true)]
async fn silence_ends_with_the_childs_time() {
    let arguments = json!({ "task": "Do it.", "timeout": 30, "metadata": { "node_id": "n1" } });
    for count in [0, 1, 6] {
        let runner =
            Here::mangled(talker(), move |stream| stream.take(count).chain(stream::pending()).boxed());
        let session = waits_for(SpawnSubagent::on(runner.clone(), "worker"), arguments.clone()).session();
        let begun = tokio::time::Instant::now();
        let events = all(&session).await;
        assert_eq!(begun.elapsed(), SECOND * 30);
        assert_eq!(ends(&events, "n1"), [(Outcome::TimedOut, "timed out after 30 s".to_owned())]);
        assert_eq!(runner.open(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_goes_with_the_order_so_that_the_other_side_stops_by_itself() {
    let model = ScriptedModel::new("scripted").turn(|_| Turn::new().text("so far").hang());
    let runner = Here::mangled(Agent::builder("worker", model).build(), |stream| {
        // What happens here is late, as over a slow line.
        stream
            .then(|item| async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                item
            })
            .boxed()
    });
    let arguments = json!({ "task": "Do it.", "timeout": 30, "metadata": { "node_id": "n1" } });
    let session = waits_for(SpawnSubagent::on(runner, "worker"), arguments).session();
    let events = all(&session).await;
    assert_eq!(ends(&events, "n1"), [(Outcome::TimedOut, "timed out after 30 s".to_owned())]);
}

#[tokio::test]
async fn a_stream_that_is_always_ready_and_says_nothing_new_keeps_nobody_from_anything() {
    let runner = Here::mangled(talker(), |stream| {
        let again = |item: Result<Heard, ErrorInfo>| stream::repeat(item);
        stream.take(1).flat_map(again).boxed()
    });
    let arguments = json!({ "task": "Do it.", "timeout": 1, "metadata": { "node_id": "n1" } });
    let session = waits_for(SpawnSubagent::on(runner, "worker"), arguments).session();
    let events = all(&session).await;
    assert_eq!(ends(&events, "n1"), [(Outcome::TimedOut, "timed out after 1 s".to_owned())]);
}
