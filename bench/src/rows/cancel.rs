//! From a cancel to the end of the stream, on the wall: a person waits for it.

use std::{future, time::Instant};

use anabranch_pipeline::ToolStream;
use anabranch_proto::EventKind;
use anabranch_runtime::{Agent, Read, SpawnSubagent};
use futures::{StreamExt as _, stream};

use crate::{
    measure::{Scale, in_turn, runtime},
    report::{Budget, Row, Unit},
    tools::{StreamTool, hung, master},
};

/// 64 tools that never end, and 10,000 children whose models never answer.
#[must_use]
pub fn rows(scale: Scale) -> Vec<Row> {
    let hang = StreamTool::new("hang", |_| -> ToolStream { Box::pin(stream::pending()) });
    let tools = master("hang", 64).tool(hang).build();
    let few = master("spawn_subagent", 64).tool(SpawnSubagent::new(hung())).build();
    let many = master("spawn_subagent", 10_000).tool(SpawnSubagent::new(hung())).build();
    [
        ("64 hung tools", &tools, 64, 0, 0.3),
        ("64 hung children", &few, 64, 64, f64::INFINITY),
        ("10,000 hung children", &many, 10_000, 10_000, 15.0),
    ]
    .into_iter()
    .map(|(what, agent, calls, children, most)| {
        let mut ours = || cancelled(agent, calls, children);
        let series = in_turn(scale.rounds, &mut [&mut ours]);
        let budget = if most.is_finite() { Budget::AtMost(most) } else { Budget::Shown };
        Row::new("cancel", format!("cancel to the end, {what}"), series.median(0) / 1e6, Unit::Millis, budget)
            .source(
                "on the wall, from the cancel to the reply's end at its reader, every synthesised end read",
            )
    })
    .collect()
}

/// Lets all hang, cancels, and reads to the end.
#[expect(clippy::cast_precision_loss, reason = "a run takes seconds")]
fn cancelled(agent: &Agent, calls: usize, children: usize) -> f64 {
    runtime().block_on(async {
        let mut reply = agent.reply_stream("go");
        let (mut started, mut asked) = (0, 0);
        while started < calls || asked < children {
            let Some(Read::Event(admitted)) = reply.next().await else { panic!("the reply ended") };
            match &admitted.event.kind {
                EventKind::ToolResultStart(_) => started += 1,
                EventKind::ModelCallStart(_) if admitted.event.scope.depth() == 1 => asked += 1,
                _ => {}
            }
        }
        let before = Instant::now();
        reply.cancel();
        let rest = reply.filter(|_| future::ready(true)).count().await;
        let elapsed = before.elapsed();
        assert!(rest > calls + children, "each call and each child has an end");
        elapsed.as_nanos() as f64
    })
}
