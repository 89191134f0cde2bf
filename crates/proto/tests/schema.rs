//! The JSON Schema of the native spelling: committed as it is generated, and of one mind with the reader.

use std::{env, fs, path::Path};

use anabranch_proto::{Timestamp, native};
use serde_json::{Map, Value, json};

const SAMPLES: &str = include_str!("data/agentscope/samples.jsonl");
const STREAMS: [&str; 8] = [
    include_str!("data/agentscope/streams/01_text_only.jsonl"),
    include_str!("data/agentscope/streams/02_two_concurrent_tools.jsonl"),
    include_str!("data/agentscope/streams/03_one_tool_raises.jsonl"),
    include_str!("data/agentscope/streams/04_invalid_args_unknown_tool.jsonl"),
    include_str!("data/agentscope/streams/05_cancelled.jsonl"),
    include_str!("data/agentscope/streams/06a_user_confirm_parked.jsonl"),
    include_str!("data/agentscope/streams/06b_user_confirm_input.jsonl"),
    include_str!("data/agentscope/streams/06c_user_confirm_resumed.jsonl"),
];
const DEMO: [&str; 4] = [
    include_str!("data/demo/default.jsonl"),
    include_str!("data/demo/nested.jsonl"),
    include_str!("data/demo/fan.jsonl"),
    include_str!("data/demo/fail.jsonl"),
];

#[test]
fn the_committed_schema_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/native.schema.json");
    let generated = format!("{:#}\n", native::schema());
    if env::var_os("UPDATE_SCHEMA").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    // Not `assert_eq!`, which would print both.
    assert!(
        committed == generated,
        "docs/native.schema.json is not what the types say; if the change of the wire is meant, run \
         `UPDATE_SCHEMA=1 cargo test -p anabranch-proto --test schema` and read the difference"
    );
}

#[test]
fn every_captured_line_conforms_alone_and_as_a_childs() {
    let schema = Checker::new();
    let mut lines = 0;
    for line in captured() {
        schema.check(&line).unwrap_or_else(|problem| panic!("{problem}: {line}"));
        lines += 1;
        if line["type"] != "SUB_AGENT" {
            let child = in_a_child(line);
            schema.check(&child).unwrap_or_else(|problem| panic!("{problem}: {child}"));
        }
    }
    assert!(lines > 1_700, "{lines} lines");
}

#[test]
fn the_schema_and_the_reader_agree_on_altered_lines() {
    let schema = Checker::new();
    let mut lines: Vec<Value> = SAMPLES.lines().map(parsed).collect();
    // Of the demo's, one of each kind and shape.
    for line in DEMO.iter().flat_map(|stream| stream.lines()).map(parsed) {
        if !lines.iter().any(|seen| shape(seen) == shape(&line)) {
            lines.push(line);
        }
    }
    lines.push(json!({ "id": "e", "created_at": "2026-11-30T10:00:00Z", "type": "NEW", "what": 1 }));
    let (mut accepted, mut refused) = (0, 0);
    for line in &lines {
        let inner = line.get("event").and_then(Value::as_object);
        let paths = names("", line.as_object().unwrap())
            .chain(inner.into_iter().flat_map(|event| names("/event", event)));
        for (object, name) in paths.collect::<Vec<_>>() {
            for altered in alterations(line, object, &name) {
                let read = native::Reader::default().read(&altered.to_string());
                let checked = schema.check(&altered);
                assert_eq!(read.is_ok(), checked.is_ok(), "{read:?}\n{checked:?}\n{altered}");
                *(if read.is_ok() { &mut accepted } else { &mut refused }) += 1;
            }
        }
    }
    println!("{} lines, {accepted} alterations accepted by both, {refused} refused by both", lines.len());
    assert!(accepted > 100 && refused > 1_000, "{accepted} {refused}");
}

#[test]
fn blocks_of_known_types_are_checked_and_others_are_not() {
    let schema = Checker::new();
    let line = |block: Value| {
        json!({
            "id": "e", "created_at": "2026-11-30T10:00:00Z", "metadata": {}, "type": "USER_MESSAGE",
            "message_id": "m", "content": [block], "origin": "user",
        })
    };
    assert_eq!(schema.check(&line(json!({ "type": "text", "text": "hi" }))), Ok(()));
    assert_eq!(schema.check(&line(json!({ "type": "video", "frames": 3 }))), Ok(()));
    for block in
        [json!({ "type": "text", "text": 7 }), json!({ "type": "text" }), json!({ "text": "hi" }), json!(1)]
    {
        assert!(schema.check(&line(block.clone())).is_err(), "{block}");
        assert!(native::Reader::default().read(&line(block.clone()).to_string()).is_err(), "{block}");
    }
}

fn parsed(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

/// The captured events; the last line of a stream from agentscope may be a message.
fn captured() -> impl Iterator<Item = Value> {
    let streams = STREAMS.iter().flat_map(|stream| stream.lines());
    let lines = SAMPLES.lines().chain(streams).chain(DEMO.iter().flat_map(|stream| stream.lines()));
    lines.map(parsed).filter(|line| line.get("type").is_some())
}

fn in_a_child(mut event: Value) -> Value {
    let seq = event.as_object_mut().unwrap().shift_remove("seq").unwrap_or(json!(1));
    json!({
        "seq": seq, "type": "SUB_AGENT", "child_session_id": "ses_1", "run": 1, "parent_session_id": "ses_0",
        "subagent_id": "sa_1", "tool_call_id": null, "source_name": "n1", "source_type": "agent", "depth": 1,
        "event": event,
    })
}

/// Which kind a line is of and which fields it has.
fn shape(line: &Value) -> Vec<String> {
    let tag = |event: &Value| event["type"].as_str().unwrap().to_owned();
    let mut shape: Vec<String> = line.as_object().unwrap().keys().cloned().collect();
    shape.push(tag(line));
    shape.extend(line.get("event").map(tag));
    shape
}

fn names<'a>(
    object: &'static str,
    fields: &'a Map<String, Value>,
) -> impl Iterator<Item = (&'static str, String)> + use<'a> {
    fields.keys().map(move |name| (object, name.clone()))
}

/// The line without the field, and with something else in its place.
fn alterations(line: &Value, object: &str, name: &str) -> Vec<Value> {
    let with = |value: Option<Value>| {
        let mut line = line.clone();
        let fields = line.pointer_mut(object).and_then(Value::as_object_mut).unwrap();
        match value {
            Some(value) => _ = fields.insert(name.to_owned(), value),
            None => _ = fields.shift_remove(name),
        }
        line
    };
    let others =
        [json!(null), json!(7), json!(-1), json!(1.5), json!(true), json!("x"), json!([1]), json!({})];
    others.into_iter().map(Some).chain([None]).map(with).collect()
}

/// A validator of the keywords that the schema uses, and of no others: a crate that knows all of them brings forty
/// along.
struct Checker(Value);

impl Checker {
    fn new() -> Self {
        Self(native::schema())
    }

    fn check(&self, line: &Value) -> Result<(), String> {
        self.at(&self.0, line, "")
    }

    fn at(&self, schema: &Value, value: &Value, path: &str) -> Result<(), String> {
        let keywords =
            schema.as_object().unwrap_or_else(|| panic!("not a schema that is used here: {schema}"));
        let expect = |holds: bool, what: &str, rule: &Value| {
            if holds { Ok(()) } else { Err(format!("{path}: {what} {rule}")) }
        };
        for (keyword, rule) in keywords {
            match &**keyword {
                "$schema" | "$defs" | "title" | "description" | "default" | "format" => {}
                "$ref" => {
                    let target = rule.as_str().and_then(|target| self.0.pointer(target.strip_prefix('#')?));
                    self.at(target.unwrap_or_else(|| panic!("dangling {rule}")), value, path)?;
                }
                "type" => expect(any_of(rule, |name| is_of_type(name, value)), "type", rule)?,
                "const" => expect(rule == value, "const", rule)?,
                "enum" => expect(any_of(rule, |one| one == value), "enum", rule)?,
                "minimum" => expect(value.as_f64() >= rule.as_f64() || !value.is_number(), "minimum", rule)?,
                // The one pattern that there is.
                "pattern" => expect(
                    value.as_str().is_none_or(|text| text.parse::<Timestamp>().is_ok()),
                    "pattern",
                    rule,
                )?,
                "required" => {
                    let has = |name: &Value| value.get(name.as_str().unwrap()).is_some();
                    expect(!value.is_object() || rule.as_array().unwrap().iter().all(has), "required", rule)?;
                }
                "properties" => {
                    for (name, rule) in rule.as_object().unwrap() {
                        if let Some(value) = value.get(name) {
                            self.at(rule, value, &format!("{path}/{name}"))?;
                        }
                    }
                }
                "additionalProperties" => assert_eq!(rule, true, "the spelling is open"),
                "items" => {
                    for (index, value) in value.as_array().into_iter().flatten().enumerate() {
                        self.at(rule, value, &format!("{path}/{index}"))?;
                    }
                }
                "oneOf" | "anyOf" => {
                    let results: Vec<_> =
                        rule.as_array().unwrap().iter().map(|rule| self.at(rule, value, path)).collect();
                    let fitting = results.iter().filter(|result| result.is_ok()).count();
                    let fits = if keyword == "oneOf" { fitting == 1 } else { fitting > 0 };
                    expect(fits, &format!("{fitting} fit of"), &json!(results.len()))?;
                }
                "not" => expect(self.at(rule, value, path).is_err(), "not", rule)?,
                other => panic!("the schema uses `{other}`; teach the checker"),
            }
        }
        Ok(())
    }
}

/// Whether the rule, or one of the rules in it where it is a list, holds.
fn any_of(rule: &Value, holds: impl Fn(&Value) -> bool) -> bool {
    rule.as_array().map_or_else(|| holds(rule), |rules| rules.iter().any(&holds))
}

fn is_of_type(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("no such type: {other}"),
    }
}
