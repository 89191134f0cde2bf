//! A small language for events, so that a test reads as the story that it tells.
//!
//! A line is `<verb> <session> <words>`. A session is a path below the root, such as `root`, `c` or `a/b`; `c#2` is its
//! second run. `key=value` words may stand anywhere. What was admitted is written in much the same way.

use std::{
    cell::{Cell, RefCell},
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anabranch_proto::{
    Admitted, ChildScope, ErrorInfo, ErrorType, Event, EventId, EventKind, FinishedReason, Metadata, Outcome,
    Scope, SpawnMechanism, Stamp, TextBlock, TextOrBlocks, Timestamp, ToolCallBlock, ToolCallId,
    ToolResultState, event::*,
};
use anabranch_session::{Ending, EventProcessor, Limits};

/// Counts instead of making ids and reading clocks.
#[derive(Debug, Default)]
pub(crate) struct CountingStamp(AtomicU64);

impl CountingStamp {
    /// The stamp of another program, whose ids are others.
    pub(crate) fn of_another() -> Self {
        Self(AtomicU64::new(1 << 32))
    }
}

impl Stamp for CountingStamp {
    fn unique(&self) -> [u8; 16] {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed)).to_be_bytes()
    }

    fn ascending(&self) -> [u8; 16] {
        self.unique()
    }

    fn now(&self) -> Timestamp {
        let count = self.0.load(Ordering::Relaxed);
        Timestamp::from_unix(1_000_000 + i64::try_from(count).unwrap(), 0)
    }
}

/// A processor and what it admitted.
pub(crate) struct Session {
    pub(crate) processor: EventProcessor,
    pub(crate) stamp: CountingStamp,
    pub(crate) admitted: Vec<Admitted>,
    pub(crate) given: Vec<Arc<Event>>,
    ids: Cell<u64>,
    scopes: RefCell<Vec<Scope>>,
}

impl Session {
    pub(crate) fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    pub(crate) fn with_limits(limits: Limits) -> Self {
        Self {
            processor: EventProcessor::new("root".into(), limits),
            stamp: CountingStamp::default(),
            admitted: Vec::new(),
            given: Vec::new(),
            ids: Cell::new(0),
            scopes: RefCell::default(),
        }
    }

    /// Plays the lines of a script and gives what was admitted because of them.
    pub(crate) fn play(&mut self, script: &str) -> String {
        let from = self.admitted.len();
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let line = Line::parse(line);
            let ending = || {
                let word = if line.verb == "close_session" { line.word(0) } else { &line.path };
                let outcome = if word.is_empty() { Outcome::Interrupted } else { outcome(word) };
                Ending::new(outcome).error(line.error())
            };
            match &*line.verb {
                "close" => self.processor.close(ending(), &self.stamp, &mut self.admitted),
                "close_reply" => self.processor.close_reply(ending(), &self.stamp, &mut self.admitted),
                "close_session" => {
                    let session = line.path.rsplit('/').next().unwrap().into();
                    self.processor.close_session(&session, ending(), &self.stamp, &mut self.admitted);
                }
                "again" => self.give(Arc::clone(self.given.last().unwrap())),
                _ => {
                    let event = self.event(&line);
                    self.give(event);
                }
            }
        }
        render(&self.admitted[from..])
    }

    pub(crate) fn give(&mut self, event: Arc<Event>) {
        self.given.push(Arc::clone(&event));
        self.processor.process(event, &self.stamp, &mut self.admitted);
    }

    fn event(&self, line: &Line) -> Arc<Event> {
        let number = self.ids.get() + 1;
        self.ids.set(number);
        let id = line.get("id").map_or_else(|| EventId::new(format!("e{number}")), EventId::new);
        let at = Timestamp::from_unix(i64::try_from(number).unwrap(), 0);
        let mut metadata = Metadata::default();
        for (key, value) in line.keys.iter().filter_map(|(key, value)| Some((key.strip_prefix('@')?, value)))
        {
            metadata = metadata.with(key, value.as_str());
        }
        let scope = match &*line.verb {
            "spawn" | "update" => line.parent_scope(),
            _ => line.scope(),
        };
        // Producers share a run's scope, readers of other formats may not: here every third event has its own.
        let scope = if number.is_multiple_of(3) { scope } else { self.shared(scope) };
        Arc::new(Event::new(id, at, scope, metadata, line.kind()))
    }

    fn shared(&self, scope: Scope) -> Scope {
        let mut scopes = self.scopes.borrow_mut();
        if let Some(known) = scopes.iter().find(|known| **known == scope) {
            return known.clone();
        }
        scopes.push(scope.clone());
        scope
    }
}

/// Plays a script from the start.
pub(crate) fn play(script: &str) -> String {
    Session::new().play(script)
}

/// Checks what a script admits.
#[track_caller]
pub(crate) fn check(name: &str, script: &str, expected: &str) {
    let lines = |text: &str| {
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let played = play(script);
    assert_eq!(lines(&played), lines(expected), "{name}\n--- script\n{script}\n--- admitted\n{played}");
}

struct Line {
    verb: String,
    path: String,
    run: u32,
    words: Vec<String>,
    keys: Vec<(String, String)>,
}

impl Line {
    fn parse(line: &str) -> Self {
        let mut words = line.split(' ').map(str::to_owned);
        let verb = words.next().unwrap();
        let session = words.next().unwrap_or_default();
        let (path, run) = session.split_once('#').unwrap_or((&session, "1"));
        let (path, run) = (path.to_owned(), run.parse().unwrap());
        let (keys, words): (Vec<_>, Vec<_>) = words.partition(|word| word.contains('='));
        let keys = keys.iter().map(|word| word.split_once('=').unwrap());
        let keys = keys.map(|(key, value)| (key.to_owned(), value.replace('_', " "))).collect();
        Self { verb, path, run, words, keys }
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.keys.iter().find(|(name, _)| name == key).map(|(_, value)| &**value)
    }

    fn word(&self, index: usize) -> &str {
        self.words.get(index).map_or("", |word| word)
    }

    fn rest(&self, from: usize) -> String {
        self.words.get(from..).unwrap_or_default().join(" ")
    }

    fn error(&self) -> Option<ErrorInfo> {
        self.get("error").map(|text| ErrorInfo::new(ErrorType::INTERNAL, text))
    }

    fn data(&self) -> DataPart {
        DataPart::Base64(self.get("data").unwrap_or_default().to_owned())
    }

    fn child(&self) -> ChildScope {
        let name = self.path.rsplit('/').next().unwrap();
        let parent = self.path.rsplit('/').nth(1).unwrap_or("root");
        let depth = u32::try_from(self.path.split('/').count()).unwrap();
        ChildScope::new(
            name,
            parent,
            self.get("agent").unwrap_or(&format!("sa {name}")),
            self.get("name").unwrap_or(name),
        )
        .run(self.run)
        .depth(self.get("depth").map_or(depth, |depth| depth.parse().unwrap()))
        .tool_call_id(self.get("call").map(ToolCallId::from))
    }

    fn scope(&self) -> Scope {
        if self.path == "root" { Scope::Root } else { self.child().into() }
    }

    fn parent_scope(&self) -> Scope {
        match self.path.rsplit_once('/') {
            None => Scope::Root,
            Some((parent, _)) => Line {
                verb: String::new(),
                path: parent.to_owned(),
                run: self.get("under").map_or(1, |run| run.parse().unwrap()),
                words: Vec::new(),
                keys: Vec::new(),
            }
            .scope(),
        }
    }

    fn kind(&self) -> EventKind {
        let reply = self.get("reply").unwrap_or("r1");
        let id = self.word(0);
        match &*self.verb {
            "spawn" => {
                let mechanism = match id {
                    "" | "sync" => SpawnMechanism::Sync,
                    "async" => SpawnMechanism::AsyncWorker,
                    "manual" => SpawnMechanism::Manual,
                    other => panic!("mechanism {other}"),
                };
                let mut spawn =
                    SpawnSessionStart::new(&self.child(), mechanism, self.get("task").unwrap_or("work"));
                if self.get("run") == Some("none") {
                    spawn.run = None;
                    spawn.subagent_id = None;
                }
                spawn.into()
            }
            "update" => {
                let child = self.child();
                SessionUpdated::new(child.child_session_id, self.run)
                    .description(self.get("task").map(str::to_owned))
                    .spawn_mechanism(self.get("mechanism").map(|_| SpawnMechanism::Sync))
                    .into()
            }
            "prompt" => {
                let origin = match self.get("origin") {
                    Some("steering") => MessageOrigin::Steering,
                    _ if self.path == "root" => MessageOrigin::User,
                    _ => MessageOrigin::Parent,
                };
                let id = self.get("message").unwrap_or("m1");
                UserMessage::new(id, vec![TextBlock::new(self.rest(0)).into()], origin).into()
            }
            "start" => ReplyStart::new(self.path.as_str(), reply, "agent").into(),
            "reply_end" => {
                let reason = match id {
                    "" => FinishedReason::Completed,
                    "interrupted" => FinishedReason::Interrupted,
                    other => panic!("reason {other}"),
                };
                ReplyEnd::new(self.path.as_str(), reply, reason).into()
            }
            "model" => ModelCallStart::new(reply, "model").into(),
            "model_end" => ModelCallEnd::new(reply, 10_u64, 5_u64).into(),
            "text" => TextBlockStart::new(reply, id).into(),
            "delta" => TextBlockDelta::new(reply, id, self.rest(1)).into(),
            "text_end" => TextBlockEnd::new(reply, id).text(self.get("text").map(str::to_owned)).into(),
            "thinking" => ThinkingBlockStart::new(reply, id).into(),
            "thinking_delta" => ThinkingBlockDelta::new(reply, id, self.rest(1)).into(),
            "thinking_end" => ThinkingBlockEnd::new(reply, id).into(),
            "data" => DataBlockStart::new(reply, id, "image/png").into(),
            "data_delta" => DataBlockDelta::new(reply, id, "image/png", self.data()).into(),
            "data_end" => DataBlockEnd::new(reply, id).into(),
            "hint" => HintBlockEvent::new(reply, id, None, TextOrBlocks::Text(self.rest(1))).into(),
            "call" => ToolCallStart::new(reply, id, "tool").into(),
            "arguments" => ToolCallDelta::new(reply, id, self.rest(1)).into(),
            "call_end" => ToolCallEnd::new(reply, id).into(),
            "result" => ToolResultStart::new(reply, id, "tool").into(),
            "output" => ToolResultTextDelta::new(reply, id, self.rest(1)).into(),
            "output_data" => {
                ToolResultDataDelta::new(reply, id, self.word(1), "image/png", self.data()).into()
            }
            "result_end" => {
                let state = match self.word(1) {
                    "" => ToolResultState::Success,
                    "error" => ToolResultState::Error,
                    "interrupted" => ToolResultState::Interrupted,
                    other => panic!("state {other}"),
                };
                ToolResultEnd::new(reply, id, state).into()
            }
            "confirm" => RequireUserConfirm::new(reply, vec![ToolCallBlock::new(id, "tool", "")]).into(),
            "say" => Custom::new(id, anabranch_proto::Json::parse("{}").unwrap()).into(),
            "end" => {
                let outcome = if id.is_empty() { Outcome::Completed } else { outcome(id) };
                StreamComplete::new(outcome).error(self.error()).into()
            }
            other => panic!("verb {other}"),
        }
    }
}

fn outcome(word: &str) -> Outcome {
    match word {
        "completed" => Outcome::Completed,
        "failed" => Outcome::Failed,
        "interrupted" => Outcome::Interrupted,
        "timed_out" => Outcome::TimedOut,
        other => panic!("outcome {other}"),
    }
}

/// What was admitted, one event a line.
pub(crate) fn render(admitted: &[Admitted]) -> String {
    let mut text = String::new();
    for admitted in admitted {
        writeln!(text, "{}", render_event(&admitted.event)).unwrap();
    }
    text
}

pub(crate) fn render_scope(scope: &Scope) -> String {
    let Some(child) = scope.child() else { return "root".to_owned() };
    let mut text = format!("{}#{}", child.child_session_id, child.run);
    if child.parent_session_id.as_str() != "root" || child.depth != 1 {
        write!(text, "<{}@{}", child.parent_session_id, child.depth).unwrap();
    }
    text
}

fn render_event(event: &Event) -> String {
    let scope = render_scope(&event.scope);
    let mut text = match &event.kind {
        EventKind::SpawnSessionStart(spawn) => {
            let mut text = format!(
                "spawn {}#{}<{}@{} {}",
                spawn.child_session_id,
                spawn.run.map_or("?".to_owned(), |run| run.to_string()),
                spawn.parent_session_id,
                spawn.depth,
                spawn.spawn_mechanism,
            );
            if let Some(call) = &spawn.tool_call_id {
                write!(text, " call={call}").unwrap();
            }
            write!(text, " {:?}", spawn.description).unwrap();
            text
        }
        EventKind::SessionUpdated(update) => {
            let mut text = format!("update {}#{}", update.child_session_id, update.run);
            if let Some(mechanism) = update.spawn_mechanism {
                write!(text, " {mechanism}").unwrap();
            }
            if let Some(call) = &update.tool_call_id {
                write!(text, " call={call}").unwrap();
            }
            if let Some(description) = &update.description {
                write!(text, " {description:?}").unwrap();
            }
            text
        }
        EventKind::UserMessage(prompt) => {
            let said: String = prompt.content.iter().filter_map(|block| block.as_text()).collect();
            format!("prompt {} {said:?}", format!("{:?}", prompt.origin).to_lowercase())
        }
        EventKind::ReplyStart(start) => format!("start {}", start.reply_id),
        EventKind::ReplyEnd(end) => {
            let error = end.error.as_ref().map_or(String::new(), |error| format!(" {:?}", error.message));
            format!(
                "reply_end {} {}{error}",
                end.reply_id,
                format!("{:?}", end.finished_reason).to_lowercase()
            )
        }
        EventKind::ModelCallStart(_) => "model".to_owned(),
        EventKind::ModelCallEnd(end) => {
            format!("model_end {}", format!("{:?}", end.finished_reason).to_lowercase())
        }
        EventKind::TextBlockStart(start) => format!("text {}", start.block_id),
        EventKind::TextBlockDelta(delta) => format!("delta {} {:?}", delta.block_id, delta.delta),
        EventKind::TextBlockEnd(end) => format!("text_end {}", end.block_id),
        EventKind::ThinkingBlockStart(start) => format!("thinking {}", start.block_id),
        EventKind::ThinkingBlockDelta(delta) => {
            format!("thinking_delta {} {:?}", delta.block_id, delta.delta)
        }
        EventKind::ThinkingBlockEnd(end) => format!("thinking_end {}", end.block_id),
        EventKind::DataBlockStart(start) => format!("data {}", start.block_id),
        EventKind::DataBlockEnd(end) => format!("data_end {}", end.block_id),
        EventKind::HintBlock(hint) => format!("hint {} {:?}", hint.block_id, hint.hint.text()),
        EventKind::ToolCallStart(start) => format!("call {}", start.tool_call_id),
        EventKind::ToolCallDelta(delta) => format!("arguments {} {:?}", delta.tool_call_id, delta.delta),
        EventKind::ToolCallEnd(end) => format!("call_end {}", end.tool_call_id),
        EventKind::ToolResultStart(start) => format!("result {}", start.tool_call_id),
        EventKind::ToolResultTextDelta(delta) => format!("output {} {:?}", delta.tool_call_id, delta.delta),
        EventKind::ToolResultEnd(end) => format!("result_end {} {}", end.tool_call_id, end.state.as_str()),
        EventKind::RequireUserConfirm(require) => format!("confirm {}", require.tool_calls[0].id),
        EventKind::Custom(custom) => format!("say {}", custom.name),
        EventKind::StreamComplete(end) => {
            let error = end.error.as_ref().map_or(String::new(), |error| format!(" {:?}", error.message));
            let said =
                end.message.as_ref().map_or(String::new(), |message| format!(" said={:?}", message.text()));
            format!("end {}{error}{said}", end.outcome)
        }
        other => format!("{other:?}"),
    };
    if !event.metadata.is_empty() {
        write!(text, " {}", event.metadata).unwrap();
    }
    format!("{scope} {text}")
}

/// Counts the warnings given while something runs on this thread.
pub(crate) fn warnings<T>(run: impl FnOnce() -> T) -> (T, usize) {
    struct Count(Arc<AtomicU64>);
    impl tracing::Subscriber for Count {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            *metadata.level() == tracing::Level::WARN
        }
        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, _: &tracing::Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }
    let count = Arc::new(AtomicU64::new(0));
    let result = tracing::subscriber::with_default(Count(Arc::clone(&count)), run);
    (result, usize::try_from(count.load(Ordering::Relaxed)).unwrap())
}
