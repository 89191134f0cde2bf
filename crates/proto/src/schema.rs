//! `JsonSchema` of the types whose spelling no derive knows.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::{ContentBlock, EventId, Json, Metadata, TextOrBlocks, Timestamp, event::DataPart};

impl JsonSchema for EventId {
    fn schema_name() -> Cow<'static, str> {
        "EventId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "An event's id: any text. Ours are ULIDs.", "type": "string" })
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // Not `format: date-time`, which an offset is needed for.
        json_schema!({
            "description": "A time as RFC 3339 writes it; the offset may be absent. Ours are UTC with microseconds.",
            "type": "string",
            "pattern": r"^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})?$",
        })
    }
}

impl JsonSchema for Json {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Json".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!(true)
    }
}

impl JsonSchema for Metadata {
    fn schema_name() -> Cow<'static, str> {
        "Metadata".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An open object of the application's: tenants, traces, DAG nodes.",
            "type": "object",
            "additionalProperties": true,
        })
    }
}

impl JsonSchema for DataPart {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "DataPart".into()
    }

    /// Exactly one of the two is a string; the other is `null` or absent.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "data": { "description": "Base64 text. Each piece is padded on its own.", "type": ["string", "null"] },
                "url": { "description": "An address.", "type": ["string", "null"] },
            },
            "oneOf": [
                { "properties": { "data": { "type": "string" }, "url": { "type": "null" } }, "required": ["data"] },
                { "properties": { "data": { "type": "null" }, "url": { "type": "string" } }, "required": ["url"] },
            ],
        })
    }
}

impl JsonSchema for TextOrBlocks {
    fn schema_name() -> Cow<'static, str> {
        "TextOrBlocks".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let blocks = generator.subschema_for::<Vec<ContentBlock>>();
        json_schema!({
            "description": "One text, or text and data blocks.",
            "oneOf": [{ "type": "string" }, blocks],
        })
    }
}

impl JsonSchema for ContentBlock {
    fn schema_name() -> Cow<'static, str> {
        "ContentBlock".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (types, mut schemas): (Vec<_>, Vec<_>) = Self::schemas(generator).into_iter().unzip();
        schemas.push(json_schema!({
            "description": "A block of another type; kept unchanged.",
            "type": "object",
            "properties": { "type": { "type": "string", "not": { "enum": types } } },
            "required": ["type"],
        }));
        json_schema!({ "description": "A part of a message or of a tool's result, told by its `type`.", "oneOf": schemas })
    }
}

/// Puts properties, all of them required, before those of an object's schema.
pub(crate) fn put_before(schema: &mut Schema, first: &[(&str, Value)]) {
    let object = schema.ensure_object();
    let mut properties: serde_json::Map<String, Value> =
        first.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let mut required: Vec<Value> = first.iter().map(|(name, _)| json!(name)).collect();
    if let Some(Value::Object(own)) = object.remove("properties") {
        properties.extend(own);
    }
    if let Some(Value::Array(own)) = object.remove("required") {
        required.extend(own);
    }
    object.insert("properties".to_owned(), properties.into());
    object.insert("required".to_owned(), required.into());
}
