//! The flaws: of which stream, and what is done to it.

use std::sync::Arc;

use anabranch_proto::{
    Event, EventKind, Outcome, SpawnMechanism, ToolCallBlock, ToolResultState,
    event::{
        ConfirmResult, MessageOrigin, ModelCallEnd, ModelCallStart, RequireUserConfirm, UserConfirmResult,
        UserMessage,
    },
    grammar::Rule,
};

use super::edit::Edit;
use crate::Stage;

/// How a stream comes to break a rule.
pub(super) struct Flaw {
    pub(super) rule: Rule,
    pub(super) what: &'static str,
    pub(super) stream: fn() -> Vec<Arc<Event>>,
    pub(super) edit: fn(&mut Edit),
}

const fn flaw(rule: Rule, what: &'static str, stream: fn() -> Vec<Arc<Event>>, edit: fn(&mut Edit)) -> Flaw {
    Flaw { rule, what, stream, edit }
}

/// One for each rule, in the order of the table of rules.
pub(super) const FLAWS: &[Flaw] = &[
    flaw(Rule::Numbered, "a number is left out", one_child, |edit| edit.leave_out_number(7)),
    flaw(Rule::Announced, "the spawn is missing", one_child, |edit| {
        edit.remove(("SPAWN_SESSION_START", 0));
    }),
    flaw(Rule::AnnouncedOnce, "the spawn comes twice", one_child, |edit| {
        edit.repeat(("SPAWN_SESSION_START", 0));
    }),
    flaw(Rule::SpawnInParent, "the second spawn names the first child", two_children, |edit| {
        edit.change(("SPAWN_SESSION_START", 1), |kind| {
            if let EventKind::SpawnSessionStart(spawn) = kind {
                spawn.parent_session_id = "ses_1".into();
            }
        });
    }),
    flaw(Rule::SessionUnique, "the child has the root's id", one_child, |edit| {
        edit.change(("SPAWN_SESSION_START", 0), |kind| {
            if let EventKind::SpawnSessionStart(spawn) = kind {
                spawn.child_session_id = spawn.parent_session_id.clone();
            }
        });
    }),
    flaw(Rule::SubagentUnique, "the second child is the first one's sub-agent", two_children, |edit| {
        edit.change(("SPAWN_SESSION_START", 1), |kind| {
            if let EventKind::SpawnSessionStart(spawn) = kind {
                spawn.subagent_id = Some("sa_1".into());
            }
        });
    }),
    flaw(Rule::Depth, "the root's child says depth 2", one_child, |edit| {
        edit.change(("SPAWN_SESSION_START", 0), |kind| {
            if let EventKind::SpawnSessionStart(spawn) = kind {
                spawn.depth = 2;
            }
        });
    }),
    flaw(Rule::DepthLimit, "the deepest child spawns one more", five_deep, |edit| {
        edit.replace(nested(6));
    }),
    flaw(Rule::ScopeAsAnnounced, "one event names another sub-agent", one_child, |edit| {
        edit.change_scope(("TEXT_BLOCK_DELTA", 0), |mut scope| {
            scope.subagent_id = "sa_9".into();
            scope
        });
    }),
    flaw(Rule::UpdateOfChild, "an update of a run that never was", one_child, |edit| {
        edit.change(("SESSION_UPDATED", 0), |kind| {
            if let EventKind::SessionUpdated(update) = kind {
                update.run = 2;
            }
        });
    }),
    flaw(Rule::PromptFirst, "the child's prompt is missing", one_child, |edit| {
        edit.remove(("USER_MESSAGE", 1));
    }),
    flaw(Rule::OneRunAtATime, "the root's first terminal is missing", two_runs, |edit| {
        edit.remove(("STREAM_COMPLETE", 1));
    }),
    flaw(Rule::BetweenRuns, "a sync child is spawned between runs", two_runs, |edit| {
        edit.change(("SPAWN_SESSION_START", 1), |kind| {
            if let EventKind::SpawnSessionStart(spawn) = kind {
                spawn.spawn_mechanism = SpawnMechanism::Sync;
            }
        });
    }),
    flaw(Rule::AfterTerminal, "the child has two terminals", one_child, |edit| {
        edit.repeat(("STREAM_COMPLETE", 0));
    }),
    flaw(Rule::Terminal, "the root's terminal is missing", one_child, |edit| {
        edit.remove(("STREAM_COMPLETE", 1));
    }),
    flaw(Rule::OneReplyAtATime, "a reply begins in a reply", one_agent, |edit| {
        edit.repeat(("REPLY_START", 0));
    }),
    flaw(Rule::ReplyOfSession, "the reply's end names another session", one_agent, |edit| {
        edit.change(("REPLY_END", 0), |kind| {
            if let EventKind::ReplyEnd(end) = kind {
                end.session_id = "ses_9".into();
            }
        });
    }),
    flaw(Rule::WithinReply, "a text is of another reply", one_agent, |edit| {
        edit.change(("TEXT_BLOCK_START", 0), |kind| {
            if let EventKind::TextBlockStart(start) = kind {
                start.reply_id = "reply_9".into();
            }
        });
    }),
    flaw(Rule::ReplyClosed, "a block has no end", one_agent, |edit| {
        edit.remove(("TEXT_BLOCK_END", 1));
    }),
    flaw(Rule::RunClosed, "the reply has no end", one_agent, |edit| {
        edit.remove(("REPLY_END", 0));
    }),
    flaw(Rule::WithinModelCall, "a model call begins in a model call", one_agent, |edit| {
        edit.repeat(("MODEL_CALL_START", 0));
    }),
    flaw(Rule::WithinBlock, "a piece comes after the block's end", one_agent, |edit| {
        edit.put_behind(("TEXT_BLOCK_DELTA", 0), ("TEXT_BLOCK_END", 0));
    }),
    flaw(Rule::BlockUnique, "a block comes again", one_agent, |edit| {
        edit.repeat(("TEXT_BLOCK_START", 0));
    }),
    flaw(Rule::WithinCall, "arguments go on after their end", one_agent, |edit| {
        edit.put_behind(("TOOL_CALL_DELTA", 0), ("TOOL_CALL_END", 0));
    }),
    flaw(Rule::CallUnique, "a call's id comes again", one_agent, |edit| {
        edit.change(("TOOL_CALL_START", 1), |kind| {
            if let EventKind::ToolCallStart(start) = kind {
                start.tool_call_id = "call_0".into();
            }
        });
    }),
    flaw(Rule::ResultAfterCall, "a result begins before its call is complete", one_agent, |edit| {
        edit.put_behind(("TOOL_CALL_END", 0), ("TOOL_RESULT_START", 0));
    }),
    flaw(Rule::OneResult, "a call has a second result", one_agent, |edit| {
        edit.copy_behind(("TOOL_RESULT_START", 0), ("TOOL_RESULT_END", 0));
    }),
    flaw(Rule::WithinResult, "a result goes on after its end", one_agent, |edit| {
        edit.put_behind(("TOOL_RESULT_TEXT_DELTA", 0), ("TOOL_RESULT_END", 0));
    }),
    flaw(Rule::QuestionOfCall, "the same question is asked twice", one_agent, |edit| {
        edit.repeat(("REQUIRE_USER_CONFIRM", 0));
    }),
    flaw(Rule::ChildWithinCall, "the call's result ends before its child", one_child, |edit| {
        edit.put_behind(("STREAM_COMPLETE", 0), ("TOOL_RESULT_END", 0));
    }),
    flaw(Rule::ChildrenFirst, "a child that nobody called outlives the root's run", two_children, |edit| {
        edit.put_behind(("STREAM_COMPLETE", 1), ("STREAM_COMPLETE", 2));
    }),
];

/// One agent, two model calls, two tools, one of them with a question.
fn one_agent() -> Vec<Arc<Event>> {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Tidy up");
    root.emit(ModelCallStart::new(root.reply(), "model"));
    root.think("First a look.");
    root.say_in(&["I look ", "and ask."]);
    let (look, delete) = (root.call("list", r#"{"path":"."}"#), root.call("delete", r#"{"path":"a"}"#));
    root.emit(ModelCallEnd::new(root.reply(), 12_u64, 7_u64));
    root.result(&look, "list", ToolResultState::Success, "a b");
    let block = ToolCallBlock::new(&delete, "delete", r#"{"path":"a"}"#);
    root.emit(RequireUserConfirm::new(root.reply(), vec![block.clone()]));
    root.emit(UserConfirmResult::new(root.reply(), vec![ConfirmResult::new(true, block)]));
    root.result(&delete, "delete", ToolResultState::Success, "gone");
    root.emit(UserMessage::new("msg_steering", [], MessageOrigin::Steering));
    root.emit(ModelCallStart::new(root.reply(), "model"));
    root.say("Done.");
    root.emit(ModelCallEnd::new(root.reply(), 20_u64, 2_u64));
    root.end_saying(Outcome::Completed, "Done.");
    stage.events()
}

/// An agent and a child that its call waits for.
fn one_child() -> Vec<Arc<Event>> {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Look at Seattle");
    let call = root.call("spawn_subagent", r#"{"task":"Seattle"}"#);
    let child = root.spawning("n1").call(&call).now();
    child.begin("Seattle");
    root.update(&child, |update| update.description(Some("Seattle's weather".to_owned())));
    child.say("It rains.");
    child.end_saying(Outcome::Completed, "It rains.");
    root.result(&call, "spawn_subagent", ToolResultState::Success, "It rains.");
    root.say("It rains in Seattle.");
    root.end_saying(Outcome::Completed, "It rains in Seattle.");
    stage.events()
}

/// An agent with two children side by side: a call waits for one, code made the other.
fn two_children() -> Vec<Arc<Event>> {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Compare");
    let call = root.call("spawn_subagent", "{}");
    let one = root.spawning("n1").call(&call).now();
    one.begin("Seattle");
    let two = root.spawning("n2").mechanism(SpawnMechanism::Manual).now();
    two.begin("New York");
    two.say("It is warm.");
    one.say("It rains.");
    one.end(Outcome::Completed);
    root.result(&call, "spawn_subagent", ToolResultState::Success, "It rains.");
    root.say("One is wet.");
    two.end(Outcome::Completed);
    root.end(Outcome::Completed);
    stage.events()
}

/// Two runs of the root; between them a child of code's.
fn two_runs() -> Vec<Arc<Event>> {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Begin");
    let call = root.call("spawn_subagent", "{}");
    let child = root.spawning("n1").call(&call).now();
    child.begin("Look");
    child.end(Outcome::Failed);
    root.result(&call, "spawn_subagent", ToolResultState::Error, "failed");
    root.end(Outcome::Completed);
    let between = root.spawning("watch").mechanism(SpawnMechanism::Manual).now();
    between.begin("Watch");
    between.end(Outcome::Completed);
    root.begin("Go on");
    root.end(Outcome::Completed);
    stage.events()
}

fn five_deep() -> Vec<Arc<Event>> {
    nested(5)
}

/// Children within children.
fn nested(depth: usize) -> Vec<Arc<Event>> {
    let stage = Stage::new();
    let mut actors = vec![stage.root()];
    stage.root().begin("Delegate");
    while let Some(actor) = actors.last().filter(|_| actors.len() <= depth) {
        let child = actor.spawn("delegate");
        child.begin("Delegate");
        actors.push(child);
    }
    for actor in actors.iter().rev() {
        actor.end(Outcome::Completed);
    }
    stage.events()
}
