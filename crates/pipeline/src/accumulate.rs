//! Adds the chunks of a call up to its response.

use std::mem;

use anabranch_proto::{
    Artifact, BlockId, ContentBlock, DataSource, Metadata, ToolChunk, ToolResponse, ToolResultState,
};
use foldhash::HashMap;

/// What the chunks of a call add up to so far. Linear in what comes, whatever the number of chunks.
#[derive(Debug)]
pub(crate) struct Accumulator {
    state: ToolResultState,
    content: Vec<ContentBlock>,
    last_text: Option<usize>,
    data_by_id: HashMap<BlockId, usize>,
    metadata: Metadata,
    bytes: usize,
    /// How often data was replaced by data of another form.
    replaced: usize,
    is_complete: bool,
}

/// Whether a chunk became a part of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accepted {
    Yes,
    /// The last chunk had come before.
    AfterTheLast,
    /// With it the output would be larger than it may be.
    TooMuch,
}

impl Accumulator {
    pub(crate) fn new() -> Self {
        Self {
            state: ToolResultState::Running,
            content: Vec::new(),
            last_text: None,
            data_by_id: HashMap::default(),
            metadata: Metadata::default(),
            bytes: 0,
            replaced: 0,
            is_complete: false,
        }
    }

    /// Adds a chunk, unless its content would take the output beyond `limit` bytes.
    pub(crate) fn push(&mut self, chunk: &ToolChunk, limit: usize) -> Accepted {
        if self.is_complete {
            return Accepted::AfterTheLast;
        }
        let bytes = self.bytes.saturating_add(chunk.content.iter().map(size).sum());
        if bytes > limit {
            return Accepted::TooMuch;
        }
        self.bytes = bytes;
        self.add(chunk);
        Accepted::Yes
    }

    /// Adds a chunk whatever came before.
    pub(crate) fn add(&mut self, chunk: &ToolChunk) {
        self.state = self.state.worse(chunk.state);
        self.metadata = std::mem::take(&mut self.metadata).merged(&chunk.metadata);
        self.is_complete = chunk.is_last;
        for block in &chunk.content {
            self.append(block);
        }
    }

    /// Ends the result as failed, with a text after what came: the chunk that says so.
    pub(crate) fn fail(&mut self, text: &str) -> ToolChunk {
        let separator = if self.content.is_empty() { "" } else { "\n" };
        let chunk = ToolChunk::error(format!("{separator}{text}"));
        self.add(&chunk);
        chunk
    }

    /// How often data was replaced by data of another form since this was last asked: base64 and an address do not add up,
    /// so the later one stands.
    pub(crate) fn take_replaced(&mut self) -> usize {
        mem::take(&mut self.replaced)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The response; a call that never said otherwise was a success.
    pub(crate) fn finish(&mut self, artifacts: &[Artifact]) -> ToolResponse {
        let state = self.state.worse(ToolResultState::Success);
        let mut metadata = mem::take(&mut self.metadata);
        if !artifacts.is_empty() {
            let mut files =
                metadata.get("files").and_then(|files| files.to::<Vec<Artifact>>().ok()).unwrap_or_default();
            files.extend_from_slice(artifacts);
            if let Ok(files) = anabranch_proto::Json::new(&files) {
                metadata = metadata.with_json("files", files);
            }
        }
        ToolResponse::new(state, mem::take(&mut self.content), metadata)
    }

    /// Appends to the block with the same id, or to the text before it where neither has one.
    ///
    /// Text never goes back behind later text: a text delta on the wire names no block, so whoever adds the deltas up has
    /// the text in the order in which it came, and this must be the same text. What is neither text nor data is no part
    /// of a result.
    #[expect(clippy::match_same_arms, reason = "a kind that is not named fails the lint for wildcards")]
    fn append(&mut self, block: &ContentBlock) {
        match block {
            ContentBlock::Text(new) if new.text.is_empty() => {}
            ContentBlock::Text(new) => {
                let at = if new.id.is_some() { self.last_text } else { self.content.len().checked_sub(1) };
                match at.and_then(|at| self.content.get_mut(at)) {
                    Some(ContentBlock::Text(known)) if known.id == new.id => known.text.push_str(&new.text),
                    _ => {
                        self.last_text = Some(self.content.len());
                        self.content.push(block.clone());
                    }
                }
            }
            ContentBlock::Data(new) => {
                let at = new.id.as_ref().and_then(|id| self.data_by_id.get(id).copied());
                if let Some(ContentBlock::Data(known)) = at.and_then(|at| self.content.get_mut(at)) {
                    let is_other_form = mem::discriminant(&known.source) != mem::discriminant(&new.source);
                    self.replaced += usize::from(is_other_form && source_size(&known.source) > 0);
                    known.source.append(&new.source.to_part());
                } else {
                    if let Some(id) = &new.id {
                        self.data_by_id.insert(id.clone(), self.content.len());
                    }
                    self.content.push(block.clone());
                }
            }
            ContentBlock::Thinking(_)
            | ContentBlock::Hint(_)
            | ContentBlock::ToolCall(_)
            | ContentBlock::ToolResult(_)
            | ContentBlock::Other(_) => {}
            _ => {}
        }
    }
}

/// The bytes of a block's content.
#[expect(clippy::match_same_arms, reason = "a kind that is not named fails the lint for wildcards")]
fn size(block: &ContentBlock) -> usize {
    match block {
        ContentBlock::Text(block) => block.text.len(),
        ContentBlock::Data(block) => source_size(&block.source),
        ContentBlock::Thinking(_)
        | ContentBlock::Hint(_)
        | ContentBlock::ToolCall(_)
        | ContentBlock::ToolResult(_)
        | ContentBlock::Other(_) => 0,
        _ => 0,
    }
}

fn source_size(source: &DataSource) -> usize {
    match source {
        DataSource::Base64 { data, .. } => data.len(),
        DataSource::Url { url, .. } => url.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use anabranch_proto::{DataBlock, TextBlock};

    use super::*;

    fn data(id: &str, data: &str) -> ContentBlock {
        DataBlock::new(DataSource::Base64 { data: data.to_owned(), media_type: "image/png".into() })
            .id(id)
            .into()
    }

    #[test]
    fn blocks_with_one_id_add_up_and_others_stay_apart() {
        let mut accumulator = Accumulator::new();
        for content in [
            vec![TextBlock::new("a").into(), TextBlock::new("b").into()],
            vec![TextBlock::new("x").id("1").into(), data("2", "aGk=")],
            vec![TextBlock::new("y").id("1").into(), TextBlock::new("z").into(), data("2", "aGk=")],
        ] {
            assert_eq!(accumulator.push(&ToolChunk::new(content), 100), Accepted::Yes);
        }
        let response = accumulator.finish(&[]);
        assert_eq!(response.state, ToolResultState::Success);
        assert_eq!(
            response.content,
            [
                TextBlock::new("ab").into(),
                TextBlock::new("xy").id("1").into(),
                data("2", "aGlo aQ==".replace(' ', "").as_str()),
                TextBlock::new("z").into()
            ]
        );
    }

    #[test]
    fn text_never_goes_back_behind_later_text() {
        let mut accumulator = Accumulator::new();
        for (text, id) in [("a", "1"), ("b", "2"), ("c", "1")] {
            accumulator.push(&ToolChunk::new(vec![TextBlock::new(text).id(id).into()]), 100);
        }
        assert_eq!(accumulator.finish(&[]).text(), "abc");
    }

    #[test]
    fn metadata_is_merged_and_the_worst_state_stays() {
        let mut accumulator = Accumulator::new();
        let chunk =
            |key: &str, value: i32| ToolChunk::new(vec![]).metadata(Metadata::default().with(key, value));
        accumulator.push(&chunk("a", 1).state(ToolResultState::Error), 0);
        accumulator.push(&chunk("a", 2).state(ToolResultState::Success), 0);
        accumulator.push(&chunk("b", 3), 0);
        let response = accumulator.finish(&[Artifact::new("f", "dir/f", "text/plain")]);
        assert_eq!(response.state, ToolResultState::Error);
        assert_eq!(
            response.metadata.to_string(),
            r#"{"a":2,"b":3,"files":[{"name":"f","path":"dir/f","mime_type":"text/plain"}]}"#
        );
    }

    #[test]
    fn the_bound_is_inclusive_and_what_came_is_kept() {
        let mut accumulator = Accumulator::new();
        assert_eq!(accumulator.push(&ToolChunk::text("abcd"), 4), Accepted::Yes);
        assert_eq!(accumulator.push(&ToolChunk::text("e"), 4), Accepted::TooMuch);
        accumulator.fail("too much");
        let response = accumulator.finish(&[]);
        assert_eq!((response.state, response.text()), (ToolResultState::Error, "abcd\ntoo much".to_owned()));
    }
}
