//! Sequences from faults that people reported in other products, as far as they are about order: the right one passes,
//! the wrong one is named. The numbers are those of the project's list of field cases.

use anabranch_proto::{
    Outcome, SpawnMechanism, TextOrBlocks, ToolCallBlock, ToolCallId, ToolResultState,
    event::{
        ConfirmResult, HintBlockEvent, RequireUserConfirm, SpawnSessionStart, StreamComplete, TextBlockDelta,
        ToolResultEnd, ToolResultStart, UserConfirmResult,
    },
    grammar::Rule,
};
use anabranch_testkit::{Actor, Stage};

use crate::support::broken;

/// The rule that a story breaks, told with a root that has begun.
fn rule(story: impl FnOnce(&Stage, &Actor)) -> Option<Rule> {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Go");
    story(&stage, &root);
    broken(&stage.events())
}

fn hint(actor: &Actor, id: &str) {
    actor.emit(HintBlockEvent::new(actor.reply(), id, None, TextOrBlocks::Text("still running".to_owned())));
}

fn ask(actor: &Actor, call: &ToolCallId) {
    let block = ToolCallBlock::new(call, "delete", "{}");
    actor.emit(RequireUserConfirm::new(actor.reply(), vec![block]));
}

fn answer(actor: &Actor, call: &ToolCallId, confirmed: bool) {
    let block = ToolCallBlock::new(call, "delete", "{}");
    actor.emit(UserConfirmResult::new(actor.reply(), vec![ConfirmResult::new(confirmed, block)]));
}

fn finish(root: &Actor, call: &ToolCallId) {
    root.result(call, "spawn_subagent", ToolResultState::Success, "");
    root.end(Outcome::Completed);
}

#[test]
fn case_1_and_2_what_a_child_says_comes_before_its_end() {
    let told = |in_time: bool| {
        rule(|_, root| {
            let call = root.call("spawn_subagent", "{}");
            let child = root.spawning("c").call(&call).now();
            child.begin("Go");
            hint(&child, "h1");
            if in_time {
                hint(&child, "h2");
            }
            child.end(Outcome::Completed);
            if !in_time {
                hint(&child, "h2");
            }
            finish(root, &call);
        })
    };
    assert_eq!(told(true), None);
    assert_eq!(told(false), Some(Rule::AfterTerminal));
}

#[test]
fn case_5_a_second_spawn_is_a_duplicate_or_the_next_run() {
    let spawned = |again: bool| {
        rule(|stage, root| {
            let call = root.call("spawn_subagent", "{}");
            let child = root.spawning("c").call(&call).now();
            if !again {
                stage.repeat_last();
            }
            child.begin("Go");
            child.end(Outcome::Completed);
            root.result(&call, "spawn_subagent", ToolResultState::Success, "");
            let call = root.call("spawn_subagent", "{}");
            let second = root.spawning("c").again(&child).call(&call).now();
            second.begin("Go on");
            second.end(Outcome::Completed);
            finish(root, &call);
        })
    };
    assert_eq!(spawned(true), None);
    assert_eq!(spawned(false), Some(Rule::AnnouncedOnce));
}

#[test]
fn case_6_a_spawn_that_comes_again_is_named_and_a_question_stays_open() {
    let redelivered = |again: bool| {
        rule(|stage, root| {
            let child = root.spawn("c");
            let spawn = stage.events().pop();
            child.begin("Go");
            let call = child.call("delete", "{}");
            ask(&child, &call);
            if again && let Some(spawn) = spawn {
                root.emit(spawn.kind.clone());
            }
            answer(&child, &call, true);
            child.result(&call, "delete", ToolResultState::Success, "");
            child.end(Outcome::Completed);
            root.end(Outcome::Completed);
        })
    };
    assert_eq!(redelivered(false), None);
    assert_eq!(redelivered(true), Some(Rule::AnnouncedOnce));
}

#[test]
fn case_7_a_cancelled_childs_call_has_a_result() {
    let cancelled = |with_result: bool| {
        rule(|_, root| {
            let child = root.spawn("c");
            child.begin("Go");
            let call = child.call("read", "{}");
            if with_result {
                child.result(&call, "read", ToolResultState::Interrupted, "");
            }
            child.end(Outcome::Interrupted);
            root.end(Outcome::Interrupted);
        })
    };
    assert_eq!(cancelled(true), None);
    assert_eq!(cancelled(false), Some(Rule::ReplyClosed));
}

#[test]
fn case_8_a_grandchild_belongs_to_its_parent_in_every_run() {
    let resumed = |by_parent: bool| {
        rule(|_, root| {
            let a = root.spawn("a");
            a.begin("Go");
            let b = a.spawn("b");
            b.begin("Go");
            b.end(Outcome::Completed);
            if by_parent {
                let b = a.spawning("b").again(&b).now();
                b.begin("Go on");
                b.end(Outcome::Completed);
            } else {
                let scope = b.scope().child().unwrap().as_ref().clone().run(2);
                root.emit(SpawnSessionStart::new(&scope, SpawnMechanism::Sync, "Go on"));
            }
            a.end(Outcome::Completed);
            root.end(Outcome::Completed);
        })
    };
    assert_eq!(resumed(true), None);
    assert_eq!(resumed(false), Some(Rule::SpawnInParent));
}

#[test]
fn case_9_a_hint_of_a_run_comes_once() {
    let hinted = |ids: [&str; 2]| {
        rule(|_, root| {
            for id in ids {
                hint(root, id);
            }
            root.end(Outcome::Completed);
        })
    };
    assert_eq!(hinted(["run 1", "run 2"]), None);
    assert_eq!(hinted(["run 1", "run 1"]), Some(Rule::BlockUnique));
}

#[test]
fn case_10_a_background_child_goes_on_after_its_parents_turn() {
    let outlived = |mechanism: SpawnMechanism| {
        rule(|_, root| {
            let child = root.spawning("c").mechanism(mechanism).now();
            child.begin("Go");
            root.end(Outcome::Completed);
            for _ in 0..30 {
                child.use_tool("read", "{}", "a");
                child.say("So far.");
            }
            child.end(Outcome::Completed);
        })
    };
    assert_eq!(outlived(SpawnMechanism::AsyncWorker), None);
    assert_eq!(outlived(SpawnMechanism::Manual), Some(Rule::ChildrenFirst));
    assert_eq!(outlived(SpawnMechanism::Sync), Some(Rule::ChildrenFirst));
}

#[test]
fn case_14_two_questions_are_answered_in_any_order_and_each_once() {
    let answered = |order: [usize; 2]| {
        rule(|_, root| {
            let children = [root.spawn("a"), root.spawn("b")];
            let calls = children.each_ref().map(|child| {
                child.begin("Go");
                let call = child.call("delete", "{}");
                ask(child, &call);
                call
            });
            for at in order {
                answer(&children[at], &calls[at], at == 0);
            }
            for (child, call) in children.iter().zip(&calls) {
                child.result(call, "delete", ToolResultState::Denied, "");
                child.end(Outcome::Completed);
            }
            root.end(Outcome::Completed);
        })
    };
    assert_eq!(answered([0, 1]), None);
    assert_eq!(answered([1, 0]), None);
    assert_eq!(answered([0, 0]), Some(Rule::QuestionOfCall));
}

#[test]
fn case_15_an_approval_is_no_result() {
    let approved = |in_time: bool| {
        rule(|_, root| {
            let call = root.call("delete", "{}");
            ask(root, &call);
            if in_time {
                answer(root, &call, true);
            }
            root.emit(ToolResultStart::new(root.reply(), &call, "delete"));
            if !in_time {
                answer(root, &call, true);
            }
            root.emit(ToolResultEnd::new(root.reply(), &call, ToolResultState::Error));
            root.end(Outcome::Completed);
        })
    };
    assert_eq!(approved(true), None);
    assert_eq!(approved(false), Some(Rule::QuestionOfCall));
}

#[test]
fn case_18_the_first_terminal_is_the_only_one() {
    let ended = |outcomes: &[Outcome]| {
        rule(|_, root| {
            let child = root.spawn("c");
            child.begin("Go");
            child.end(outcomes[0]);
            for &outcome in &outcomes[1..] {
                child.emit(StreamComplete::new(outcome));
            }
            root.end(Outcome::Completed);
        })
    };
    assert_eq!(ended(&[Outcome::Completed]), None);
    assert_eq!(ended(&[Outcome::Completed, Outcome::Failed]), Some(Rule::AfterTerminal));
}

#[test]
fn case_20_a_text_has_its_spawn_before_it_and_more_may_be_learnt_later() {
    let announced = |in_time: bool| {
        let stage = Stage::new();
        let root = stage.root();
        root.begin("Go");
        let child = root.spawning("agent").mechanism(SpawnMechanism::Manual).now();
        child.begin("Go");
        let block = child.open_text();
        child.emit(TextBlockDelta::new(child.reply(), &block, "Before."));
        child.close_text(&block);
        root.update(&child, |update| update.description(Some("Read".to_owned())));
        child.end(Outcome::Completed);
        root.end(Outcome::Completed);
        let mut events = stage.events();
        if !in_time {
            let spawn = events.remove(2);
            events.insert(6, spawn);
        }
        broken(&events)
    };
    assert_eq!(announced(true), None);
    assert_eq!(announced(false), Some(Rule::Announced));
}
