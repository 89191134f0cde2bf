//! agentscope's own events: the [flat spelling](anabranch_proto::flat) as frames.
//!
//! ```
//! # use anabranch_proto::{Event, EventId, Metadata, Scope, Timestamp, event::TextBlockDelta};
//! use anabranch_adapters::{Encode, agentscope::AgentScope, encode::Sse};
//!
//! # let event = Event::new(
//! #     EventId::new("1"), Timestamp::from_unix(0, 0), Scope::Root, Metadata::default(),
//! #     TextBlockDelta::new("reply", "block", "hello"),
//! # );
//! let mut bytes = Vec::new();
//! Sse::new(AgentScope).event(Some(7), &event, &mut bytes)?;
//! let text = String::from_utf8(bytes)?;
//! assert!(text.starts_with(r#"data: {"id":"1","created_at":"#) && text.ends_with("\nid: 7\n\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use anabranch_proto::{Event, flat::Flat};

use crate::Adapter;

/// One frame for each event, whoever's it is, in the spelling that agentscope 2 validates and rebuilds.
///
/// A child's frames name it as `metadata.subagent_id`. A client that does not route by that has to be given the root's
/// events alone.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "the flat spelling has no options and no state")]
pub struct AgentScope;

impl Adapter for AgentScope {
    type Frame<'a> = Flat<'a>;

    fn event(&mut self, event: &Event, out: &mut dyn for<'a> FnMut(Flat<'a>)) {
        out(Flat::new(event));
    }

    fn finish(&mut self, _out: &mut dyn for<'a> FnMut(Flat<'a>)) {}
}

#[cfg(test)]
mod tests {
    use anabranch_proto::{ChildScope, EventId, Metadata, Timestamp, event::TextBlockDelta, flat};

    use super::*;
    use crate::{Encode, encode::JsonLines};

    #[test]
    fn each_event_is_one_line_of_the_flat_spelling() {
        let event = Event::new(
            EventId::new("1"),
            Timestamp::from_unix(0, 0),
            ChildScope::new("ses_1", "ses_0", "sa_1", "n1").into(),
            Metadata::default().with("subagent_id", "sa_1"),
            TextBlockDelta::new("r", "b", "two\nlines"),
        );
        let (mut encoder, mut out) = (JsonLines::new(AgentScope), Vec::new());
        encoder.event(Some(7), &event, &mut out).unwrap();
        encoder.finish(&mut out).unwrap();
        let line = flat::to_string(&event).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("{line}\n"));
    }
}
