//! The JSON Schema of a line.

use schemars::{Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Map, Value, json};

use crate::{ChildScope, ContentBlock, EventId, EventKind, Metadata, Timestamp, schema::put_before};

/// The JSON Schema (draft 2020-12) of a line: what [`Reader::default`](super::Reader::default) accepts in the native
/// spelling.
///
/// It is open wherever the spelling is: to fields that a kind does not have, to kinds and types of block that this
/// crate does not know. It does not say which line may follow which; that is the [`grammar`](crate::grammar).
/// It is in the repository as `docs/native.schema.json`.
#[must_use]
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let events = events(&mut generator);
    let sub_agent = sub_agent(&mut generator);
    let blocks = ContentBlock::schemas(&mut generator);
    let mut definitions = generator.take_definitions(true);
    for (tag, reference) in blocks {
        type_block(&mut definitions, tag, &reference);
    }
    let known: Vec<Value> = events.iter().map(|(tag, _)| reference(tag)).collect();
    let mut all = Map::from_iter([
        ("EVENT".to_owned(), json!({ "description": "An event, told by its `type`.", "oneOf": known })),
        ("SUB_AGENT".to_owned(), sub_agent.into()),
    ]);
    all.extend(events);
    all.extend(definitions);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of the native spelling of anabranch",
        "type": "object",
        "properties": {
            "seq": {
                "description": "The event's number in its session, from 1; only in lines that come from a log.",
                "type": "integer",
                "format": "uint64",
                "minimum": 0,
            },
        },
        "oneOf": [reference("EVENT"), reference("SUB_AGENT")],
        "$defs": all,
    })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// The events of all kinds by their tags, and those of unknown kinds.
fn events(generator: &mut SchemaGenerator) -> Vec<(String, Value)> {
    let id = generator.subschema_for::<EventId>();
    let created_at = generator.subschema_for::<Timestamp>();
    let metadata = generator.subschema_for::<Metadata>();
    let mut kinds = EventKind::schemas(generator);
    let others: Vec<&str> = kinds.iter().map(|(tag, _)| *tag).chain(["SUB_AGENT"]).collect();
    let other = json!({ "type": "string", "not": { "enum": others } });
    let mut events = Vec::with_capacity(kinds.len() + 1);
    kinds.push((
        "UNKNOWN",
        json_schema!({ "description": "An event of a kind that is not known; kept unchanged." }),
    ));
    for (tag, mut event) in kinds {
        let is = if tag == "UNKNOWN" { other.clone() } else { json!({ "const": tag }) };
        put_before(
            &mut event,
            &[("id", id.clone().into()), ("created_at", created_at.clone().into()), ("type", is)],
        );
        if let Some(Value::Object(properties)) = event.get_mut("properties") {
            properties.insert("metadata".to_owned(), metadata.clone().into());
            if let Some(response) = properties.get_mut("response") {
                or_null(response);
            }
        }
        event.insert("type".to_owned(), json!("object"));
        events.push((tag.to_owned(), event.into()));
    }
    events
}

/// Accepts `null` too, which is read as if the field were not there.
fn or_null(schema: &mut Value) {
    let mut inner = schema.take();
    let mut either = Map::from_iter([("anyOf".to_owned(), Value::Null)]);
    for annotation in ["description", "default"] {
        let value = inner.as_object_mut().and_then(|inner| inner.remove(annotation));
        either.extend(value.map(|value| (annotation.to_owned(), value)));
    }
    either.insert("anyOf".to_owned(), json!([inner, { "type": "null" }]));
    *schema = either.into();
}

/// A child's event in its scope.
fn sub_agent(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = <ChildScope as schemars::JsonSchema>::json_schema(generator);
    if let Some(run) = schema.pointer_mut("/properties/run") {
        or_null(run);
    }
    put_before(&mut schema, &[("type", json!({ "const": "SUB_AGENT" })), ("event", reference("EVENT"))]);
    schema
        .insert("description".to_owned(), json!("A child's event, in one run of its session. Never nested."));
    schema
}

/// Gives a block its `type`, which serde writes and the derive does not know of.
fn type_block(definitions: &mut Map<String, Value>, tag: &str, reference: &Schema) {
    let name = reference.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
    let definition = name.and_then(|name| definitions.get_mut(name));
    debug_assert!(definition.is_some(), "a block's schema is a definition");
    if let Some(definition) = definition
        && let Ok(schema) = <&mut Schema>::try_from(definition)
    {
        put_before(schema, &[("type", json!({ "const": tag }))]);
    }
}
