//! Laws of the text adapter, whatever the text.

use anabranch_adapters::{encode::Plain, text::Text};
use anabranch_proto::Outcome;
use anabranch_testkit::{Actor, Stage, transcript};
use proptest::prelude::*;

/// Text of the characters that matter: line ends, controls, letters of every length.
fn text() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        5 => Just('a'),
        2 => Just(' '),
        2 => Just('\n'),
        1 => Just('\r'),
        1 => Just('\t'),
        1 => Just('\x1b'),
        1 => any::<char>(),
    ];
    proptest::collection::vec(character, 0..60).prop_map(|characters| characters.into_iter().collect())
}

/// The text cut at some of its characters' bounds.
fn cut(text: &str, cuts: &[bool]) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for (c, cut) in text.chars().zip(cuts.iter().cycle()) {
        if *cut {
            pieces.push(String::new());
        }
        pieces.last_mut().unwrap().push(c);
    }
    pieces
}

fn shown(speaker: impl FnOnce(&Actor) -> Actor, pieces: &[&str]) -> String {
    let stage = Stage::new();
    let root = stage.root();
    let speaker = speaker(&root);
    speaker.say_in(pieces);
    speaker.use_tool("read", "{}", "ok");
    speaker.end(Outcome::Completed);
    transcript(Plain::new(Text::new()), stage.events())
}

proptest! {
    #[test]
    fn where_a_text_is_cut_makes_no_difference(
        text in text(),
        cuts in proptest::collection::vec(any::<bool>(), 1..20),
    ) {
        let pieces = cut(&text, &cuts);
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let child = |root: &Actor| root.spawn("n1");
        prop_assert_eq!(shown(Actor::clone, &pieces), shown(Actor::clone, &[&text]));
        prop_assert_eq!(shown(child, &pieces), shown(child, &[&text]));
    }

    #[test]
    fn every_line_of_a_child_bears_its_name_and_no_control_character_is_left(text in text()) {
        let shown = shown(|root| root.spawn("n1"), &[&text]);
        let rest = shown.strip_prefix("\n🚀 **`n1`**: Run n1 task\n").unwrap();
        for line in rest.split_terminator('\n') {
            prop_assert!(line.starts_with("n1 │"), "{:?}", line);
            prop_assert!(!line.contains(|c: char| c.is_control() && c != '\t'), "{:?}", line);
        }
        prop_assert!(rest.ends_with("n1 │ ■ completed (1 tool call)\n"));
    }
}

#[test]
fn an_endless_line_of_a_child_is_cut_at_the_same_characters() {
    let long = "aü🚀".repeat(4_000);
    let pieces: Vec<String> = long.chars().map(String::from).collect();
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    let child = |root: &Actor| root.spawn("n1");
    assert_eq!(shown(child, &pieces), shown(child, &[&long]));
}

#[test]
fn thinking_prompts_and_colours_are_shown_when_asked_for() {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Compare\ntwo cities");
    root.think("Two at\nonce.");
    root.say("I ask");
    let n1 = root.spawn("n1");
    let n2 = root.spawn("n2");
    n1.begin("Seattle");
    n1.think("Rain?");
    n2.say("Warm.\n\nVery.");
    n1.say("Rain.");
    n1.end(Outcome::Completed);
    n2.end(Outcome::Completed);
    root.end(Outcome::Completed);
    let text = Text::new().thinking(true).prompts(true).colours(true);
    let shown = transcript(Plain::new(text), stage.events());
    insta::assert_snapshot!(shown.replace('\x1b', "ESC"), @"
    » Compare
    » two cities
    · Two at
    · once.
    I ask
    🚀 **`n1`**: Run n1 task

    🚀 **`n2`**: Run n2 task
    ESC[36mn1 │ESC[0m » Seattle
    ESC[36mn1 │ESC[0m · Rain?
    ESC[33mn2 │ESC[0m Warm.
    ESC[33mn2 │ESC[0m
    ESC[33mn2 │ESC[0m Very.
    ESC[36mn1 │ESC[0m Rain.
    ESC[36mn1 │ESC[0m ■ completed
    ESC[33mn2 │ESC[0m ■ completed
    ");
}

#[test]
fn each_of_many_children_of_one_name_and_one_parent_has_a_name_of_its_own() {
    let stage = Stage::new();
    let root = stage.root();
    // The second is called as the third would be.
    for name in ["n1", "n1·2", "n1", "n1"] {
        root.spawn(name).say("here");
    }
    let shown = transcript(Plain::new(Text::new()), stage.events());
    let names: Vec<&str> = shown.lines().filter_map(|line| line.strip_suffix(" │ here")).collect();
    assert_eq!(names, ["n1", "n1·2", "n1·3", "n1·4"]);
}

#[test]
fn a_deep_path_is_cut_and_still_tells_its_children_apart() {
    let stage = Stage::new();
    let mut parent = stage.root();
    for _ in 0..4 {
        parent = parent.spawn("a rather long name, is it not");
        parent.say("here");
    }
    let shown = transcript(Plain::new(Text::new()), stage.events());
    let names: Vec<&str> = shown.lines().filter_map(|line| line.strip_suffix(" │ here")).collect();
    insta::assert_snapshot!(names.join("\n"), @"
    a rather long name, is …
    a rather long name, is …/a rather long name, is …
    …/a rather long name, is …
    …/a rather long name, is …/a rather long name, is …
    ");
}

#[test]
fn the_roots_line_is_broken_for_a_child_and_goes_on() {
    let stage = Stage::new();
    let root = stage.root();
    let child = root.spawn("n1");
    let block = root.open_text();
    root.delta(&block, "The quick");
    child.say("aside");
    root.delta(&block, " fox");
    root.close_text(&block);
    root.say("Another block.");
    root.end(Outcome::Completed);
    let shown = transcript(Plain::new(Text::new()), stage.events());
    let rest = shown.strip_prefix("\n🚀 **`n1`**: Run n1 task\n").unwrap();
    assert_eq!(rest, "The quick\nn1 │ aside\n fox\nAnother block.\n");
}
