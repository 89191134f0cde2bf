//! What the adapters write for each script, and what holds for all of them.

#[cfg(feature = "acp")]
mod acp;
mod ag_ui;
mod field_cases;
mod hostile;
mod reader;
mod scripts;
mod visible;

use anabranch_adapters::{
    Encode,
    encode::{JsonLines, NativeLines, Plain, Sse},
    text::Text,
    tool_calls::ToolCalls,
};
use anabranch_proto::{ChildScope, Outcome, Scope};
use anabranch_testkit::{Stage, transcript};
use proptest::prelude::*;

fn played(script: scripts::Script) -> Stage {
    let stage = Stage::new();
    script(&stage);
    stage
}

#[test]
fn each_script_gives_its_text() {
    for (name, script) in scripts::ALL {
        let text = transcript(Plain::new(Text::new()), played(*script).events());
        insta::assert_snapshot!(format!("{name}__text"), text);
    }
}

#[test]
fn each_script_gives_its_tool_calls() {
    for (name, script) in scripts::ALL {
        let lines = transcript(JsonLines::new(ToolCalls::new()), played(*script).events());
        reader::check(&lines);
        insta::assert_snapshot!(format!("{name}__tool_calls"), lines);
    }
}

#[test]
fn admitting_each_event_twice_opens_no_card_twice() {
    for (_, script) in scripts::ALL {
        let events = played(*script).events();
        let twice: Vec<_> = events.iter().flat_map(|event| [event, event]).collect();
        reader::check(&transcript(JsonLines::new(ToolCalls::new()), twice));
    }
}

#[test]
fn a_stream_that_begins_anywhere_breaks_no_rule_of_cards() {
    for (_, script) in scripts::ALL {
        let events = played(*script).events();
        for from in 0..events.len() {
            reader::check(&transcript(JsonLines::new(ToolCalls::new()), &events[from..]));
        }
    }
}

proptest! {
    #[test]
    fn a_stream_that_is_shuffled_lost_and_repeated_breaks_no_rule_of_cards(
        script in proptest::sample::select(scripts::ALL),
        picks in proptest::collection::vec(any::<proptest::sample::Index>(), 0..80),
    ) {
        let events = played(script.1).events();
        let picked: Vec<_> = picks.iter().map(|pick| pick.get(&events)).collect();
        reader::check(&transcript(JsonLines::new(ToolCalls::new()), picked.iter().copied()));
        let text = transcript(Plain::new(Text::new().thinking(true).prompts(true)), picked.iter().copied());
        prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
    }
}

#[test]
fn the_same_events_give_the_same_bytes() {
    let encoders: [fn() -> Box<dyn Encode>; 4] = [
        || Box::new(Plain::new(Text::new().thinking(true).prompts(true).colours(true))),
        || Box::new(Sse::new(Text::new())),
        || Box::new(JsonLines::new(ToolCalls::new())),
        || Box::new(NativeLines),
    ];
    for (_, script) in scripts::ALL {
        for encoder in encoders {
            assert_eq!(
                transcript(encoder(), played(*script).events()),
                transcript(encoder(), played(*script).events()),
            );
        }
    }
}

#[test]
fn every_line_of_a_child_bears_a_name_and_nobody_moves_the_cursor() {
    for (name, script) in scripts::ALL {
        let text = transcript(Plain::new(Text::new().thinking(true)), played(*script).events());
        let control = text.chars().find(|c| c.is_control() && *c != '\n' && *c != '\t');
        assert_eq!(control, None, "{name}");
    }
}

#[test]
fn every_kind_of_event_has_an_answer_in_every_scope() {
    let stage = Stage::new();
    let child = stage.root().spawn("n1");
    let strange = ChildScope::new("ses_strange", "ses_0", "sa_strange", "strange");
    for scope in [&Scope::Root, child.scope(), &Scope::from(strange)] {
        let mut events: Vec<_> = stage.events();
        events.extend(scripts::one_of_each_kind(scope).into_iter().map(Into::into));
        for text in [Text::new(), Text::new().thinking(true).prompts(true).colours(true)] {
            transcript(Plain::new(text), &events);
        }
        reader::check(&transcript(JsonLines::new(ToolCalls::new()), &events));
    }
}

#[test]
fn a_background_child_keeps_its_card_beyond_the_roots_turn() {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Go");
    let child = root.spawning("worker").mechanism(anabranch_proto::SpawnMechanism::AsyncWorker).now();
    root.end(Outcome::Completed);
    let before = transcript(JsonLines::new(ToolCalls::new()), stage.events());
    assert!(!before.contains("spawn_end"), "{before}");
    child.end(Outcome::Completed);
    let after = transcript(JsonLines::new(ToolCalls::new()), stage.events());
    assert!(after.lines().last().unwrap().contains("spawn_end"), "{after}");
}
