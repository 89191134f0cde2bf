//! Events that no producer of ours would send, in any order: ids that are empty, forged or shared, what was never opened or
//! is opened twice, parents that are their own children, arguments that are `null`. No adapter panics, none breaks a rule of
//! its protocol, and what was said is nowhere twice and never another's.

mod events;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anabranch_adapters::{
    Adapter,
    ag_ui::{AgUi, Mode, RunIds},
    coalesce::Coalesce,
    encode::{JsonLines, Plain},
    intent::{Intent, Intents},
    text::Text,
    tool_calls::ToolCalls,
};
use anabranch_proto::{Event, EventKind, Timestamp, ToolCallId};
use anabranch_testkit::{
    ag_ui::{Dialect, Reader},
    transcript,
};
use proptest::prelude::*;
use serde_json::Value;

use self::events::hostile;
use crate::reader;

/// A stream in which agents alone say something, and no end of a block replaces its pieces: so each has to be somewhere.
fn pieces_alone(events: &[Arc<Event>]) -> Vec<Arc<Event>> {
    let alone = |event: &Arc<Event>| {
        let mut event = Event::clone(event);
        if let EventKind::TextBlockEnd(end) = &mut event.kind {
            end.text = None;
        } else if let EventKind::ToolCallDelta(delta) = &mut event.kind {
            delta.delta.clear();
        } else if let EventKind::ToolResultTextDelta(delta) = &mut event.kind {
            delta.delta.clear();
        }
        Arc::new(event)
    };
    events.iter().map(alone).collect()
}

/// Which block a word is of: who says it, whether it is a thought, the reply and the block.
type Key = (String, bool, String, String);

/// The words of those who have been announced and have not ended, as the intents say.
fn said(events: &[Arc<Event>]) -> BTreeMap<String, Key> {
    let (mut intents, mut said) = (Intents::default(), BTreeMap::new());
    for event in events {
        intents.event(event, &mut |intent| {
            let (is_thought, piece) = if let Intent::Text(piece) = intent {
                (false, piece)
            } else if let Intent::Thought(piece) = intent {
                (true, piece)
            } else {
                return;
            };
            let key = (
                piece.speaker.card().to_owned(),
                is_thought,
                piece.reply.to_string(),
                piece.block.to_string(),
            );
            said.extend(words(piece.text).map(|word| (word, key.clone())));
        });
    }
    said
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split('<').skip(1).filter_map(|rest| Some(rest.split_once('>')?.0.to_owned()))
}

/// Where words were shown.
#[derive(Debug, Default)]
struct Shown {
    places: BTreeMap<String, String>,
}

impl Shown {
    /// Takes a text that is shown at a place.
    fn take(&mut self, place: impl Into<String>, text: &str) {
        let place = place.into();
        for word in words(text) {
            assert_eq!(self.places.insert(word.clone(), place.clone()), None, "<{word}> is shown twice");
        }
    }

    /// All words are shown that were said, no other, and no two of different keys at one place.
    fn is<K: Ord + std::fmt::Debug>(&self, said: &BTreeMap<String, K>) {
        assert!(
            self.places.keys().eq(said.keys()),
            "{:?} was said, and shown is {:?}",
            said.keys(),
            self.places
        );
        let mut keys = BTreeMap::new();
        for (word, place) in &self.places {
            let first = keys.entry(place).or_insert(&said[word]);
            assert_eq!(*first, &said[word], "at {place}");
        }
    }
}

fn json_lines(lines: &str) -> impl Iterator<Item = Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap())
}

fn str<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// As many as for other properties would take long: each plays through all adapters.
fn some() -> ProptestConfig {
    ProptestConfig::with_cases(ProptestConfig::default().cases / 4)
}

proptest! {
    #![proptest_config(some())]


    #[test]
    fn hostile_events_break_no_rule(events in hostile()) {
        let events = &events.0;
        let text = transcript(Plain::new(Text::new().thinking(true).prompts(true)), events);
        prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
        reader::check(&transcript(JsonLines::new(ToolCalls::new()), events));
        for (mode, dialect) in [(Mode::Attributed, Dialect::Attributed), (Mode::AttributionOnly, Dialect::AttributionOnly), (Mode::Inline, Dialect::Inline)] {
            let lines = transcript(JsonLines::new(AgUi::new("ses_0", RunIds::new("t", "r")).mode(mode)), events);
            if !lines.is_empty() && let Err(fault) = Reader::new(dialect).reopening().stream(&lines) {
                prop_assert!(false, "{fault}\n{lines}");
            }
        }
    }

    #[test]
    fn what_was_said_among_hostile_events_is_in_its_line_once(events in hostile()) {
        let events = pieces_alone(&events.0);
        let speakers: BTreeMap<_, _> = said(&events).into_iter().map(|(word, (speaker, ..))| (word, speaker)).collect();
        for width in [None, Some(32)] {
            let mut text = Text::new().thinking(true);
            if let Some(width) = width {
                text = text.width(width);
            }
            let mut shown = Shown::default();
            for line in transcript(Plain::new(text), &events).lines() {
                let (prefix, line) = line.split_once(" │ ").unwrap_or(("", line));
                shown.take(prefix, line);
            }
            shown.is(&speakers);
        }
    }

    #[test]
    fn what_was_said_among_hostile_events_is_in_its_card_once(events in hostile()) {
        let events = pieces_alone(&events.0);
        let said = said(&events);
        let mut shown = Shown::default();
        for (at, frame) in json_lines(&transcript(JsonLines::new(Coalesce::new(ToolCalls::new())), &events)).enumerate() {
            // The root's is all one message.
            let text = if frame["text"].is_string() { "/text" } else { "/content" };
            shown.take(format!("{} {at}", str(&frame, "/tool_call_id")), str(&frame, text));
        }
        shown.is(&said);
    }

    #[test]
    fn what_was_said_among_hostile_events_is_in_its_message_once(events in hostile()) {
        let events = pieces_alone(&events.0);
        let said = heard(&events);
        for mode in [Mode::Attributed, Mode::AttributionOnly, Mode::Inline] {
            let ag_ui = AgUi::new("ses_0", RunIds::new("t", "r")).mode(mode);
            let merged = with_further_runs(Coalesce::new(ag_ui.clone()), Coalesce::inner_mut, &events);
            for frames in [with_further_runs(ag_ui, |ag_ui| ag_ui, &events), merged] {
                let mut shown = Shown::default();
                for frame in frames {
                    let message = format!("{} {}", str(&frame, "/subagentRunId"), str(&frame, "/messageId"));
                    shown.take(message, str(&frame, "/delta"));
                }
                shown.is(&said);
            }
        }
    }

    #[cfg(feature = "acp")]
    #[test]
    fn hostile_events_break_no_rule_of_the_agent_client_protocol(events in hostile()) {
        use crate::acp::reader::{Knows, check};
        use anabranch_adapters::acp::Acp;
        check(&transcript(JsonLines::new(Acp::cards("ses_0").permissions(true)), &events.0), Knows::Cards);
        check(&transcript(JsonLines::new(Acp::sessions("ses_0").permissions(true)), &events.0), Knows::Sessions);
    }

    #[cfg(feature = "acp")]
    #[test]
    fn what_was_said_among_hostile_events_is_once_at_a_client_of_the_agent_client_protocol(events in hostile()) {
        use anabranch_adapters::acp::Acp;
        let events = pieces_alone(&events.0);
        let said = said(&events);
        for acp in [Acp::cards("ses_0"), Acp::sessions("ses_0")] {
            for lines in [transcript(JsonLines::new(acp.clone()), &events), transcript(JsonLines::new(Coalesce::new(acp.clone())), &events)] {
                let (mut shown, mut cards) = (Shown::default(), BTreeMap::new());
                for line in json_lines(&lines) {
                    let update = &line["params"]["update"];
                    shown.take(format!("{} {}", str(&line, "/params/sessionId"), str(update, "/messageId")), str(update, "/content/text"));
                    // A card is replaced each time.
                    if let Some(content) = update["content"].as_array() {
                        cards.insert(str(update, "/toolCallId").to_owned(), content.clone());
                    }
                }
                for (card, content) in cards {
                    for (at, part) in content.iter().enumerate() {
                        shown.take(format!("{card} {at}"), str(part, "/content/text"));
                    }
                }
                shown.is(&said);
            }
        }
    }
}

/// What is written of a stream, with as many runs behind it as it takes to show what was held back.
fn with_further_runs<A: Adapter>(
    mut adapter: A,
    ag_ui: fn(&mut A) -> &mut AgUi,
    events: &[Arc<Event>],
) -> Vec<Value> {
    let frames = RefCell::new(Vec::new());
    let mut out = |frame: A::Frame<'_>| frames.borrow_mut().push(serde_json::to_value(&frame).unwrap());
    for event in events {
        adapter.event(event, &mut out);
    }
    for _ in events {
        // One tick lets through what is merged, the next begins the run.
        for second in 0..3 {
            ag_ui(&mut adapter).next_run(RunIds::new("t", "further"));
            adapter.tick(Timestamp::from_unix(second, 0), &mut out);
        }
    }
    adapter.finish(&mut out);
    frames.into_inner()
}

/// The words of those who have not ended, announced or not, as AG-UI shows them.
fn heard(events: &[Arc<Event>]) -> BTreeMap<String, Key> {
    /// A session's last run, the call that spawned it, and the runs that have not ended.
    #[derive(Default)]
    struct Known {
        last: u32,
        call: Option<ToolCallId>,
        open: BTreeSet<u32>,
    }
    let (mut heard, mut all) = (BTreeMap::new(), BTreeMap::<_, Known>::new());
    let begins = |known: &mut Known, run: u32, call: Option<ToolCallId>| {
        if run > known.last {
            (known.last, known.call) = (run, call);
            known.open.insert(run);
        }
    };
    for event in events {
        let speaker = event.scope.child().map(|child| (child.child_session_id.clone(), child.run));
        let is_end = matches!(event.kind, EventKind::StreamComplete(_));
        if let Some(child) = event.scope.child().filter(|_| !is_end) {
            let known = all.entry(child.child_session_id.clone()).or_default();
            begins(known, child.run, child.tool_call_id.clone());
        }
        let open = speaker.as_ref().map(|(session, run)| {
            all.get_mut(session).filter(|known| known.open.contains(run)).map(|known| (known, *run))
        });
        let is_open = !matches!(open, Some(None));
        if let (true, Some(Some((known, run)))) = (is_end, open) {
            known.open.remove(&run);
        }
        if let EventKind::SpawnSessionStart(spawn) = &event.kind {
            let known = all.entry(spawn.child_session_id.clone()).or_default();
            let is_again = known.open.contains(&known.last)
                || (known.last > 0 && spawn.tool_call_id.is_some() && known.call == spawn.tool_call_id);
            let next = if is_again { None } else { known.last.checked_add(1) };
            if let Some(run) = spawn.run.or(next) {
                begins(known, run, spawn.tool_call_id.clone());
            }
        }
        let (is_thought, reply, block, text) = if let EventKind::TextBlockDelta(delta) = &event.kind {
            (false, &delta.reply_id, &delta.block_id, &delta.delta)
        } else if let EventKind::ThinkingBlockDelta(delta) = &event.kind {
            (true, &delta.reply_id, &delta.block_id, &delta.delta)
        } else {
            continue;
        };
        if is_open {
            let key = (format!("{speaker:?}"), is_thought, reply.to_string(), block.to_string());
            heard.extend(words(text).map(|word| (word, key.clone())));
        }
    }
    heard
}
