//! Plain async functions as tools.

use anabranch_pipeline::{Acting, FunctionTool, Tool, ToolContext, Toolkit};
use anabranch_proto::{ToolChunk, ToolResultState};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::support::{Script, call, check_call, root_caller, run_call};

/// What the tool takes.
#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only the schema is looked at")]
struct Aggregate {
    /// The file to read.
    file: String,
    /// Which columns; all when left out.
    columns: Option<Vec<String>>,
    /// How many rows to skip.
    #[serde(default)]
    skip: u32,
    kind: Kind,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Mean,
    MinMax,
}

#[test]
fn the_schema_is_derived_from_the_arguments() {
    let tool =
        FunctionTool::new("aggregate", "Aggregates.", |_: Aggregate, _context| async { Ok::<_, String>(()) });
    let parameters: serde_json::Value = tool.definition().parameters.to().unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&parameters).unwrap());
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[test]
fn what_a_function_returns_is_the_last_part() {
    macro_rules! returns {
        ($value:expr) => {{
            let tool = FunctionTool::new("a", "", |_: Nothing, _context| async { Ok::<_, String>($value) });
            let items = run_call(call("a"), &root_caller(), &Acting::new(Toolkit::new().with(tool)));
            let response = check_call(&items);
            (response.state, response.text())
        }};
    }
    let success = |text: &str| (ToolResultState::Success, text.to_owned());
    assert_eq!(returns!("text"), success("text"));
    assert_eq!(returns!(String::from("text")), success("text"));
    assert_eq!(returns!(()), success(""));
    assert_eq!(returns!(serde_json::json!({"b": [1, null], "a": 2})), success(r#"{"b":[1,null],"a":2}"#));
    assert_eq!(
        returns!(ToolChunk::text("no").state(ToolResultState::Denied)),
        (ToolResultState::Denied, "no".to_owned())
    );
}

#[test]
fn a_function_tool_says_what_it_was_made_with() {
    let make =
        || FunctionTool::new("a", "Does a.", |_: Nothing, _: ToolContext| async { Ok::<_, String>(()) });
    let tool = make();
    assert_eq!((&*tool.definition().name, &*tool.definition().description), ("a", "Does a."));
    assert!(!tool.is_exclusive() && make().exclusive().is_exclusive());
    assert_eq!(format!("{tool:?}"), "FunctionTool { name: \"a\", .. }");
}

#[test]
fn a_toolkit_holds_one_tool_of_a_name_in_order() {
    let kit = Toolkit::new()
        .with(Script::new("a", []))
        .with(Script::new("b", []))
        .with(Script::new("a", []).exclusive());
    assert_eq!(kit.names().collect::<Vec<_>>(), ["a", "b"]);
    assert!(kit.get("a").unwrap().is_exclusive());
    assert_eq!(kit.definitions().len(), 2);
    let kit = kit.without("a").without("unknown");
    assert_eq!(kit.names().collect::<Vec<_>>(), ["b"]);
    assert!(kit.get("a").is_none());
}
