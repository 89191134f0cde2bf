//! Which fields each event has, and of what sort.

use serde_json::{Map, Value};

/// What a field holds.
#[derive(Clone, Copy, Debug)]
enum Sort {
    Text,
    /// One of these texts.
    Word(&'static [&'static str]),
    /// Anything, `null` included.
    Any,
    Object,
    RunOutcome,
    SubagentOutcome,
    Usage,
}

use Sort::{Any, Object, RunOutcome, SubagentOutcome, Text, Usage, Word};

/// A field's name, whether it must be there, and what it holds.
type Field = (&'static str, bool, Sort);

/// An event's name, whether it may be attributed, and its fields.
type Shape = (&'static str, bool, &'static [Field]);

const SHAPES: &[Shape] = &[
    (
        "RUN_STARTED",
        false,
        &[
            ("threadId", true, Text),
            ("runId", true, Text),
            ("protocolVersion", false, Word(&["1.0"])),
            ("parentRunId", false, Text),
            ("input", false, Object),
        ],
    ),
    (
        "RUN_FINISHED",
        false,
        &[
            ("threadId", true, Text),
            ("runId", true, Text),
            ("result", false, Any),
            ("outcome", false, RunOutcome),
            ("usage", false, Usage),
        ],
    ),
    ("RUN_ERROR", false, &[("message", true, Text), ("code", false, Text), ("usage", false, Usage)]),
    ("STEP_STARTED", true, &[("stepName", true, Text)]),
    ("STEP_FINISHED", true, &[("stepName", true, Text)]),
    (
        "TEXT_MESSAGE_START",
        true,
        &[
            ("messageId", true, Text),
            ("role", false, Word(&["developer", "system", "assistant", "user"])),
            ("name", false, Text),
        ],
    ),
    ("TEXT_MESSAGE_CONTENT", true, &[("messageId", true, Text), ("delta", true, Text)]),
    ("TEXT_MESSAGE_END", true, &[("messageId", true, Text)]),
    (
        "TOOL_CALL_START",
        true,
        &[("toolCallId", true, Text), ("toolCallName", true, Text), ("parentMessageId", false, Text)],
    ),
    ("TOOL_CALL_ARGS", true, &[("toolCallId", true, Text), ("delta", true, Text)]),
    ("TOOL_CALL_END", true, &[("toolCallId", true, Text)]),
    (
        "TOOL_CALL_RESULT",
        true,
        &[
            ("messageId", true, Text),
            ("toolCallId", true, Text),
            ("content", true, Text),
            ("role", false, Word(&["tool"])),
        ],
    ),
    ("REASONING_START", true, &[("messageId", true, Text)]),
    ("REASONING_END", true, &[("messageId", true, Text)]),
    ("REASONING_MESSAGE_START", true, &[("messageId", true, Text), ("role", true, Word(&["reasoning"]))]),
    ("REASONING_MESSAGE_CONTENT", true, &[("messageId", true, Text), ("delta", true, Text)]),
    ("REASONING_MESSAGE_END", true, &[("messageId", true, Text)]),
    ("RAW", true, &[("event", true, Any), ("source", false, Text)]),
    ("CUSTOM", true, &[("name", true, Text), ("value", true, Any)]),
    (
        "SUBAGENT_STARTED",
        true,
        &[
            ("name", true, Text),
            ("description", false, Text),
            ("parentSubagentRunId", false, Text),
            ("parentToolCallId", false, Text),
            ("parentMessageId", false, Text),
        ],
    ),
    ("SUBAGENT_FINISHED", true, &[("result", false, Any), ("outcome", false, SubagentOutcome)]),
    ("SUBAGENT_ERROR", true, &[("message", true, Text), ("code", false, Text)]),
];

/// Where a number stops to be the same in JavaScript.
const SAFE: i64 = (1 << 53) - 1;

/// Checks that a frame is an event of the protocol, with its fields and no others.
pub(super) fn check(frame: &Value) -> Result<(), String> {
    let frame = frame.as_object().ok_or("a frame is an object")?;
    let name = text(frame, "type").ok_or("a frame has a `type`")?;
    let (_, may_attribute, fields) =
        SHAPES.iter().find(|(known, ..)| *known == name).ok_or_else(|| format!("`{name}` is no event"))?;
    for (key, value) in frame {
        let sort = match &**key {
            "type" => Text,
            "metadata" => Object,
            "rawEvent" => Any,
            "timestamp" => {
                let is_safe = value.as_i64().is_some_and(|at| (-SAFE..=SAFE).contains(&at));
                is_safe.then_some(()).ok_or_else(|| format!("{name}: `timestamp` is no safe integer"))?;
                continue;
            }
            "subagentRunId" if *may_attribute => Text,
            key => {
                let field = fields.iter().find(|(known, ..)| *known == key);
                field.ok_or_else(|| format!("{name} has no `{key}`"))?.2
            }
        };
        holds(sort, value).map_err(|what| format!("{name}: `{key}` {what}"))?;
    }
    match fields.iter().find(|(key, required, _)| *required && !frame.contains_key(*key)) {
        Some((key, ..)) => Err(format!("{name} lacks `{key}`")),
        None => Ok(()),
    }
}

/// The text under a key.
pub(super) fn text<'v>(object: &'v Map<String, Value>, key: &str) -> Option<&'v str> {
    object.get(key)?.as_str()
}

fn holds(sort: Sort, value: &Value) -> Result<(), String> {
    let is_right = match sort {
        Any => true,
        Text => value.is_string(),
        Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        Object => value.is_object(),
        RunOutcome => return run_outcome(value),
        SubagentOutcome => return subagent_outcome(value),
        Usage => return value.as_array().ok_or("is no list")?.iter().try_for_each(usage),
    };
    if is_right { Ok(()) } else { Err(format!("is {value}")) }
}

/// Checks that an object has these fields and no others. None may be `null`.
fn closed(value: &Value, fields: &[Field]) -> Result<(), String> {
    let object = value.as_object().ok_or("is no object")?;
    for (key, value) in object {
        let field = fields.iter().find(|(known, ..)| known == key);
        holds(field.ok_or_else(|| format!("has no `{key}`"))?.2, value)
            .map_err(|what| format!("has a `{key}` that {what}"))?;
    }
    match fields.iter().find(|(key, required, _)| *required && !object.contains_key(*key)) {
        Some((key, ..)) => Err(format!("lacks `{key}`")),
        None => Ok(()),
    }
}

fn run_outcome(value: &Value) -> Result<(), String> {
    match value["type"].as_str() {
        Some("success" | "cancelled") => closed(value, &[("type", true, Text)]),
        Some("interrupt") => {
            closed(value, &[("type", true, Text), ("interrupts", true, Any)])?;
            let interrupts = value["interrupts"].as_array().filter(|list| !list.is_empty());
            interrupts.ok_or("has no interrupts")?.iter().try_for_each(|interrupt| {
                let fields: [Field; 8] = [
                    ("id", true, Text),
                    ("reason", true, Text),
                    ("message", false, Text),
                    ("toolCallId", false, Text),
                    ("responseSchema", false, Object),
                    ("expiresAt", false, Text),
                    ("metadata", false, Object),
                    ("subagentRunId", false, Text),
                ];
                closed(interrupt, &fields)
            })
        }
        _ => Err(format!("is {value}")),
    }
}

fn subagent_outcome(value: &Value) -> Result<(), String> {
    match value["type"].as_str() {
        Some("success") => closed(value, &[("type", true, Text)]),
        Some("suspended") => {
            closed(value, &[("type", true, Text), ("interruptIds", false, Any)])?;
            match value.get("interruptIds") {
                None => Ok(()),
                Some(ids) => {
                    let ids = ids.as_array().ok_or("has `interruptIds` that are no list")?;
                    if ids.iter().all(Value::is_string) { Ok(()) } else { Err(format!("is {value}")) }
                }
            }
        }
        _ => Err(format!("is {value}")),
    }
}

fn usage(value: &Value) -> Result<(), String> {
    const COUNTS: [&str; 6] = [
        "inputTokens",
        "outputTokens",
        "totalTokens",
        "reasoningTokens",
        "cachedInputTokens",
        "cacheWriteInputTokens",
    ];
    for (key, value) in value.as_object().ok_or("is no object")? {
        let is_right = match &**key {
            "provider" | "model" => value.is_string(),
            key if COUNTS.contains(&key) => value.as_i64().is_some_and(|count| (0..=SAFE).contains(&count)),
            key => return Err(format!("has no `{key}`")),
        };
        if !is_right {
            return Err(format!("has a `{key}` that is {value}"));
        }
    }
    Ok(())
}
