//! What a view hides, and that the rest is still a stream.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use anabranch_adapters::visibility::{Visibility, Visible};
use anabranch_adapters::{Encode as _, encode::NativeLines};
use anabranch_proto::{
    ChildScope, ContentBlock, Event, EventId, EventKind, Fields, FinishedReason, HintBlock, Json, Message,
    Metadata, Outcome, PermissionRule, Role, Scope, SpawnMechanism, TextBlock, TextOrBlocks, ThinkingBlock,
    Timestamp, ToolCallBlock, ToolResultBlock, ToolResultState,
    event::{
        ConfirmResult, ExternalExecutionResult, HintBlockEvent, MessageOrigin, ReplyEnd, ReplyStart,
        RequireExternalExecution, RequireUserConfirm, SessionUpdated, SpawnSessionStart, StreamComplete,
        TextBlockDelta, TextBlockEnd, TextBlockStart, ThinkingBlockDelta, ThinkingBlockEnd,
        ThinkingBlockStart, ToolCallDelta, ToolCallEnd, ToolCallStart, ToolResultEnd, ToolResultStart,
        ToolResultTextDelta, Unknown, UserConfirmResult, UserMessage,
    },
    grammar::{Profile, Verifier},
    native,
};
use anabranch_testkit::{Actor, Stage};
use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};

type Hide = fn(Visibility) -> Visibility;

/// What may be hidden, with the word that is in all of it and nowhere else.
const CONTENT: [(&str, Hide); 4] = [
    ("THOUGHT", Visibility::hide_thinking),
    ("PROMPT", Visibility::hide_prompts),
    ("INPUT", |visibility| visibility.hide_arguments(|_| true)),
    ("OUTPUT", |visibility| visibility.hide_results(|_| true)),
];

/// Sessions by number; the root is 0, and 3 and 4 lie below others.
fn scope(session: usize, run: u32, parent: usize) -> ChildScope {
    let depth = if parent == 0 { 1 } else { 2 };
    ChildScope::new(format!("s{session}"), format!("s{parent}"), format!("a{session}"), format!("n{session}"))
        .run(run)
        .depth(depth)
}

#[derive(Clone, Debug)]
struct Step {
    kind: u8,
    session: usize,
    parent: usize,
    run: u32,
    id: u8,
}

const KINDS: u8 = 36;

impl Step {
    fn event(&self) -> Event {
        let own = scope(self.session, self.run, self.parent);
        let said_by_parent = self.kind < 3;
        let scope_of = |session: usize, parent: usize| match session {
            0 => Scope::Root,
            session => Scope::from(scope(session, self.run, parent)),
        };
        let event_scope =
            if said_by_parent { scope_of(self.parent, 0) } else { scope_of(self.session, self.parent) };
        let (block, call) = (format!("b{}", self.id), format!("c{}", self.id));
        let calling = own.clone().tool_call_id(Some(call.as_str().into()));
        let is_root = self.session == 0;
        let session = format!("s{}", self.session);
        let prompt = || vec![ContentBlock::from(TextBlock::new(if is_root { "asked" } else { "PROMPT" }))];
        let origin = if is_root { MessageOrigin::User } else { MessageOrigin::Parent };
        let tool_call = || {
            let mut block = ToolCallBlock::new(call.as_str(), "t", "INPUT");
            block.suggested_rules =
                vec![PermissionRule::new("t", "allow", "s").content(Some("INPUT".into()))];
            block
        };
        let mut metadata = Metadata::default();
        let kind: EventKind = match self.kind {
            0 | 1 => {
                metadata = metadata.with("prompt", "PROMPT").with("k", 1);
                let (scope, mechanism) = if self.kind == 0 {
                    (&calling, SpawnMechanism::Sync)
                } else {
                    (&own, SpawnMechanism::AsyncWorker)
                };
                SpawnSessionStart::new(scope, mechanism, "").into()
            }
            2 => SessionUpdated::new(own.child_session_id, self.run).description(Some("d".to_owned())).into(),
            3 | 4 => UserMessage::new("m", prompt(), origin).into(),
            5 => UserMessage::new("m", prompt(), MessageOrigin::Steering).into(),
            6..=8 => ReplyStart::new(session, "r", "n").into(),
            9 => ReplyEnd::new(session, "r", FinishedReason::Completed).into(),
            10 | 11 => {
                let content: Vec<ContentBlock> = vec![
                    ThinkingBlock::new("THOUGHT").into(),
                    TextBlock::new("said").into(),
                    HintBlock::new(TextOrBlocks::Text("PROMPT".to_owned())).into(),
                    tool_call().into(),
                    tool_result(&call).into(),
                ];
                StreamComplete::new(Outcome::Completed)
                    .message(Message::new("r", "n", Role::Assistant, content))
                    .into()
            }
            13 => TextBlockDelta::new("r", block, "said").into(),
            14 => TextBlockEnd::new("r", block).into(),
            15 | 16 => ThinkingBlockStart::new("r", block).into(),
            17 | 18 => ThinkingBlockDelta::new("r", block, "THOUGHT").into(),
            19 => ThinkingBlockEnd::new("r", block).into(),
            20 | 21 => ToolCallStart::new("r", call, "t").into(),
            22 => ToolCallDelta::new("r", call, "INPUT").into(),
            23 | 24 => ToolCallEnd::new("r", call).into(),
            25 => ToolResultStart::new("r", call, "t").into(),
            26 => ToolResultTextDelta::new("r", call, "OUTPUT").into(),
            27 | 28 => {
                let response = Metadata::default()
                    .with("files", "OUTPUT")
                    .with("child_session_id", "s1")
                    .with("subagent_id", "a1");
                ToolResultEnd::new("r", call, ToolResultState::Success).response(response).into()
            }
            29 => RequireUserConfirm::new("r", vec![tool_call()]).into(),
            30 => {
                let mut answer = ConfirmResult::new(true, tool_call());
                answer.rules =
                    Some(vec![PermissionRule::new("t", "allow", "s").content(Some("INPUT".into()))]);
                UserConfirmResult::new("r", vec![answer]).into()
            }
            31 => RequireExternalExecution::new("r", vec![tool_call()]).into(),
            32 => ExternalExecutionResult::new("r", vec![tool_result(&call)]).into(),
            33 => HintBlockEvent::new("r", block, None, TextOrBlocks::Text("PROMPT".to_owned())).into(),
            34 => Unknown::new("FUTURE", all_words()).into(),
            _ => TextBlockStart::new("r", block).into(),
        };
        let mut event = Event::new("e", Timestamp::from_unix(0, 0), event_scope, metadata, kind);
        if self.kind >= 34 {
            event.extra = Some(Box::new(all_words()));
        }
        event
    }
}

fn tool_result(call: &str) -> ToolResultBlock {
    let mut result = ToolResultBlock::new(call, "t");
    result.output =
        TextOrBlocks::Blocks(vec![TextBlock::new("OUTPUT").into(), ThinkingBlock::new("THOUGHT").into()]);
    result.metadata = Metadata::default().with("k", "OUTPUT");
    result
}

/// Fields that nobody knows, with everything in them that may be hidden.
fn all_words() -> Fields {
    let mut fields = Fields::default();
    for (word, _) in CONTENT {
        fields.insert(word.to_lowercase(), Json::from(serde_json::Value::from(word)));
    }
    fields
}

/// What belongs together, in its order.
const COURSES: [&[u8]; 8] = [
    &[0, 3, 6],
    &[1, 3, 6],
    &[3, 6],
    &[12, 13, 14],
    &[15, 17, 17, 19],
    &[20, 22, 23, 29, 30, 25, 26, 27],
    &[20, 22, 22, 23, 31, 32, 25, 27],
    &[20, 23, 25, 26, 26, 27],
];

/// Steps of one session: any, or as many of a course as come before something else does.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let course = (0..COURSES.len(), 1..9_usize)
        .prop_map(|(course, most)| COURSES[course].iter().copied().take(most).collect::<Vec<_>>());
    let kinds = prop_oneof![2 => (0..KINDS).prop_map(|kind| vec![kind]), 1 => course];
    let run = prop_oneof![4 => Just(1_u32), 2 => Just(2), 1 => Just(3)];
    let parent = prop_oneof![7 => Just(None), 1 => (0..3_usize).prop_map(Some)];
    (kinds, 0..5_usize, parent, run, 0..6_u8).prop_map(|(kinds, session, parent, run, id)| {
        let step = |kind| {
            let session = if kind < 3 { session.max(1) } else { session };
            Step { kind, session, parent: parent.unwrap_or([0, 0, 0, 1, 2][session]), run, id }
        };
        kinds.into_iter().map(step).collect()
    })
}

/// Steps that end whatever is open, where it can be, those below others first.
fn ends() -> Vec<Step> {
    let sessions = [(3, 1), (4, 2), (1, 0), (2, 0), (0, 0)];
    let of_ids = [14, 19, 24, 25, 27].map(|kind| (0..6_u8).map(move |id| (kind, id)));
    let kinds: Vec<_> = of_ids.into_iter().flatten().chain([(3, 0), (9, 0), (10, 0)]).collect();
    let step = |(session, parent): (usize, usize), (kind, id): (u8, u8), run| Step {
        kind,
        session,
        parent,
        run,
        id,
    };
    let of_session = |at| {
        (1..4).flat_map({
            let kinds = kinds.clone();
            move |run| kinds.clone().into_iter().map(move |kind| step(at, kind, run))
        })
    };
    sessions.into_iter().flat_map(of_session).collect()
}

/// Random events and their ends, of which those are kept that the verifier lets pass.
fn stream() -> impl Strategy<Value = Vec<Arc<Event>>> {
    prop::collection::vec(steps(), 0..250).prop_map(|steps| {
        let mut verifier = Verifier::new(Profile::Native);
        let mut passed = Vec::new();
        for step in steps.into_iter().flatten().chain(ends()) {
            let mut event = step.event();
            event.id = EventId::new(format!("e{}", passed.len()));
            let event = Arc::new(event);
            let mut next = verifier.clone();
            if next.check(&event).is_ok() {
                verifier = next;
                passed.push(event);
            }
        }
        passed
    })
}

fn passed(mut visibility: Visibility, events: &[Arc<Event>]) -> Vec<Arc<Event>> {
    let pass = |event: &Arc<Event>| match visibility.pass(event) {
        Some(Cow::Borrowed(_)) => Some(Arc::clone(event)),
        Some(Cow::Owned(event)) => Some(Arc::new(event)),
        None => None,
    };
    events.iter().filter_map(pass).collect()
}

/// How many sessions, runs and things are open at the end, where nothing is wrong.
fn verified(events: &[Arc<Event>]) -> Result<usize, String> {
    let mut verifier = Verifier::new(Profile::Native);
    for event in events {
        verifier.check(event).map_err(|violation| violation.to_string())?;
    }
    Ok(verifier.open())
}

fn lines(events: &[Arc<Event>]) -> String {
    events.iter().map(|event| native::to_string(event).unwrap() + "\n").collect()
}

fn number_of(id: &EventId) -> usize {
    id.to_string()[1..].parse().unwrap()
}

/// Whether a session is hidden where those in `roots` are: it or one above it, in the order in which they are spawned.
fn hidden(event: &Event, roots: [bool; 5]) -> bool {
    let number = |id: &str| id.strip_prefix('s').and_then(|id| id.parse::<usize>().ok()).unwrap_or(0);
    event.scope.child().is_some_and(|scope| {
        roots[number(scope.child_session_id.as_str())] || roots[number(scope.parent_session_id.as_str())]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever is hidden of whatever stream: the rest is a stream, says nothing hidden, and is otherwise the same.
    #[test]
    fn what_passes_is_well_formed_and_says_nothing_hidden(
        events in stream(),
        content in any::<[bool; 4]>(),
        children in any::<[bool; 5]>(),
        hides_children in any::<bool>(),
    ) {
        let mut visibility = Visibility::new();
        for ((_, hide), hides) in CONTENT.iter().zip(content) {
            if hides {
                visibility = hide(visibility);
            }
        }
        // The root is no child.
        let children = if hides_children { [&[false], &children[1..]].concat().try_into().unwrap() } else { [false; 5] };
        if hides_children {
            visibility = visibility.hide_children(move |child| {
                children[child.session.as_str()[1..].parse::<usize>().unwrap()]
            });
        }
        let passed = passed(visibility, &events);
        prop_assert!(verified(&events).is_ok());
        let open = verified(&passed);
        prop_assert!(open.is_ok(), "{open:?}\n{}", lines(&passed));

        let text = lines(&passed);
        for ((word, _), hides) in CONTENT.iter().zip(content) {
            prop_assert!(!(hides && text.contains(word)), "{word} is in\n{text}");
        }
        for (number, _) in children.iter().enumerate().filter(|(_, hides)| **hides) {
            let (session, subagent) = (format!("\"s{number}\""), format!("\"a{number}\""));
            // What mentions a child that nobody has met mentions nobody.
            let is_spawn = |event: &&Arc<Event>| {
                matches!(&event.kind, EventKind::SpawnSessionStart(spawn) if *spawn.child_session_id.as_str() == *format!("s{number}"))
            };
            let met = events.iter().find(is_spawn).map(|event| event.id.clone());
            let later = passed.iter().skip_while(|event| met.as_ref().is_none_or(|met| number_of(&event.id) < number_of(met)));
            let text = lines(&later.cloned().collect::<Vec<_>>());
            prop_assert!(!text.contains(&session) && !text.contains(&subagent), "{session} is in\n{text}");
        }
        // What says nothing hidden is the same event, and not a copy.
        let is_free = |event: &&Arc<Event>| {
            let line = native::to_string(event).unwrap();
            let mentions = children.iter().enumerate().any(|(number, hides)| {
                *hides && [format!("\"s{number}\""), format!("\"a{number}\"")].iter().any(|id| line.contains(id))
            });
            let says = CONTENT.iter().zip(content).any(|((word, _), hides)| hides && line.contains(word));
            !says && !mentions && !hidden(event, children) && event.extra.is_none()
                && !matches!(event.kind, EventKind::Unknown(_) | EventKind::HintBlock(_) | EventKind::UserMessage(_)
                    | EventKind::ThinkingBlockStart(_) | EventKind::ThinkingBlockEnd(_))
        };
        let mut rest = passed.iter();
        for event in events.iter().filter(is_free) {
            prop_assert!(rest.any(|passed| Arc::ptr_eq(passed, event)), "{event:?}");
        }
        if content == [false; 4] && !hides_children {
            prop_assert_eq!(passed.len(), events.len());
        }
    }

    #[test]
    fn a_stream_that_is_complete_stays_complete(events in stream(), content in any::<[bool; 4]>()) {
        let open = verified(&events).unwrap();
        let mut visibility = Visibility::new().hide_children(|child| child.name == "n2");
        for ((_, hide), hides) in CONTENT.iter().zip(content) {
            if hides {
                visibility = hide(visibility);
            }
        }
        let still_open = verified(&passed(visibility, &events)).unwrap();
        prop_assert!(still_open <= open);
    }
}

/// Or else the laws above hold of nothing.
#[test]
fn the_random_streams_have_every_kind_that_may_be_hidden_and_grandchildren_that_end() {
    let mut runner = TestRunner::deterministic();
    let (mut kinds, mut deepest, mut ended) = (BTreeSet::new(), 0, 0);
    for _ in 0..100 {
        let events = stream().new_tree(&mut runner).unwrap().current();
        for event in &events {
            kinds.insert(event.kind.tag().to_owned());
            deepest = deepest.max(event.scope.depth());
            let is_end = matches!(event.kind, EventKind::StreamComplete(_));
            ended += usize::from(is_end && event.scope.depth() == 2);
        }
    }
    let made: BTreeSet<_> = (0..KINDS)
        .map(|kind| Step { kind, session: 1, parent: 0, run: 1, id: 0 }.event())
        .collect::<Vec<_>>()
        .iter()
        .map(|event| event.kind.tag().to_owned())
        .collect();
    assert_eq!(kinds, made);
    assert_eq!(deepest, 2);
    assert!(ended > 20, "{ended}");
}

/// A conversation with everything in it.
fn conversation() -> Stage {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Compare two cities");
    root.think("THOUGHT");
    let call = root.call("spawn_subagent", r#"{"task":"PROMPT"}"#);
    let n1 = root.spawning("n1").call(&call).with("prompt", "PROMPT").now();
    let call_of_n2 = root.call("spawn_subagent", r#"{"task":"PROMPT"}"#);
    let n2 = root.spawning("n2").call(&call_of_n2).with("node_id", "n2").now();
    n1.begin("PROMPT");
    n2.begin("PROMPT");
    let critic = n1.spawn("critic");
    critic.begin("PROMPT");
    critic.say("Too wet.");
    critic.end(Outcome::Completed);
    root.update(&n1, |update| update.description(Some("Look at Seattle".to_owned())));
    say_all(&n1, "Seattle is wet.");
    say_all(&n2, "New York is warm.");
    n1.end_saying(Outcome::Completed, "Seattle is wet.");
    root.result(&call, "spawn_subagent", ToolResultState::Success, "Seattle is wet.");
    n2.end_saying(Outcome::Completed, "New York is warm.");
    root.result(&call_of_n2, "spawn_subagent", ToolResultState::Success, "New York is warm.");
    root.say("Seattle is wetter.");
    root.end_saying(Outcome::Completed, "Seattle is wetter.");
    stage
}

fn say_all(actor: &Actor, text: &str) {
    actor.think("THOUGHT");
    actor.use_tool("read", r#"{"path":"INPUT"}"#, "OUTPUT");
    actor.say(text);
}

fn tags(events: &[Arc<Event>]) -> Vec<&str> {
    events.iter().map(|event| event.kind.tag()).collect()
}

#[test]
fn a_hidden_child_takes_all_below_it_along_and_leaves_its_parents_call() {
    let all = conversation().events();
    let shown = passed(Visibility::new().hide_children(|child| child.name == "n1"), &all);
    assert_eq!(verified(&shown), Ok(0));
    let spawned = shown.iter().filter_map(|event| {
        if let EventKind::SpawnSessionStart(spawn) = &event.kind { Some(&*spawn.source_name) } else { None }
    });
    assert_eq!(spawned.collect::<Vec<_>>(), ["n2"]);
    let text = lines(&shown);
    assert!(
        !text.contains("critic") && !text.contains("Look at Seattle") && !text.contains("ses_1"),
        "{text}"
    );
    assert_eq!(text.matches("spawn_subagent").count(), 4, "both calls and both results stay");
    assert_eq!(text.matches("Seattle is wet.").count(), 1, "the result of its call");
    // One hidden below a shown one leaves that.
    let shown = passed(Visibility::new().hide_children(|child| child.depth == 2), &all);
    assert_eq!(all.len() - shown.len(), 8, "{:?}", tags(&shown));
}

#[test]
fn a_child_is_chosen_by_its_metadata_too() {
    let by_node = |child: &anabranch_adapters::visibility::Candidate<'_>| {
        child.metadata.get_str("node_id").as_deref() == Some("n2")
    };
    let shown = passed(Visibility::new().hide_children(by_node), &conversation().events());
    assert_eq!(verified(&shown), Ok(0));
    assert!(!lines(&shown).contains("ses_2"));
}

#[test]
fn a_prompt_stays_as_the_begin_of_its_run_and_the_persons_stays_whole() {
    let shown = passed(
        Visibility::new().hide_prompts().hide_arguments(|tool| tool == "spawn_subagent"),
        &conversation().events(),
    );
    assert_eq!(verified(&shown), Ok(0));
    let text = lines(&shown);
    assert!(!text.contains("PROMPT") && text.contains("Compare two cities"), "{text}");
    assert_eq!(tags(&shown).iter().filter(|tag| **tag == "USER_MESSAGE").count(), 4);
    assert_eq!(text.matches("INPUT").count(), 2, "other tools' arguments stay");
}

#[test]
fn arguments_and_results_are_hidden_by_the_tools_name_even_where_its_start_was_not_seen() {
    let all = conversation().events();
    let of_read =
        || Visibility::new().hide_arguments(|tool| tool == "read").hide_results(|tool| tool == "read");
    let shown = lines(&passed(of_read(), &all));
    assert!(!shown.contains("INPUT") && !shown.contains("OUTPUT"), "{shown}");
    assert_eq!(shown.matches("TOOL_CALL_START").count(), 4);
    assert_eq!(shown.matches("TOOL_RESULT_END").count(), 4);
    assert!(shown.contains(r#"\"task\":\"PROMPT\""#), "other tools' stay");
    for from in 0..all.len() {
        let shown = lines(&passed(of_read(), &all[from..]));
        assert!(!shown.contains("INPUT") && !shown.contains("OUTPUT"), "from {from}: {shown}");
    }
}

#[test]
fn a_run_of_a_shown_child_that_somebody_hidden_spawns_is_hidden_and_the_next_is_not() {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Go");
    let helper = root.spawn("helper");
    helper.begin("Help");
    helper.say("first");
    helper.end(Outcome::Completed);
    let secret = root.spawn("secret");
    secret.begin("Ask the helper");
    let second = secret.spawning("helper").again(&helper).now();
    second.begin("Help");
    second.say("second");
    second.end(Outcome::Completed);
    secret.end(Outcome::Completed);
    let third = root.spawning("helper").again(&second).now();
    third.begin("Help");
    third.say("third");
    third.end(Outcome::Completed);
    root.end(Outcome::Completed);
    let all = stage.events();
    assert_eq!(verified(&all), Ok(0));
    let shown = passed(Visibility::new().hide_children(|child| child.name == "secret"), &all);
    assert_eq!(verified(&shown), Ok(0));
    let text = lines(&shown);
    assert_eq!(["first", "second", "third"].map(|said| text.contains(said)), [true, false, true]);
}

#[test]
fn a_stage_before_an_encoder_keeps_the_numbers_of_the_log() {
    let all = conversation().events();
    let mut encoder = Visible::new(Visibility::new().hide_thinking(), NativeLines);
    let mut out = Vec::new();
    for (seq, event) in (1..).zip(&all) {
        encoder.event(Some(seq), event, &mut out).unwrap();
    }
    encoder.finish(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(!text.contains("THOUGHT"));
    let last = text.lines().last().unwrap();
    assert!(last.starts_with(&format!(r#"{{"seq":{},"#, all.len())), "{last}");
}

#[test]
fn a_call_is_of_the_tool_that_it_began_with_whatever_it_is_called_later() {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Go");
    let reply = root.reply();
    root.emit(ToolCallStart::new(&reply, "c", "secret"));
    // As a provider's stream or a sub-agent's may have it: the same call again, by another name.
    root.emit(ToolCallStart::new(&reply, "c", "public"));
    root.emit(ToolCallDelta::new(&reply, "c", "INPUT"));
    let block = ToolCallBlock::new("c", "public", "INPUT");
    root.emit(RequireUserConfirm::new(&reply, vec![block.clone()]));
    root.emit(RequireExternalExecution::new(&reply, vec![block.clone()]));
    root.emit(UserConfirmResult::new(&reply, vec![ConfirmResult::new(true, block)]));
    let mut result = ToolResultBlock::new("c", "public");
    result.output = TextOrBlocks::Text("OUTPUT".to_owned());
    root.emit(ExternalExecutionResult::new(&reply, vec![result]));
    root.emit(ToolResultStart::new(&reply, "c", "public"));
    root.emit(ToolResultTextDelta::new(&reply, "c", "OUTPUT"));
    let is_secret = |tool: &str| tool == "secret";
    let view = Visibility::new().hide_arguments(is_secret).hide_results(is_secret);
    let shown = lines(&passed(view, &stage.events()));
    assert!(!shown.contains("INPUT") && !shown.contains("OUTPUT"), "{shown}");
    // It is not that nothing of it would be shown.
    let other = Visibility::new().hide_arguments(|tool| tool == "other");
    assert_eq!(lines(&passed(other, &stage.events())).matches("INPUT").count(), 4);
}
