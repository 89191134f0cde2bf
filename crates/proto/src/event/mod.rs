//! Events: what happened, whose it is, when.

mod block;
mod confirm;
mod custom;
mod reply;
mod session;
mod tool;

pub use block::{
    DataBlockDelta, DataBlockEnd, DataBlockStart, DataPart, HintBlockEvent, TextBlockDelta, TextBlockEnd,
    TextBlockStart, ThinkingBlockDelta, ThinkingBlockEnd, ThinkingBlockStart,
};
pub use confirm::{
    ConfirmResult, ExternalExecutionResult, RequireExternalExecution, RequireUserConfirm, UserConfirmResult,
    UserInterrupt,
};
pub use custom::{Custom, Unknown};
pub use reply::{ExceedMaxIters, ModelCallEnd, ModelCallStart, ModelFinishedReason, ReplyEnd, ReplyStart};
pub use session::{MessageOrigin, SessionUpdated, SpawnSessionStart, StreamComplete, UserMessage};
pub use tool::{
    ToolCallDelta, ToolCallEnd, ToolCallStart, ToolResultDataDelta, ToolResultEnd, ToolResultStart,
    ToolResultTextDelta,
};

use serde::{Serializer, de::value::MapAccessDeserializer};

use crate::{
    EventId, Fields, Metadata, Scope, Stamp, Timestamp,
    ids::{HasIds, Ids},
    native::{as_written::Rest, payload as object},
};

/// Something that happened in a session.
///
/// Travels as `Arc<Event>` from birth: passing it on, at any depth, copies nothing.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// The event's id.
    pub id: EventId,
    /// When it was made.
    pub created_at: Timestamp,
    /// Whose event this is.
    pub scope: Scope,
    /// The application's metadata. Nothing is decided by it.
    pub metadata: Metadata,
    /// What happened.
    pub kind: EventKind,
    /// Fields that were read with the event and that its kind does not have; written back after its own.
    pub extra: Option<Box<Fields>>,
}

const _: () = assert!(size_of::<Event>() <= 128, "an event is at most two cache lines");
const _: () = assert!(size_of::<EventKind>() <= 64, "box the payload of a large kind");

impl Event {
    /// An event with everything given.
    pub fn new(
        id: impl Into<EventId>,
        created_at: Timestamp,
        scope: Scope,
        metadata: Metadata,
        kind: impl Into<EventKind>,
    ) -> Self {
        Self { id: id.into(), created_at, scope, metadata, kind: kind.into(), extra: None }
    }

    /// An event with a fresh id and the time now.
    pub fn stamped(stamp: &dyn Stamp, scope: Scope, metadata: Metadata, kind: impl Into<EventKind>) -> Self {
        let at = stamp.now();
        Self::new(stamp.event_id_at(at), at, scope, metadata, kind)
    }
}

/// Defines the payload of a kind: a struct with public fields, `new` with the required ones, a setter for each other.
///
/// Fields are written in this order, which is agentscope's where the kind is agentscope's.
macro_rules! payload {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$field_meta:meta])* $field:ident: $type:ty,)*
        }
        $(optional {
            $(
                $(#[doc = $option_doc:literal])*
                $(#[serde($($option_serde:tt)*)])?
                $option:ident: $option_type:ty = $default:expr,
            )*
        })?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
            $($(
                $(#[doc = $option_doc])*
                $(#[serde($($option_serde)*)])?
                pub $option: $option_type,
            )*)?
        }

        impl $name {
            #[doc = concat!("The required fields of [`", stringify!($name), "`].")]
            pub fn new($($field: impl Into<$type>),*) -> Self {
                Self { $($field: $field.into(),)* $($($option: $default,)*)? }
            }

            $($(
                $(#[doc = $option_doc])*
                #[must_use]
                pub fn $option(mut self, $option: impl Into<$option_type>) -> Self {
                    self.$option = $option.into();
                    self
                }
            )*)?
        }

        impl $crate::event::Payload for $name {
            const FIELDS: &'static [&'static str] =
                &[$(stringify!($field),)* $($(stringify!($option),)*)?];
        }

        impl $crate::ids::HasIds for $name {
            fn share_ids(&mut self, ids: &mut $crate::ids::Ids) {
                $(self.$field.share_ids(ids);)*
                $($(self.$option.share_ids(ids);)*)?
            }
        }
    };
}
pub(crate) use payload;

/// The payload of a kind of event.
pub(crate) trait Payload {
    /// The names of its fields on the wire; any other is [`Event::extra`].
    const FIELDS: &'static [&'static str];
}

impl<P: Payload> Payload for Box<P> {
    const FIELDS: &'static [&'static str] = P::FIELDS;
}

macro_rules! kinds {
    ($($(#[$meta:meta])* $kind:ident($($payload:tt)+) = $tag:literal;)*) => {
        /// What happened. Payloads over 56 bytes are boxed.
        ///
        /// Open: a match outside this workspace needs a `_` arm. Inside it every adapter answers for every kind.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum EventKind {
            $($(#[$meta])* $kind($($payload)+),)*
            /// A kind that this crate does not know; kept unchanged.
            Unknown(Box<Unknown>),
        }

        impl EventKind {
            /// The tags of all known kinds, in the order of the enum.
            pub const TAGS: &'static [&'static str] = &[$($tag),*];

            /// The kind's name on the wire, its `type`.
            #[must_use]
            pub fn tag(&self) -> &str {
                match self {
                    $(Self::$kind(_) => $tag,)*
                    Self::Unknown(unknown) => &unknown.kind,
                }
            }

            /// Writes the payload as the fields of an object that `wrap` has begun.
            pub(crate) fn serialize<S: Serializer>(
                &self,
                wrap: object::Wrap<'_>,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$kind(payload) => wrap.serialize(payload, serializer),)*
                    Self::Unknown(unknown) => wrap.serialize(&unknown.fields, serializer),
                }
            }

            /// Reads the payload of the kind `tag` from its fields, with the names of those that belong to it; for an
            /// unknown tag all do.
            pub(crate) fn read(
                tag: &str,
                fields: object::Pairs<'_>,
            ) -> Result<(Self, Option<&'static [&'static str]>), object::FieldError> {
                match tag {
                    $($tag => Ok((
                        Self::$kind(object::read(object::only(fields, <$($payload)+ as Payload>::FIELDS))?),
                        Some(<$($payload)+ as Payload>::FIELDS),
                    )),)*
                    _ => Ok((Unknown::new(tag, object::to_fields(fields)).into(), None)),
                }
            }

            /// Reads the payload of the kind `tag` from what is left of an object, with the fields that it does not have.
            pub(crate) fn read_rest<'de, A: ::serde::de::MapAccess<'de>>(
                tag: &str,
                map: A,
            ) -> Result<(Self, Fields), A::Error> {
                let mut extra = Fields::default();
                let kind = match tag {
                    $($tag => {
                        let rest = Rest::new(map, <$($payload)+ as Payload>::FIELDS, &mut extra);
                        Self::$kind(::serde::Deserialize::deserialize(MapAccessDeserializer::new(rest))?)
                    })*
                    _ => {
                        Rest::new(map, &[], &mut extra).keep()?;
                        Unknown::new(tag, std::mem::take(&mut extra)).into()
                    }
                };
                Ok((kind, extra))
            }

            /// Shares the payload's ids with earlier events.
            pub(crate) fn share_ids(&mut self, ids: &mut Ids) {
                match self {
                    $(Self::$kind(payload) => payload.share_ids(ids),)*
                    Self::Unknown(_) => {}
                }
            }

            /// The schemas of the payloads of all known kinds, each with its tag.
            #[cfg(feature = "schema")]
            pub(crate) fn schemas(
                generator: &mut schemars::SchemaGenerator,
            ) -> Vec<(&'static str, schemars::Schema)> {
                vec![$(($tag, <$($payload)+ as schemars::JsonSchema>::json_schema(generator)),)*]
            }
        }

        $(kinds!(@from $kind $($payload)+);)*

        impl From<Unknown> for EventKind {
            fn from(unknown: Unknown) -> Self {
                Self::Unknown(Box::new(unknown))
            }
        }
    };
    (@from $kind:ident Box<$payload:ident>) => {
        impl From<$payload> for EventKind {
            fn from(payload: $payload) -> Self {
                Self::$kind(Box::new(payload))
            }
        }
    };
    (@from $kind:ident $payload:ident) => {
        impl From<$payload> for EventKind {
            fn from(payload: $payload) -> Self {
                Self::$kind(payload)
            }
        }
    };
}

kinds! {
    /// A reply begins.
    ReplyStart(ReplyStart) = "REPLY_START";
    /// A reply ends.
    ReplyEnd(ReplyEnd) = "REPLY_END";
    /// A model is called.
    ModelCallStart(ModelCallStart) = "MODEL_CALL_START";
    /// A model call ends.
    ModelCallEnd(ModelCallEnd) = "MODEL_CALL_END";
    /// A block of text begins.
    TextBlockStart(TextBlockStart) = "TEXT_BLOCK_START";
    /// A piece of text.
    TextBlockDelta(TextBlockDelta) = "TEXT_BLOCK_DELTA";
    /// A block of text ends.
    TextBlockEnd(TextBlockEnd) = "TEXT_BLOCK_END";
    /// A block of thinking begins.
    ThinkingBlockStart(ThinkingBlockStart) = "THINKING_BLOCK_START";
    /// A piece of thinking.
    ThinkingBlockDelta(ThinkingBlockDelta) = "THINKING_BLOCK_DELTA";
    /// A block of thinking ends.
    ThinkingBlockEnd(ThinkingBlockEnd) = "THINKING_BLOCK_END";
    /// A block of data begins.
    DataBlockStart(Box<DataBlockStart>) = "DATA_BLOCK_START";
    /// A piece of data.
    DataBlockDelta(Box<DataBlockDelta>) = "DATA_BLOCK_DELTA";
    /// A block of data ends.
    DataBlockEnd(DataBlockEnd) = "DATA_BLOCK_END";
    /// Something is put before the model.
    HintBlock(Box<HintBlockEvent>) = "HINT_BLOCK";
    /// The model begins a tool call.
    ToolCallStart(ToolCallStart) = "TOOL_CALL_START";
    /// A piece of a call's arguments.
    ToolCallDelta(ToolCallDelta) = "TOOL_CALL_DELTA";
    /// A call's arguments are complete.
    ToolCallEnd(ToolCallEnd) = "TOOL_CALL_END";
    /// A tool begins to answer.
    ToolResultStart(ToolResultStart) = "TOOL_RESULT_START";
    /// A piece of a tool's text.
    ToolResultTextDelta(ToolResultTextDelta) = "TOOL_RESULT_TEXT_DELTA";
    /// A piece of a tool's data.
    ToolResultDataDelta(Box<ToolResultDataDelta>) = "TOOL_RESULT_DATA_DELTA";
    /// A tool's answer is complete.
    ToolResultEnd(ToolResultEnd) = "TOOL_RESULT_END";
    /// A person must allow calls.
    RequireUserConfirm(RequireUserConfirm) = "REQUIRE_USER_CONFIRM";
    /// Somebody else must run calls.
    RequireExternalExecution(RequireExternalExecution) = "REQUIRE_EXTERNAL_EXECUTION";
    /// A person answered.
    UserConfirmResult(UserConfirmResult) = "USER_CONFIRM_RESULT";
    /// A person stopped the reply.
    UserInterrupt(UserInterrupt) = "USER_INTERRUPT";
    /// Somebody else ran calls.
    ExternalExecutionResult(ExternalExecutionResult) = "EXTERNAL_EXECUTION_RESULT";
    /// The agent used all its model calls.
    ExceedMaxIters(ExceedMaxIters) = "EXCEED_MAX_ITERS";
    /// An application's own event.
    Custom(Custom) = "CUSTOM";
    /// A prompt. The first event of each run.
    UserMessage(Box<UserMessage>) = "USER_MESSAGE";
    /// A child session begins. In the parent's scope, before the child's first event.
    SpawnSessionStart(Box<SpawnSessionStart>) = "SPAWN_SESSION_START";
    /// Something was learnt of a child later. In the parent's scope.
    SessionUpdated(Box<SessionUpdated>) = "SESSION_UPDATED";
    /// A session's run ends. The last event of each run.
    StreamComplete(Box<StreamComplete>) = "STREAM_COMPLETE";
}
