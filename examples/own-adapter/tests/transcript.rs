//! The adapter's transcript, with the test kit in twenty lines.

use anabranch_adapters::encode::JsonLines;
use anabranch_proto::Outcome;
use anabranch_testkit::{Normalizer, Stage, transcript};
use own_adapter::ProgressBars;

#[test]
fn each_child_has_a_bar_of_its_own() {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Compare two cities.");
    let (n1, n2) = (root.spawn("n1"), root.spawn("n2"));
    n1.use_tool("read", "{}", "a.csv");
    n2.use_tool("read", "{}", "b.csv");
    n1.use_tool("sum", "{}", "42");
    n2.end(Outcome::Failed);
    n1.end(Outcome::Completed);
    root.end(Outcome::Completed);

    let events = Normalizer::new().events(stage.events());
    let expected = r#"{"type":"began","bar":"ses:1","title":"Run n1 task"}
{"type":"began","bar":"ses:2","title":"Run n2 task"}
{"type":"step","bar":"ses:1","tools":1}
{"type":"step","bar":"ses:2","tools":1}
{"type":"step","bar":"ses:1","tools":2}
{"type":"ended","bar":"ses:2","outcome":"failed"}
{"type":"ended","bar":"ses:1","outcome":"completed"}
"#;
    assert_eq!(transcript(JsonLines::new(ProgressBars::default()), events), expected);
}
