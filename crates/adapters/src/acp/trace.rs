//! W3C trace context, which the protocol has at the root of `_meta`.

use agent_client_protocol_schema::v1::Meta;
use serde_json::{Map, Value};

/// More than the 512 characters that W3C Trace Context §3.3 asks to carry of each.
const LONGEST: usize = 8192;

/// The keys of the trace that an event's metadata has, where they are valid; `tracestate` only along with its parent.
pub(super) fn of(metadata: &Map<String, Value>) -> Meta {
    let text = |key: &str| metadata.get(key).and_then(Value::as_str);
    let parent = text("traceparent").filter(|parent| is_parent(parent));
    let state = text("tracestate").filter(|state| parent.is_some() && is_list(state));
    let baggage = text("baggage").filter(|baggage| is_list(baggage));
    let found = [("traceparent", parent), ("tracestate", state), ("baggage", baggage)];
    found.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text?.into()))).collect()
}

/// `version-traceid-parentid-flags` in lower-case hexadecimal, neither id all zeros (W3C Trace Context §3.2).
fn is_parent(text: &str) -> bool {
    let is_hex = |part: &str, digits| {
        part.len() == digits && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_id = |part: &str, digits| is_hex(part, digits) && part.bytes().any(|b| b != b'0');
    let mut parts = text.split('-');
    let mut next = || parts.next().unwrap_or_default();
    let (version, trace, parent, flags) = (next(), next(), next(), next());
    is_hex(version, 2)
        && version != "ff"
        && is_id(trace, 32)
        && is_id(parent, 16)
        && is_hex(flags, 2)
        && parts.next().is_none()
}

fn is_list(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST && text.bytes().all(|b| matches!(b, b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of_json(metadata: Value) -> Value {
        let Value::Object(metadata) = metadata else { panic!("an object") };
        Value::Object(of(&metadata))
    }

    #[test]
    fn a_valid_trace_is_copied_and_nothing_else() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let whole = json!({ "traceparent": parent, "tracestate": "a=1", "baggage": "k=v" });
        let mut metadata = whole.clone();
        metadata["tenant"] = json!("t");
        assert_eq!(of_json(metadata), whole);
        for wrong in [
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "",
        ] {
            assert_eq!(of_json(json!({ "traceparent": wrong, "tracestate": "a=1" })), json!({}), "{wrong}");
        }
        assert_eq!(of_json(json!({ "baggage": "two\nlines" })), json!({}));
        assert_eq!(of_json(json!({ "baggage": 7 })), json!({}));
    }
}
