//! Links to the files that a tool wrote.

use std::fmt::Write as _;

use agent_client_protocol_schema::v1::{ContentBlock, ResourceLink, ToolCallContent};
use anabranch_proto::{Artifact, Metadata};

use crate::sanitize;

/// A link per file in a tool's response. A file that lies where only the tool knows has none.
pub(super) fn links(response: &Metadata) -> Vec<ToolCallContent> {
    let files = response.get("files").and_then(|files| files.to::<Vec<Artifact>>().ok());
    let link = |file: Artifact| {
        let link = ResourceLink::new(sanitize::line(&file.name), uri(&file.path)?).mime_type(file.mime_type);
        Some(ContentBlock::ResourceLink(link).into())
    };
    files.unwrap_or_default().into_iter().filter_map(link).collect()
}

/// The `file` URI of an absolute path (RFC 8089), with everything escaped that has a meaning in one.
fn uri(path: &str) -> Option<String> {
    if !path.starts_with('/') {
        return None;
    }
    let mut uri = "file://".to_owned();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(byte.into());
            }
            // Writing to a string cannot fail.
            byte => write!(uri, "%{byte:02X}").ok()?,
        }
    }
    Some(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_absolute_path_is_a_link_and_nothing_in_it_has_a_meaning() {
        assert_eq!(uri("/data/a b#1?.csv").unwrap(), "file:///data/a%20b%231%3F.csv");
        assert_eq!(uri("/größe").unwrap(), "file:///gr%C3%B6%C3%9Fe");
        assert_eq!(uri("a.csv"), None);
    }
}
