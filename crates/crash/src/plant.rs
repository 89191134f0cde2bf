//! Faults that are planted into what is judged: each has to be found.

use crate::{
    judge::{Case, Story},
    mode::Promise,
    seen::Frame,
};

/// Spoils something at an index.
type Spoil<T> = fn(&mut T, usize);

/// The case of one of its sessions with each fault that it has a place for, and what that is.
pub(crate) fn planted(case: &Case) -> Vec<(&'static str, Case)> {
    let case = &one_session(case);
    let seen: [(&str, Spoil<Vec<Frame>>); 4] = [
        ("an event that is not seen", |frames, at| drop(frames.remove(at))),
        ("an event that is seen twice", |frames, at| frames.insert(at, frames[at].clone())),
        ("two events that are seen in the wrong order", |frames, at| frames.swap(at, at + 1)),
        ("an event of another epoch", |frames, at| {
            frames[at].id = frames[at].id.as_ref().map(|id| format!("x{id}"));
        }),
    ];
    let found: [(&str, Spoil<Story>); 5] = [
        ("a hole", |story, at| drop(story.lines.remove(at))),
        ("an event that is there twice", |story, at| story.lines.insert(at, story.lines[at].clone())),
        ("two events that are in the wrong order", |story, at| story.lines.swap(at, at + 1)),
        ("a second end", |story, _| again(story)),
        ("an end that is missing", |story, _| drop(story.lines.pop())),
    ];
    let mut all = Vec::new();
    for (what, spoil) in seen {
        let mut spoilt = case.clone();
        let frames = spoilt.seen.sessions.values_mut().find(|frames| frames.len() > 20);
        if let Some(frames) = frames {
            spoil(frames, 10);
            all.push((what, spoilt));
        }
    }
    for (what, spoil) in found {
        let mut spoilt = case.clone();
        let story = spoilt.found.values_mut().find(|story| story.lines.len() > 20);
        if let Some(story) = story {
            spoil(story, 10);
            all.push((what, spoilt));
        }
    }
    all.extend(other_content(case).map(|spoilt| ("other content", spoilt)));
    all.extend(lost(case).map(|spoilt| ("an event that was seen and is lost", spoilt)));
    if case.killed {
        all.extend(without_closing(case).map(|spoilt| ("a run that is left open", spoilt)));
        let mut spoilt = case.clone();
        if let Some((session, left)) = spoilt.left.first().and_then(|left| left.first_key_value()) {
            spoilt.durable.insert(session.clone(), left.last() + 1);
            all.push(("an event that was said to be durable and is lost", spoilt));
        }
    }
    all
}

/// What the case has of one session, if there is one in which something was closed.
fn one_session(case: &Case) -> Case {
    let left = case.left.first();
    let closing = |(session, story): &(&String, &Story)| {
        story.last() - left.and_then(|left| left.get(*session)).map_or(0, Story::last).min(story.last())
    };
    let chosen =
        case.found.iter().max_by_key(closing).map(|(session, _)| session.clone()).unwrap_or_default();
    let mut one = case.clone();
    one.found.retain(|session, _| *session == chosen);
    one.left.iter_mut().for_each(|left| left.retain(|session, _| *session == chosen));
    one.seen.sessions.retain(|session, _| *session == chosen);
    one
}

/// The last end once more, with a number and an id of its own.
fn again(story: &mut Story) {
    let seq = story.last();
    if let Some(last) = story.lines.last() {
        let line = last.replacen(&format!("\"seq\":{seq}"), &format!("\"seq\":{}", seq + 1), 1);
        story.lines.push(line.replacen("\"id\":\"", "\"id\":\"x", 1));
    }
}

/// An event that is there, and was seen with other words.
fn other_content(case: &Case) -> Option<Case> {
    let mut spoilt = case.clone();
    for (session, story) in &case.found {
        let durable = case.durable.get(session).copied().unwrap_or_default();
        let frames = spoilt.seen.sessions.get_mut(session)?;
        let is_owed = |seq: u64| match case.promise {
            Promise::All => seq > story.forgotten,
            Promise::UptoBarriers => seq == 1,
            Promise::Durable => seq <= durable,
        };
        let frame = frames.iter_mut().find(|frame| {
            frame.name.is_none()
                && frame.position().is_some_and(|(_, seq)| is_owed(seq) && seq <= story.last())
        });
        if let Some(frame) = frame {
            frame.data.push(' ');
            return Some(spoilt);
        }
    }
    None
}

/// What readers may count on is behind the end of what is there.
fn lost(case: &Case) -> Option<Case> {
    let mut spoilt = case.clone();
    let (session, story) = case.found.iter().find(|(_, story)| story.lines.len() > 20)?;
    let frames = spoilt.seen.sessions.get_mut(session)?;
    let last = frames.iter().rev().find(|frame| frame.name.is_none())?.clone();
    let (epoch, seq) = last.position()?;
    let mut next = last.clone();
    next.id = Some(format!("{epoch}-{}", seq + 1));
    // A barrier, in whatever way it is opened.
    next.data = format!("{{\"seq\":{},\"type\":\"STREAM_COMPLETE\"}}", seq + 1);
    frames.push(next);
    spoilt.durable.insert(session.clone(), seq + 1);
    (seq + 1 > story.last() || story.lines.len() > 20).then_some(spoilt)
}

/// What closed a session is not there.
fn without_closing(case: &Case) -> Option<Case> {
    let mut spoilt = case.clone();
    let left = case.left.first()?;
    for (session, story) in &mut spoilt.found {
        let closing = usize::try_from(story.last().checked_sub(left.get(session)?.last())?).ok()?;
        if closing > 0 {
            story.lines.truncate(story.lines.len() - closing);
            return Some(spoilt);
        }
    }
    None
}
