//! Whose id is whose, and how runs are numbered.

use std::sync::Arc;

use anabranch_proto::{
    Event, EventKind, Outcome, Scope,
    event::{MessageOrigin, StreamComplete, UserMessage},
    grammar::Rule,
};
use anabranch_testkit::{Actor, Stage};

use crate::support::broken;

/// A root and a child, and what is done to each event.
fn edited(mut edit: impl FnMut(&mut Event)) -> Option<Rule> {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Go");
    let child = root.spawn("n1");
    child.begin("Look");
    root.update(&child, |update| update.description(Some("Look".to_owned())));
    child.say("It rains.");
    child.end(Outcome::Completed);
    root.end(Outcome::Completed);
    let events: Vec<_> = stage
        .events()
        .iter()
        .map(|event| {
            let mut event = Event::clone(event);
            edit(&mut event);
            Arc::new(event)
        })
        .collect();
    broken(&events)
}

fn rescoped(event: &mut Event, change: impl FnOnce(&mut anabranch_proto::ChildScope)) {
    if let Some(child) = event.scope.child() {
        let mut scope = anabranch_proto::ChildScope::clone(child);
        change(&mut scope);
        event.scope = Scope::from(scope);
    }
}

#[test]
fn the_roots_id_is_that_of_its_first_reply() {
    let named = |id: &str| {
        edited(|event| {
            if let (Scope::Root, EventKind::ReplyStart(start)) = (&event.scope, &mut event.kind) {
                start.session_id = id.into();
            }
        })
    };
    assert_eq!(named("ses_0"), None);
    // The spawn names another parent than the reply's session.
    assert_eq!(named("ses_9"), Some(Rule::SpawnInParent));
    // The child has the id of the reply's session, and the spawn says that the root has it.
    let with_root_id = edited(|event| {
        if let EventKind::SpawnSessionStart(spawn) = &mut event.kind {
            spawn.child_session_id = "ses_0".into();
        }
        rescoped(event, |scope| scope.child_session_id = "ses_0".into());
    });
    assert_eq!(with_root_id, Some(Rule::SessionUnique));
}

#[test]
fn a_reply_names_its_session() {
    let edit = |of_child: bool, at_end: bool| {
        edited(|event| {
            if event.scope.child().is_some() != of_child {
                return;
            }
            if let EventKind::ReplyEnd(end) = &mut event.kind
                && at_end
            {
                end.session_id = "ses_9".into();
            } else if let EventKind::ReplyStart(start) = &mut event.kind
                && !at_end
            {
                start.session_id = "ses_9".into();
            }
        })
    };
    assert_eq!(edit(true, false), Some(Rule::ReplyOfSession));
    assert_eq!(edit(true, true), Some(Rule::ReplyOfSession));
    assert_eq!(edit(false, true), Some(Rule::ReplyOfSession));
}

#[test]
fn a_spawn_without_a_sub_agent_leaves_it_to_the_first_event() {
    let said = |other: Option<usize>| {
        let mut at = 0;
        edited(|event| {
            if let EventKind::SpawnSessionStart(spawn) = &mut event.kind {
                spawn.subagent_id = None;
            }
            rescoped(event, |scope| {
                at += 1;
                scope.subagent_id = if Some(at) == other { "sa_9".into() } else { "sa_7".into() };
            });
        })
    };
    assert_eq!(said(None), None);
    assert_eq!(said(Some(3)), Some(Rule::ScopeAsAnnounced));
}

#[test]
fn open_children_are_told_apart_by_their_sub_agents() {
    let together = |at_once: bool| {
        let stage = Stage::new();
        let root = stage.root();
        root.begin("Go");
        let one = root.spawn("n1");
        one.begin("Look");
        if !at_once {
            one.end(Outcome::Completed);
        }
        let two = root.spawn("n2");
        two.begin("Look");
        if at_once {
            one.end(Outcome::Completed);
        }
        two.end(Outcome::Completed);
        root.end(Outcome::Completed);
        let same = |announced: bool| {
            let events: Vec<_> = stage
                .events()
                .iter()
                .map(|event| {
                    let mut event = Event::clone(event);
                    if let EventKind::SpawnSessionStart(spawn) = &mut event.kind {
                        spawn.subagent_id = announced.then(|| "sa".into());
                    }
                    rescoped(&mut event, |scope| scope.subagent_id = "sa".into());
                    Arc::new(event)
                })
                .collect();
            broken(&events)
        };
        [same(true), same(false)]
    };
    assert_eq!(together(true), [Some(Rule::SubagentUnique); 2]);
    assert_eq!(together(false), [None; 2]);
}

#[test]
fn runs_count_from_one_or_more() {
    let numbered = |run: u32| {
        edited(|event| {
            if let EventKind::SpawnSessionStart(spawn) = &mut event.kind {
                spawn.run = Some(run);
            } else if let EventKind::SessionUpdated(update) = &mut event.kind {
                update.run = run;
            }
            rescoped(event, |scope| scope.run = run);
        })
    };
    assert_eq!([1, 7, u32::MAX].map(numbered), [None; 3]);
    assert_eq!(numbered(0), Some(Rule::AnnouncedOnce));
    let updated = edited(|event| {
        if let EventKind::SessionUpdated(update) = &mut event.kind {
            update.run = 0;
        }
    });
    assert_eq!(updated, Some(Rule::UpdateOfChild));
    assert_eq!(edited(|event| rescoped(event, |scope| scope.run = 0)), Some(Rule::Announced));
}

#[test]
fn a_prompt_that_steers_begins_no_run() {
    let begun = |of_child: bool, turns: usize, origin: MessageOrigin| {
        let stage = Stage::new();
        let root = stage.root();
        let run = |actor: &Actor, origin: MessageOrigin| {
            actor.emit(UserMessage::new("m", [], origin));
            actor.emit(StreamComplete::new(Outcome::Completed));
        };
        for _ in 1..turns {
            run(&root, MessageOrigin::User);
        }
        if of_child {
            root.begin("Go");
            run(&root.spawn("n1"), origin);
            root.end(Outcome::Completed);
        } else {
            run(&root, origin);
        }
        broken(&stage.events())
    };
    for (of_child, turns) in [(false, 1), (false, 2), (true, 1)] {
        assert_eq!(begun(of_child, turns, MessageOrigin::User), None);
        assert_eq!(begun(of_child, turns, MessageOrigin::Steering), Some(Rule::PromptFirst));
    }
}
