//! Each adapter behind a view that hides something: what it writes breaks no rule of its protocol.

use anabranch_adapters::{
    ag_ui::{AgUi, Mode, RunIds},
    encode::{JsonLines, Plain},
    text::Text,
    tool_calls::ToolCalls,
    visibility::{Visibility, Visible},
};
use anabranch_testkit::{
    ag_ui::{Dialect, Reader},
    transcript,
};

use crate::{played, reader, scripts};

/// Every combination of what may be hidden.
fn views() -> impl Iterator<Item = Visibility> {
    (0..32_u8).map(|bits| {
        let hides = |bit: u8| bits & (1 << bit) != 0;
        let mut view = Visibility::new();
        if hides(0) {
            view = view.hide_thinking();
        }
        if hides(1) {
            view = view.hide_prompts();
        }
        if hides(2) {
            view = view.hide_arguments(|_| true);
        }
        if hides(3) {
            view = view.hide_results(|_| true);
        }
        if hides(4) {
            view = view.hide_children(|child| child.session.as_str() == "ses_1");
        }
        view
    })
}

#[test]
fn each_view_of_each_script_is_a_stream_of_each_protocol() {
    let mut streams = 0;
    for (name, script) in scripts::ALL {
        let events = played(*script).events();
        for view in views() {
            reader::check(&transcript(JsonLines::new(Visible::new(view.clone(), ToolCalls::new())), &events));
            for (mode, dialect) in [
                (Mode::Attributed, Dialect::Attributed),
                (Mode::AttributionOnly, Dialect::AttributionOnly),
                (Mode::Inline, Dialect::Inline),
            ] {
                let adapter = AgUi::new("ses_0", RunIds::new("thread", "run")).mode(mode);
                let lines = transcript(JsonLines::new(Visible::new(view.clone(), adapter)), &events);
                // In some scripts all that happens is the hidden child's.
                if !lines.is_empty() {
                    let read = Reader::new(dialect).stream(&lines);
                    read.unwrap_or_else(|fault| panic!("{name}: {fault}\n{lines}"));
                    streams += 1;
                }
            }
        }
    }
    assert!(streams > scripts::ALL.len() * 32 * 2, "{streams}");
}

#[cfg(feature = "acp")]
#[test]
fn each_view_of_each_script_is_a_stream_of_the_agent_client_protocol() {
    use crate::acp::reader::{Knows, check};
    use anabranch_adapters::acp::Acp;

    for (_, script) in scripts::ALL {
        let events = played(*script).events();
        for view in views() {
            let of = |acp| transcript(JsonLines::new(Visible::new(view.clone(), acp)), &events);
            check(&of(Acp::cards("ses_0").permissions(true)), Knows::Cards);
            check(&of(Acp::sessions("ses_0").permissions(true)), Knows::Sessions);
        }
    }
}

#[test]
fn a_hidden_child_is_nowhere_and_its_parents_call_is() {
    let stage = played(scripts::named("two_children_in_parallel"));
    let view = Visibility::new().hide_children(|child| child.name == "n1");
    let text = transcript(Plain::new(Visible::new(view.clone(), Text::new())), stage.events());
    insta::assert_snapshot!(text, @r#"
    I ask two helpers.
    → spawn_subagent({"task":"Seattle"})
    → spawn_subagent({"task":"New York"})

    🚀 **`n2`**: Run n2 task
    n2 │ → read_csv({"path":"new-york.csv"})
    n2 │ ✓ read_csv
    n2 │ New York is warm.
    n2 │ ■ completed (1 tool call)
    ✓ spawn_subagent
    ✓ spawn_subagent
    Seattle is wetter.
    "#);
    let adapter = AgUi::new("ses_0", RunIds::new("thread", "run"));
    let lines = transcript(JsonLines::new(Visible::new(view, adapter)), stage.events());
    assert!(!lines.contains("ses_1") && lines.contains("ses_2"), "{lines}");
}
