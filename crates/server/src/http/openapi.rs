//! `GET /openapi.json`: the operations, described as `OpenAPI` 3.1 has it.

use schemars::{
    SchemaGenerator,
    generate::{Contract, SchemaSettings},
};
use serde_json::{Map, Value, json};

use super::{
    error::RefusalBody,
    operations::{Answer, Content, Operation},
};

/// The document for these operations. `is_guarded`: whether a token has to be shown.
pub(crate) fn document(operations: &[Operation], is_guarded: bool) -> Value {
    let mut schemas = Schemas::new();
    let mut paths = Map::new();
    for operation in operations {
        let described = describe(operation, operations, is_guarded, &mut schemas);
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        if let Value::Object(path) = path {
            path.insert(operation.method.as_str().to_ascii_lowercase(), described);
        }
    }
    let mut components = Map::from_iter([("schemas".to_owned(), schemas.finish().into())]);
    if is_guarded {
        let shown = json!({ "token": { "type": "http", "scheme": "bearer" } });
        components.insert("securitySchemes".to_owned(), shown);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "anabranch",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Agents and their sub-agents. docs/server.md says what the words mean.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": components,
    })
}

fn describe(operation: &Operation, all: &[Operation], is_guarded: bool, schemas: &mut Schemas) -> Value {
    let mut described = Map::new();
    let mut put = |name: &str, value: Value| described.insert(name.to_owned(), value);
    put("operationId", operation.name.into());
    put("summary", operation.summary.into());
    let parameters = parameters(operation, schemas);
    if !parameters.is_empty() {
        put("parameters", parameters.into());
    }
    if let Some(body) = operation.body {
        let schema = body(&mut schemas.read);
        let content = json!({ "application/json": { "schema": schema, "example": operation.example } });
        put("requestBody", json!({ "required": true, "content": content }));
    }
    let mut responses = Map::new();
    for answer in &operation.answers {
        responses.insert(answer.status.as_str().to_owned(), response(answer, all, schemas));
    }
    let mut refuse = |status: u16, why: &str| {
        let schema = schemas.written.subschema_for::<RefusalBody<'_>>();
        let refusal = json!({ "description": why, "content": { "application/json": { "schema": schema } } });
        responses.insert(status.to_string(), refusal);
    };
    for (status, why) in &operation.refusals {
        refuse(status.as_u16(), why);
    }
    if !operation.is_open {
        refuse(429, "Requests come too fast, or too many streams are being read.");
        if is_guarded {
            refuse(401, "No token was shown, or one that is not known.");
        } else {
            refuse(403, "Without tokens the server answers to names of loopback alone.");
        }
    }
    responses.sort_keys();
    put("responses", responses.into());
    if is_guarded && !operation.is_open {
        put("security", json!([{ "token": [] }]));
    }
    described.into()
}

fn parameters(operation: &Operation, schemas: &mut Schemas) -> Vec<Value> {
    let mut parameters = Vec::new();
    if operation.path.contains("{id}") {
        let schema = json!({ "type": "string", "pattern": "^[0-9A-Za-z_-]{1,64}$" });
        parameters.push(json!({ "name": "id", "in": "path", "required": true, "schema": schema }));
    }
    if let Some(query) = operation.query {
        let query = query(&mut schemas.read).to_value();
        let fields = query.get("properties").and_then(Value::as_object).into_iter().flatten();
        for (name, schema) in fields {
            let mut schema = schema.clone();
            let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
            never_null(&mut schema);
            parameters.push(json!({
                "name": name, "in": "query", "description": description, "schema": schema,
            }));
        }
    }
    for (name, says) in &operation.headers {
        let schema = json!({ "type": "string" });
        parameters.push(json!({ "name": name, "in": "header", "description": says, "schema": schema }));
    }
    parameters
}

/// In a query what is not there is left out.
fn never_null(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [kind] = &**types {
            let kind = kind.clone();
            schema.insert("type".to_owned(), kind);
        }
    }
}

fn response(answer: &Answer, all: &[Operation], schemas: &mut Schemas) -> Value {
    let mut response = Map::from_iter([("description".to_owned(), (*answer.description).into())]);
    let mut put = |name: &str, value: Value| response.insert(name.to_owned(), value);
    match answer.content {
        Content::Nothing => {}
        Content::Json(describe) => {
            let schema = describe(&mut schemas.written);
            put("content", json!({ "application/json": { "schema": schema } }));
        }
        Content::Events(describe) => {
            let schema = describe(&mut schemas.written);
            // What the next version of OpenAPI calls `itemSchema`: that of each event.
            put("content", json!({ "text/event-stream": { "schema": schema } }));
        }
    }
    if answer.links {
        let links = all.iter().filter(|other| other.path.contains("{id}")).map(|other| {
            let parameters = json!({ "id": "$response.body#/id" });
            (other.name.to_owned(), json!({ "operationId": other.name, "parameters": parameters }))
        });
        put("links", links.collect::<Map<_, _>>().into());
    }
    response.into()
}

/// The schemas of what is read and of what is written, which differ in what has to be there.
struct Schemas {
    read: SchemaGenerator,
    written: SchemaGenerator,
}

impl Schemas {
    fn new() -> Self {
        let settings = |contract| {
            let mut settings = SchemaSettings::draft2020_12();
            settings.meta_schema = None;
            settings.definitions_path = "/components/schemas".into();
            settings.contract = contract;
            settings
        };
        Self {
            read: SchemaGenerator::new(settings(Contract::Deserialize)),
            written: SchemaGenerator::new(settings(Contract::Serialize)),
        }
    }

    /// All of them by name.
    fn finish(mut self) -> Map<String, Value> {
        let mut schemas = self.read.take_definitions(true);
        for (name, schema) in self.written.take_definitions(true) {
            let other = schemas.insert(name.clone(), schema.clone());
            debug_assert!(other.is_none_or(|other| other == schema), "two types are called {name}");
        }
        schemas.sort_keys();
        schemas
    }
}
