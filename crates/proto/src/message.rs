//! Messages and the blocks that they consist of, with agentscope's field names.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::SerializeMap as _};

use crate::event::DataPart;
use crate::{
    BlockId, ErrorInfo, Fields, FinishedReason, Json, MessageId, Metadata, Timestamp, ToolCallId,
    ToolResultState,
    native::payload::{self, FieldError},
};

/// Defines a struct that keeps the fields that it does not have. A derived `Deserialize` would buffer them, and lose how
/// they are spelt.
macro_rules! open_object {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
            /// What it was read with beyond these fields; written behind them.
            #[serde(flatten)]
            #[cfg_attr(feature = "schema", schemars(skip))]
            pub extra: Fields,
        }

        impl $name {
            /// Reads the object with these fields, but for a block's `type`.
            fn read(fields: &Fields) -> Result<Self, FieldError> {
                #[derive(Deserialize)]
                struct Known {
                    $($(#[$field_meta])* $field: $type,)*
                }
                const FIELDS: &[&str] = &[$(stringify!($field)),*];
                let known: Known = payload::read(payload::only(payload::pairs(fields), FIELDS))?;
                let mut extra = Fields::default();
                for (name, value) in fields.iter().filter(|(name, _)| !FIELDS.contains(name)) {
                    extra.push(name, value.clone());
                }
                Ok(Self { $($field: known.$field,)* extra })
            }
        }
    };
}

impl<'de> Deserialize<'de> for Message {
    /// Reads a JSON object from text.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(&Fields::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

macro_rules! deserialize_blocks {
    ($($name:ident)*) => {
        $(impl<'de> Deserialize<'de> for $name {
            /// Reads a JSON object from text, whatever its `type`: where only such a block can stand, that may be
            /// missing.
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let mut fields = Fields::deserialize(deserializer)?;
                fields.remove("type");
                Self::read(&fields).map_err(D::Error::custom)
            }
        })*
    };
}

deserialize_blocks!(TextBlock ThinkingBlock HintBlock DataBlock ToolCallBlock ToolResultBlock);

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// A person, or the agent that gave the task.
    User,
    /// The agent.
    Assistant,
    /// Whoever configured the agent.
    System,
}

open_object! {
    /// One message: a prompt, or all that an agent produced in one reply.
    #[derive(Clone, Debug, PartialEq, Serialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[non_exhaustive]
    pub struct Message {
        /// The message's id; a reply's message has the reply's id.
        pub id: MessageId,
        /// The name of who speaks.
        pub name: Arc<str>,
        /// Who speaks.
        pub role: Role,
        /// What is said and done, in order. Results stand in the order of their calls.
        pub content: Vec<ContentBlock>,
        /// When it began.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub created_at: Option<Timestamp>,
        /// When it was complete.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub finished_at: Option<Timestamp>,
        /// Tokens used for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub usage: Option<Usage>,
        /// Why the reply ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub finished_reason: Option<FinishedReason>,
        /// What went wrong, where the reply failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub error: Option<ErrorInfo>,
        /// The application's metadata.
        #[serde(default, skip_serializing_if = "Metadata::is_empty")]
        pub metadata: Metadata,
    }
}

impl Message {
    /// A message with content and nothing else known.
    pub fn new(
        id: impl Into<MessageId>,
        name: impl Into<Arc<str>>,
        role: Role,
        content: impl Into<Vec<ContentBlock>>,
    ) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            role,
            content: content.into(),
            created_at: None,
            finished_at: None,
            usage: None,
            finished_reason: None,
            error: None,
            metadata: Metadata::default(),
            extra: Fields::default(),
        }
    }

    /// The text of all text blocks, one after another.
    #[must_use]
    pub fn text(&self) -> String {
        self.content.iter().filter_map(ContentBlock::as_text).collect()
    }

    /// What the message says in the end: its text and data blocks after the last tool call or result.
    #[must_use]
    pub fn final_content(&self) -> Vec<ContentBlock> {
        let is_tool =
            |block: &ContentBlock| matches!(block, ContentBlock::ToolCall(_) | ContentBlock::ToolResult(_));
        let start = self.content.iter().rposition(is_tool).map_or(0, |last| last + 1);
        let said = |block: &&ContentBlock| matches!(block, ContentBlock::Text(_) | ContentBlock::Data(_));
        self.content.iter().skip(start).filter(said).cloned().collect()
    }
}

/// Tokens used by model calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Of those read, tokens that came from a cache.
    #[serde(default)]
    pub cache_input_tokens: u64,
    /// Tokens written to a cache.
    #[serde(default)]
    pub cache_creation_input_tokens: u64,
}

impl Usage {
    /// Tokens read and written, without a cache.
    #[must_use]
    pub fn new(input_tokens: u64, output_tokens: u64) -> Self {
        Self { input_tokens, output_tokens, ..Self::default() }
    }

    /// Adds what another call used.
    pub fn add(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_input_tokens = self.cache_input_tokens.saturating_add(other.cache_input_tokens);
        self.cache_creation_input_tokens =
            self.cache_creation_input_tokens.saturating_add(other.cache_creation_input_tokens);
    }
}

/// A part of a message or of a tool's result.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ContentBlock {
    /// Text.
    Text(TextBlock),
    /// What the model thought.
    Thinking(ThinkingBlock),
    /// Something that was put before the model, such as a background child's result.
    Hint(HintBlock),
    /// An image, a sound, a file.
    Data(DataBlock),
    /// A call that the model made.
    ToolCall(ToolCallBlock),
    /// What a call came to.
    ToolResult(ToolResultBlock),
    /// A block of a type that this crate does not know; kept unchanged.
    Other(OtherBlock),
}

impl ContentBlock {
    /// The text, where the block is text.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        if let Self::Text(block) = self { Some(&block.text) } else { None }
    }
}

macro_rules! blocks {
    ($($variant:ident($type:ident) = $tag:literal;)*) => {
        $(impl From<$type> for ContentBlock {
            fn from(block: $type) -> Self {
                Self::$variant(block)
            }
        })*

        impl Serialize for ContentBlock {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(block) => block.serialize(serializer),)*
                    Self::Other(other) => {
                        let mut map = serializer.serialize_map(Some(other.fields.len() + 1))?;
                        map.serialize_entry("type", &other.block_type)?;
                        for (name, value) in other.fields.iter() {
                            map.serialize_entry(name, value)?;
                        }
                        map.end()
                    }
                }
            }
        }

        impl<'de> Deserialize<'de> for ContentBlock {
            /// Reads a JSON object from text.
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let mut fields = Fields::deserialize(deserializer)?;
                let Some(tag) = fields.remove("type") else { return Err(D::Error::missing_field("type")) };
                let tag: String = tag.to().map_err(|_| D::Error::custom("`type` of a block must be a string"))?;
                match &*tag {
                    $($tag => $type::read(&fields).map(Self::$variant).map_err(|error| {
                        D::Error::custom(format_args!("{} block: {error}", $tag))
                    }),)*
                    _ => Ok(Self::Other(OtherBlock { block_type: tag, fields })),
                }
            }
        }

        #[cfg(feature = "schema")]
        impl ContentBlock {
            /// The schemas of all known blocks, each with its type.
            pub(crate) fn schemas(
                generator: &mut schemars::SchemaGenerator,
            ) -> Vec<(&'static str, schemars::Schema)> {
                vec![$(($tag, generator.subschema_for::<$type>()),)*]
            }
        }
    };
}

blocks! {
    Text(TextBlock) = "text";
    Thinking(ThinkingBlock) = "thinking";
    Hint(HintBlock) = "hint";
    Data(DataBlock) = "data";
    ToolCall(ToolCallBlock) = "tool_call";
    ToolResult(ToolResultBlock) = "tool_result";
}

open_object! {
    /// Text.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "TextBlock"))]
    #[serde(tag = "type", rename = "text")]
    #[non_exhaustive]
    pub struct TextBlock {
        /// The text.
        pub text: String,
        /// The block's id, where it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub id: Option<BlockId>,
        /// When it began.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub created_at: Option<Timestamp>,
        /// When it was complete.
        #[serde(default)]
        pub finished_at: Option<Timestamp>,
    }
}

impl TextBlock {
    /// Text without an id.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), id: None, created_at: None, finished_at: None, extra: Fields::default() }
    }

    /// The block's id.
    #[must_use]
    pub fn id(mut self, id: impl Into<BlockId>) -> Self {
        self.id = Some(id.into());
        self
    }
}

open_object! {
    /// What the model thought.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ThinkingBlock"))]
    #[serde(tag = "type", rename = "thinking")]
    #[non_exhaustive]
    pub struct ThinkingBlock {
        /// The thought.
        pub thinking: String,
        /// The block's id, where it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub id: Option<BlockId>,
        /// When it began.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub created_at: Option<Timestamp>,
        /// When it was complete.
        #[serde(default)]
        pub finished_at: Option<Timestamp>,
    }
}

impl ThinkingBlock {
    /// A thought without an id.
    pub fn new(thinking: impl Into<String>) -> Self {
        Self {
            thinking: thinking.into(),
            id: None,
            created_at: None,
            finished_at: None,
            extra: Fields::default(),
        }
    }

    /// The block's id.
    #[must_use]
    pub fn id(mut self, id: impl Into<BlockId>) -> Self {
        self.id = Some(id.into());
        self
    }
}

open_object! {
    /// Something that was put before the model once, such as a background child's result.
    #[derive(Clone, Debug, PartialEq, Serialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "HintBlock"))]
    #[serde(tag = "type", rename = "hint")]
    #[non_exhaustive]
    pub struct HintBlock {
        /// What is said.
        pub hint: TextOrBlocks,
        /// The block's id, where it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub id: Option<BlockId>,
        /// Who says it.
        #[serde(default)]
        pub source: Option<String>,
        /// When it began.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub created_at: Option<Timestamp>,
        /// When it was complete.
        #[serde(default)]
        pub finished_at: Option<Timestamp>,
    }
}

impl HintBlock {
    /// A hint without an id or a source.
    #[must_use]
    pub fn new(hint: TextOrBlocks) -> Self {
        Self { hint, id: None, source: None, created_at: None, finished_at: None, extra: Fields::default() }
    }
}

open_object! {
    /// An image, a sound, a file.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "DataBlock"))]
    #[serde(tag = "type", rename = "data")]
    #[non_exhaustive]
    pub struct DataBlock {
        /// The block's id, where it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub id: Option<BlockId>,
        /// The data, or where it lies.
        pub source: DataSource,
        /// A name to show.
        #[serde(default)]
        pub name: Option<String>,
        /// When it began.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub created_at: Option<Timestamp>,
        /// When it was complete.
        #[serde(default)]
        pub finished_at: Option<Timestamp>,
    }
}

impl DataBlock {
    /// Data without an id or a name.
    #[must_use]
    pub fn new(source: DataSource) -> Self {
        Self { id: None, source, name: None, created_at: None, finished_at: None, extra: Fields::default() }
    }

    /// The block's id.
    #[must_use]
    pub fn id(mut self, id: impl Into<BlockId>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// A name to show.
    #[must_use]
    pub fn name(mut self, name: impl Into<Option<String>>) -> Self {
        self.name = name.into();
        self
    }
}

/// Data, or where it lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum DataSource {
    /// The bytes, in base64.
    Base64 {
        /// The base64 text.
        data: String,
        /// The media type, such as `image/png`.
        media_type: Arc<str>,
    },
    /// An address.
    Url {
        /// The address.
        url: String,
        /// The media type, such as `image/png`.
        media_type: Arc<str>,
    },
}

impl DataSource {
    /// The first piece of some data.
    #[must_use]
    pub fn from_part(media_type: Arc<str>, part: &DataPart) -> Self {
        match part {
            DataPart::Base64(data) => Self::Base64 { data: data.clone(), media_type },
            DataPart::Url(url) => Self::Url { url: url.clone(), media_type },
        }
    }

    /// Appends a piece: base64 to base64, each piece padded on its own; an address replaces what was there.
    ///
    /// Linear in the piece, whatever was there before.
    pub fn append(&mut self, part: &DataPart) {
        match (self, part) {
            (Self::Base64 { data, .. }, DataPart::Base64(piece)) => crate::base64::append(data, piece),
            (Self::Url { url, .. }, DataPart::Url(new)) => url.clone_from(new),
            (this, part) => *this = Self::from_part(Arc::clone(this.media_type()), part),
        }
    }

    /// The media type, such as `image/png`.
    #[must_use]
    pub fn media_type(&self) -> &Arc<str> {
        match self {
            Self::Base64 { media_type, .. } | Self::Url { media_type, .. } => media_type,
        }
    }

    /// The data as one piece.
    #[must_use]
    pub fn to_part(&self) -> DataPart {
        match self {
            Self::Base64 { data, .. } => DataPart::Base64(data.clone()),
            Self::Url { url, .. } => DataPart::Url(url.clone()),
        }
    }
}

open_object! {
    /// A call that the model made.
    #[derive(Clone, Debug, PartialEq, Serialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ToolCallBlock"))]
    #[serde(tag = "type", rename = "tool_call")]
    #[non_exhaustive]
    pub struct ToolCallBlock {
        /// The call's id.
        pub id: ToolCallId,
        /// The tool's name.
        pub name: Arc<str>,
        /// The arguments as the model wrote them: JSON text, perhaps malformed.
        pub input: String,
        /// How far the call is.
        #[serde(default)]
        pub state: ToolCallState,
        /// Rules that a person may accept together with the call.
        #[serde(default)]
        pub suggested_rules: Vec<PermissionRule>,
        /// When it began.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub created_at: Option<Timestamp>,
        /// When it was complete.
        #[serde(default)]
        pub finished_at: Option<Timestamp>,
    }
}

impl ToolCallBlock {
    /// A call of a tool with arguments.
    pub fn new(id: impl Into<ToolCallId>, name: impl Into<Arc<str>>, input: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            input: input.into(),
            state: ToolCallState::Pending,
            suggested_rules: Vec::new(),
            created_at: None,
            finished_at: None,
            extra: Fields::default(),
        }
    }
}

/// How far a call is (agentscope, `ToolCallState`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolCallState {
    /// The model made it.
    #[default]
    Pending,
    /// A person was asked.
    Asking,
    /// It may run.
    Allowed,
    /// Somebody else was asked to run it.
    Submitted,
    /// It has a result.
    Finished,
}

/// A rule of what a tool may do without asking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PermissionRule {
    /// The tool's name.
    pub tool_name: String,
    /// What the rule speaks of, in the tool's own form.
    pub rule_content: Option<String>,
    /// What follows: `allow`, `deny`, `ask`, or another word.
    pub behavior: String,
    /// Who made the rule.
    pub source: String,
}

impl PermissionRule {
    /// A rule about all calls of a tool: what follows, and who made it.
    pub fn new(tool_name: impl Into<String>, behavior: impl Into<String>, source: impl Into<String>) -> Self {
        Self {
            tool_name: tool_name.into(),
            rule_content: None,
            behavior: behavior.into(),
            source: source.into(),
        }
    }

    /// What the rule speaks of, in the tool's own form.
    #[must_use]
    pub fn content(mut self, rule_content: Option<String>) -> Self {
        self.rule_content = rule_content;
        self
    }
}

open_object! {
    /// What a call came to.
    #[derive(Clone, Debug, PartialEq, Serialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ToolResultBlock"))]
    #[serde(tag = "type", rename = "tool_result")]
    #[non_exhaustive]
    pub struct ToolResultBlock {
        /// The call's id.
        pub id: ToolCallId,
        /// The tool's name.
        pub name: Arc<str>,
        /// Text and data for the model.
        pub output: TextOrBlocks,
        /// How it ended, or `Running`.
        #[serde(default = "running")]
        pub state: ToolResultState,
        /// The structured result for programs.
        #[serde(default)]
        pub metadata: Metadata,
        /// When it began.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub created_at: Option<Timestamp>,
        /// When it was complete.
        #[serde(default)]
        pub finished_at: Option<Timestamp>,
    }
}

fn running() -> ToolResultState {
    ToolResultState::Running
}

impl ToolResultBlock {
    /// The result of a call, still running and empty.
    pub fn new(id: impl Into<ToolCallId>, name: impl Into<Arc<str>>) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            output: TextOrBlocks::Blocks(Vec::new()),
            state: ToolResultState::Running,
            metadata: Metadata::default(),
            created_at: None,
            finished_at: None,
            extra: Fields::default(),
        }
    }
}

/// One text, or text and data blocks: what a tool gives, what a hint says.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "agentscope's union of a string and a list")]
pub enum TextOrBlocks {
    /// One text.
    Text(String),
    /// Text and data blocks.
    Blocks(Vec<ContentBlock>),
}

impl TextOrBlocks {
    /// The text, or that of all text blocks, one after another.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => blocks.iter().filter_map(ContentBlock::as_text).collect(),
        }
    }
}

impl Serialize for TextOrBlocks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Blocks(blocks) => blocks.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for TextOrBlocks {
    /// Reads from JSON text.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Json::deserialize(deserializer)?;
        let text = json.as_str();
        let read = if text.starts_with('"') {
            serde_json::from_str(text).map(Self::Text)
        } else {
            serde_json::from_str(text).map(Self::Blocks)
        };
        read.map_err(D::Error::custom)
    }
}

/// A block of a type that this crate does not know; kept unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OtherBlock {
    /// The block's `type`.
    pub block_type: String,
    /// Everything else in it.
    pub fields: Fields,
}
