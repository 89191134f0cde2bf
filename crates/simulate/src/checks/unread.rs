//! The same conversation without readers.

use super::{Story, ensure, times::held_up};
use crate::{
    plan::{self, Behaviour, Fate, Pace, Plan, Way, Work},
    run::run,
};

/// Readers that hold nobody up change nothing: without them the same happens at the same times.
pub(super) fn readers_change_nothing(story: &Story<'_>) -> Result<(), String> {
    let plan = story.plan;
    if plan.readers.is_empty() || held_up(plan) > 0 || !is_left_alone(plan) {
        return Ok(());
    }
    let mut unread = plan.clone();
    unread.readers.clear();
    for prompt in &mut unread.prompts {
        prompt.reply.pace = Pace::Fast;
        prompt.reply.fate = Fate::Reads;
    }
    let (with, without) = (story.record.lines(), run(&unread).lines());
    let same = with.iter().zip(&without).take_while(|(with, without)| with == without).count();
    ensure(with == without, || {
        format!("event {} is\n{:?}\nand without readers\n{:?}", same + 1, with.get(same), without.get(same))
    })
}

/// Whether all that happens is in the session's own task, and nobody who reads stops anything.
fn is_left_alone(plan: &Plan) -> bool {
    let reads = |fate: Fate| matches!(fate, Fate::Reads | Fate::Leaves(_));
    plan.cancels.is_empty()
        && plan.prompts.iter().all(|prompt| reads(prompt.reply.fate))
        && plan::calls(plan).all(|call| match &call.work {
            Work::Spawn(spawn) => spawn.way == Way::InTask,
            Work::Tool { behaviour, .. } => *behaviour != Behaviour::Leaves,
            Work::Refused(_) | Work::External(_) => true,
        })
}
