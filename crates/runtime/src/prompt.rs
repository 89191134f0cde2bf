//! What an agent is asked.

use anabranch_proto::{ContentBlock, Metadata, TextBlock, event::MessageOrigin};

/// What an agent is asked, with the application's metadata for all that follows from it.
///
/// ```
/// # use anabranch_runtime::Prompt;
/// use anabranch_proto::Metadata;
///
/// let prompt = Prompt::new("Compare the two files.").metadata(Metadata::default().with("tenant_id", "acme"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    pub(crate) content: Vec<ContentBlock>,
    pub(crate) metadata: Metadata,
    pub(crate) origin: MessageOrigin,
}

impl Prompt {
    /// A text.
    pub fn new(text: impl Into<String>) -> Self {
        Self::from_content(vec![TextBlock::new(text).into()])
    }

    /// Text and data.
    #[must_use]
    pub fn from_content(content: Vec<ContentBlock>) -> Self {
        Self { content, metadata: Metadata::default(), origin: MessageOrigin::User }
    }

    /// Metadata for every event of the run and of its descendants. Reserved keys are left out.
    #[must_use]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata.without_reserved();
        self
    }

    pub(crate) fn origin(mut self, origin: MessageOrigin) -> Self {
        self.origin = origin;
        self
    }

    /// About how many bytes it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.metadata.approximate_bytes()
            + self.content.iter().map(ContentBlock::approximate_bytes).sum::<usize>()
    }

    /// The text of all text blocks, one after another.
    pub(crate) fn text(&self) -> String {
        self.content.iter().filter_map(ContentBlock::as_text).collect::<Vec<_>>().join("\n\n")
    }
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}
