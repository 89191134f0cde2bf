//! What a cancel stops.

use std::collections::HashSet;

use anabranch_proto::{EventKind, Outcome, Scope};

use super::{Story, ensure, story::Run};
use crate::seen::Cancel;

/// Once a cancel was noticed nothing of the run completes any more, and the run is interrupted.
pub(super) fn nothing_completes_after_a_cancel(story: &Story<'_>) -> Result<(), String> {
    for cancel in &story.record.seen.cancels {
        let roots = story.runs.iter().filter_map(|run| Some((run.prompt?, run)));
        let hit = roots.filter(|(prompt, _)| {
            cancel.prompt.is_some_and(|hit| hit == *prompt || (cancel.closes && hit < *prompt))
        });
        for (_, root) in hit {
            check_run(story, cancel, root)?;
        }
    }
    Ok(())
}

fn check_run(story: &Story<'_>, cancel: &Cancel, root: &Run<'_>) -> Result<(), String> {
    let (Some(first), Some((last, complete))) = (root.events.first(), root.terminal()) else { return Ok(()) };
    if last.seq <= cancel.noticed {
        return Ok(());
    }
    ensure(complete.outcome == Outcome::Interrupted, || {
        format!(
            "the run that ends at {} was cancelled before {} and is {}",
            last.seq, cancel.noticed, complete.outcome
        )
    })?;
    // What runs in the background may go on, and its events come when they come.
    let in_background: HashSet<_> =
        story.runs.iter().filter(|run| story.is_in_background(run)).map(|run| run.session).collect();
    let within = story
        .record
        .log
        .iter()
        .filter(|admitted| admitted.seq > cancel.noticed.max(first.seq) && admitted.seq < last.seq);
    for admitted in within {
        if in_background.contains(admitted.event.scope.session(&story.record.root)) {
            continue;
        }
        let is_roots = admitted.event.scope == Scope::Root;
        let what = if let EventKind::StreamComplete(complete) = &admitted.event.kind {
            (complete.outcome != Outcome::Interrupted).then_some("a run")
        } else if let EventKind::SpawnSessionStart(_) = &admitted.event.kind {
            Some("a child")
        } else if let EventKind::ModelCallStart(_) = &admitted.event.kind {
            // What the root has said and nobody has read yet stands.
            (!is_roots).then_some("a model call")
        } else {
            None
        };
        ensure(what.is_none(), || {
            let (seq, kind) = (admitted.seq, admitted.event.kind.tag());
            format!(
                "{} at {seq} ({kind}) after the cancel noticed at {}",
                what.unwrap_or_default(),
                cancel.noticed
            )
        })?;
    }
    Ok(())
}
