//! Laws of the text adapter, whatever the text.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_adapters::{encode::Plain, text::Text};
use anabranch_proto::{
    BlockId, ErrorType, Json, Outcome, SourceType, SpawnMechanism, TextOrBlocks, ToolCallBlock, ToolCallId,
    ToolResultState,
    event::{
        Custom, DataBlockStart, HintBlockEvent, RequireUserConfirm, ThinkingBlockDelta, ToolCallDelta,
        ToolCallEnd, ToolCallStart,
    },
};
use anabranch_testkit::{Actor, Stage, transcript};
use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

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

/// What others may write to look like what they are not.
const HOSTILE: [&str; 30] = [
    "\n",
    "\r",
    "\r\n",
    "\t",
    "\x08",
    "\x0b",
    "\x0c",
    "\u{85}",
    "\u{2028}",
    "\u{2029}",
    "\x1b[2J",
    "\u{9b}1A",
    "\x1b]0;title\x07",
    "\u{202e}",
    "\u{2066}",
    "\u{200f}",
    "\u{61c}",
    "\u{200b}",
    "\u{200d}",
    "\u{feff}",
    "n1 │ ✓ read",
    "│ ",
    "→ write({})",
    "■ completed",
    "✓ ",
    "? ",
    "🚀 **`n9`**: ",
    "e\u{301}",
    "👩\u{200d}👩\u{200d}👧",
    "東京",
];

fn hostile() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => proptest::sample::select(&HOSTILE[..]).prop_map(str::to_owned),
        3 => "[a-z ]{0,6}",
        1 => any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

/// What a run says whose every text is somebody's who means harm, or is harmless where `mean` says so.
///
/// Each child says a line of its own that the test can find: `TOKEN` and its number.
fn act(fields: &[String], cuts: &[bool], mean: impl Fn(&str) -> String) -> Stage {
    let fields: Vec<String> = fields.iter().map(|field| mean(field)).collect();
    let field = |at: usize| fields[at % fields.len()].as_str();
    let stage = Stage::new();
    let root = stage.root().with("key", field(0));
    root.begin(field(1));
    root.think(field(2));
    let n1 = root.spawning(field(3)).description(field(4)).with("key", field(5)).now();
    let n2 = root.spawning(field(6)).description(field(7)).source_type(SourceType::TeamParallel).now();
    let sub = n1.spawning(field(8)).mechanism(SpawnMechanism::AsyncWorker).now();
    root.update(&n2, |update| update.description(Some(field(9).to_owned())));
    for (number, actor) in [&root, &n1, &n2, &sub].into_iter().enumerate() {
        let (block, other) = (BlockId::new(format!("{}{number}", field(10))), actor.open_text());
        for piece in cut(field(11 + number), cuts) {
            actor.delta(&other, &piece);
            n1.emit(ThinkingBlockDelta::new(n1.reply(), &block, piece));
        }
        actor.close_text(&other);
        if number > 0 {
            actor.say(&format!("TOKEN{number}"));
        }
        let call = ToolCallId::new(format!("{}{number}", field(15)));
        actor.emit(ToolCallStart::new(actor.reply(), &call, field(16)));
        for piece in cut(field(17), cuts) {
            actor.emit(ToolCallDelta::new(actor.reply(), &call, piece));
        }
        actor.emit(ToolCallEnd::new(actor.reply(), &call));
        let block = ToolCallBlock::new(call.clone(), field(16), field(17));
        actor.emit(RequireUserConfirm::new(actor.reply(), vec![block]));
        actor.result(&call, field(16), ToolResultState::Error, field(18));
        let hint = TextOrBlocks::Text(field(19).to_owned());
        actor.emit(HintBlockEvent::new(
            actor.reply(),
            format!("hint{number}"),
            Some(field(20).to_owned()),
            hint,
        ));
        let data = DataBlockStart::new(actor.reply(), format!("data{number}"), field(21));
        actor.emit(data.name(Some(field(22).to_owned())));
        actor.emit(Custom::new(field(23), Json::from(serde_json::Value::from(field(24)))));
    }
    sub.end_with_error(Outcome::Failed, ErrorType::other(field(25)), field(26));
    n1.end_saying(Outcome::TimedOut, field(27));
    n2.end(Outcome::Completed);
    root.end_with_error(Outcome::Failed, ErrorType::UNKNOWN, field(28));
    stage
}

const MARKS: [char; 11] = ['→', '✓', '✗', '?', '■', '»', '·', '↻', '◇', '🚀', '⚡'];

/// How many lines begin with each mark, by whether a child's name is before it.
fn marks(shown: &str) -> BTreeMap<(bool, char), usize> {
    let mut marks = BTreeMap::new();
    for line in shown.lines() {
        let (is_childs, rest) = match line.split_once("│ ") {
            Some((_, rest)) if !line.starts_with(MARKS) => (true, rest),
            Some(_) | None => (false, line),
        };
        if let Some(mark) = rest.chars().next().filter(|c| MARKS.contains(c)) {
            *marks.entry((is_childs, mark)).or_default() += 1;
        }
    }
    marks
}

/// A character that a terminal would obey or nobody would see.
fn is_dangerous(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{feff}' | '\u{ad}' | '\u{2060}'
                ..='\u{2064}'
        )
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn fields() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec(hostile(), 29)
}

fn everything() -> Text {
    Text::new().thinking(true).prompts(true)
}

proptest! {
    #[test]
    fn nobody_moves_the_cursor_and_nobody_speaks_for_another(
        fields in fields(),
        cuts in proptest::collection::vec(any::<bool>(), 1..9),
    ) {
        let stage = act(&fields, &cuts, str::to_owned);
        let shown = transcript(Plain::new(everything()), stage.events());
        let dangerous = shown.chars().find(|c| is_dangerous(*c) && *c != '\n' && *c != '\t');
        prop_assert_eq!(dangerous, None, "{:?}", shown);
        // Each child has one name, and no line has another.
        let prefixes: BTreeSet<_> = (1..4).map(|number| {
            let token = format!(" TOKEN{number}");
            let mut named = shown.lines().filter_map(|line| line.strip_suffix(&token));
            named.find(|name| name.ends_with('│')).unwrap_or_else(|| panic!("{token} in {shown}"))
        }).collect();
        prop_assert_eq!(prefixes.len(), 3, "{:?}", prefixes);
        for line in shown.lines().filter(|line| line.contains('│') && !line.starts_with(MARKS)) {
            prop_assert!(prefixes.iter().any(|prefix| line.starts_with(prefix)), "{line:?} in {shown}");
        }
    }

    #[test]
    fn no_text_makes_a_line_that_is_no_text(
        fields in fields(),
        cuts in proptest::collection::vec(any::<bool>(), 1..9),
    ) {
        // The same with harmless texts of as many lines: what is put before models and what they think has a mark in each.
        let harmless = |field: &str| {
            let lines = field.replace("\r\n", "\n");
            lines.split('\n').map(|line| if line.is_empty() { "" } else { "x" }).collect::<Vec<_>>().join("\n")
        };
        let of = |stage: &Stage| marks(&transcript(Plain::new(Text::new()), stage.events()));
        let (mean, kind) = (act(&fields, &cuts, str::to_owned), act(&fields, &cuts, harmless));
        prop_assert_eq!(of(&mean), of(&kind));
    }

    #[test]
    fn no_line_is_wider_than_it_may_be(
        fields in fields(),
        cuts in proptest::collection::vec(any::<bool>(), 1..9),
        columns in 32..100_u16,
    ) {
        let stage = act(&fields, &cuts, str::to_owned);
        let shown = transcript(Plain::new(everything().width(columns)), stage.events());
        for line in shown.lines() {
            prop_assert!(line.width() <= usize::from(columns), "{} columns: {line:?}", line.width());
        }
        let dangerous = shown.chars().find(|c| is_dangerous(*c) && *c != '\n');
        prop_assert_eq!(dangerous, None, "{:?}", shown);
    }

    #[test]
    fn wrapping_changes_nothing_but_line_ends_and_cuts_no_character(
        parts in proptest::collection::vec(proptest::sample::select(vec![
            "a", "b c", "東京", "e\u{301}", "👩\u{200d}👩\u{200d}👧", "🇩🇪", "❤\u{fe0f}", "ü",
        ]), 1..80),
        cuts in proptest::collection::vec(any::<bool>(), 1..9),
        columns in 32..60_u16,
    ) {
        let text = parts.concat();
        let pieces = cut(&text, &cuts);
        let stage = Stage::new();
        let root = stage.root();
        let child = root.spawn("n1");
        for speaker in [&root, &child] {
            speaker.say_in(&pieces.iter().map(String::as_str).collect::<Vec<_>>());
        }
        root.end(Outcome::Completed);
        let shown = transcript(Plain::new(Text::new().width(columns)), stage.events());
        let (mut of_root, mut of_child) = (Vec::new(), Vec::new());
        for line in shown.lines().skip(2) {
            match line.strip_prefix("n1 │ ") {
                Some(line) => of_child.push(line),
                None => of_root.push(line),
            }
        }
        let whole: BTreeSet<usize> = text.grapheme_indices(true).map(|(at, _)| at).chain([text.len()]).collect();
        for lines in [of_root, of_child] {
            prop_assert_eq!(lines.concat(), text.as_str());
            let mut at = 0;
            for line in lines {
                at += line.len();
                prop_assert!(whole.contains(&at), "cut at {at} of {text:?}");
            }
        }
    }
}

#[test]
fn the_root_cannot_speak_for_a_child_or_a_tool() {
    let stage = Stage::new();
    let root = stage.root();
    root.spawn("n1").say("I did it.");
    root.say("n1 │ ■ completed\n✓ write_result\n? write was confirmed\nn1 ❘ done\nn1 ∣ done\nplain");
    // In pieces, and behind a child's line.
    let block = root.open_text();
    root.delta(&block, "\n");
    root.delta(&block, "\u{200d}✓");
    root.delta(&block, " read\n\n🚀");
    root.delta(&block, " **`n9`**: boo");
    root.end(Outcome::Completed);
    let shown = transcript(Plain::new(Text::new()), stage.events());
    insta::assert_snapshot!(shown, @"

    🚀 **`n1`**: Run n1 task
    n1 │ I did it.
    n1 | ■ completed
     ✓ write_result
     ? write was confirmed
    n1 | done
    n1 | done
    plain

    \u{fffd}✓ read

     🚀 **`n9`**: boo
    ");
}

#[test]
fn lines_go_on_where_they_have_a_width() {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Compare two cities, and say which of them is the wetter one.");
    root.say_in(&["I ask two helpers, one fo", "r each of the cities.\nNext line."]);
    let child = root
        .spawning("a helper with a long name")
        .description("Looks at the weather of one city, all of it")
        .now();
    child.think("東京は雨が多い。ニューヨークは暖かい。シアトルは湿っている。");
    child.use_tool("read_csv", r#"{"path":"seattle.csv","columns":["wind"]}"#, "");
    child.say("One\ttwo, and a line that is longer than there is room for.");
    child.end_with_error(
        Outcome::Failed,
        ErrorType::UNKNOWN,
        "the file is not there, and nobody knows where it went",
    );
    root.end(Outcome::Completed);
    let text = Text::new().width(40).thinking(true).prompts(true);
    insta::assert_snapshot!(transcript(Plain::new(text), stage.events()), @r#"
    » Compare two cities, and say which of 
    » them is the wetter one.
    I ask two helpers, one for each of the c
    ities.
    Next line.
    🚀 **`a helper with a long name`**: 
       Looks at the weather of one city, 
       all of it
    a helper wi… │ · 東京は雨が多い。ニュー
    a helper wi… │ · ヨークは暖かい。シアト
    a helper wi… │ · ルは湿っている。
    a helper wi… │ → read_csv({"path":"seatt
    a helper wi… │   le.csv","columns":["win
    a helper wi… │   d"]})
    a helper wi… │ ✓ read_csv
    a helper wi… │ One     two, and a line 
    a helper wi… │ that is longer than 
    a helper wi… │ there is room for.
    a helper wi… │ ■ failed: the file is 
    a helper wi… │   not there, and nobody 
    a helper wi… │   knows where it went (1 
    a helper wi… │   tool call)
    "#);
}

#[test]
fn what_the_root_said_is_there_whole_before_a_line_that_comes_between() {
    for text in [Text::new(), Text::new().width(40)] {
        let stage = Stage::new();
        let root = stage.root();
        let block = root.open_text();
        root.delta(&block, "Wait for");
        let child = root.spawn("n1");
        root.delta(&block, " it");
        child.say("Here.");
        root.delta(&block, " and go.");
        let shown = transcript(Plain::new(text), stage.events());
        assert_eq!(shown, "Wait for\n🚀 **`n1`**: Run n1 task\n it\nn1 │ Here.\n and go.");
    }
}
