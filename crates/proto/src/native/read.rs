//! Reading the native spelling, and RFC-0014's.

use std::{collections::HashMap, fmt, sync::Arc};

use super::{
    ReadError, as_written, nesting,
    object::{Object, absent_if_null},
    payload, rfc,
    shared::Shared,
};
use crate::{
    ChildScope, Event, EventId, EventKind, Fields, Metadata, Scope, SessionId, Stamp, Timestamp,
    ids::{HasIds as _, Ids},
};

/// How many wrappers an event may lie in; each is read again for each that it lies in.
const MAX_WRAPPERS: u32 = 64;

/// An event that was read, with its number where the line has one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Line {
    /// The event's number in its session's stream.
    pub seq: Option<u64>,
    /// The event.
    pub event: Event,
}

/// Reads lines of one stream.
///
/// Remembers the scopes that it has read, so that the events of one run share theirs. Its memory grows with the number
/// of runs in the stream, not with its events. Equal metadata is shared too, and so are the ids that successive events
/// repeat.
///
/// `Reader::default()` refuses an event without an id or a time. [`Reader::new`] gives it fresh ones, which events in
/// RFC-0014's spelling need: they have neither. The [module's page](super) says how that spelling is read.
#[derive(Default)]
pub struct Reader {
    scopes: HashMap<(SessionId, u32), Arc<ChildScope>>,
    /// The scopes by the text around the events of a run, which is the same for all of them.
    wrappers: Shared<Arc<ChildScope>>,
    metadata: Shared<Metadata>,
    ids: Ids,
    stamp: Option<Arc<dyn Stamp>>,
}

impl Reader {
    /// A reader that gives ids and times to events that have none.
    pub fn new(stamp: Arc<dyn Stamp>) -> Self {
        Self { stamp: Some(stamp), ..Self::default() }
    }

    /// Reads one event from one JSON object.
    ///
    /// # Errors
    /// When the text is not one JSON object, or a known kind of event has a field that is missing or of the wrong
    /// type. The reader can go on with the next line.
    pub fn read(&mut self, text: &str) -> Result<Line, ReadError> {
        nesting::check(text)?;
        match self.read_as_written(text) {
            Some(line) => Ok(line),
            None => self.read_any(text),
        }
    }

    /// Reads a line that is spelt as we write it. A child's is known by what stood around an event before.
    fn read_as_written(&mut self, text: &str) -> Option<Line> {
        let (seq, scope, read) = if let Some(child) = as_written::Child::of(text) {
            let (scope, event) = child.known(&mut self.wrappers)?;
            let read = as_written::event(event, &mut self.metadata)?;
            // An event in a line has no number of its own, so one that is there is just a field.
            if read.seq.is_some() {
                return None;
            }
            (child.seq, Scope::Child(scope), read)
        } else {
            let read = as_written::event(text, &mut self.metadata)?;
            (read.seq, Scope::Root, read)
        };
        let mut kind = read.kind;
        kind.share_ids(&mut self.ids);
        Some(Line { seq, event: assembled(read.id, read.created_at, scope, read.metadata, kind, read.extra) })
    }

    /// Reads any line.
    fn read_any(&mut self, text: &str) -> Result<Line, ReadError> {
        let mut object = Object::parse(text)?;
        let seq = object.take_optional("seq", "the line")?;
        let mut scope: Option<Arc<ChildScope>> = None;
        let mut of = "the line";
        // What is around the event, where that is spelt as we write it.
        let mut wrapper = None;
        for level in 0..=MAX_WRAPPERS {
            let tag = Tag::take(&mut object, of)?;
            let name = match &tag {
                Tag::Native(tag) if tag == "SUB_AGENT" => "SUB_AGENT",
                Tag::Rfc(kind) if kind == rfc::WRAPPER => rfc::WRAPPER,
                Tag::Native(_) | Tag::Rfc(_) => {
                    let event = self.event(object, &tag, scope.map_or(Scope::Root, Scope::Child))?;
                    if let (Scope::Child(scope), Some(wrapper)) = (&event.scope, wrapper) {
                        self.wrappers.learn(wrapper, scope);
                    }
                    return Ok(Line { seq, event });
                }
            };
            let is_last = object.last("event").is_some();
            // Taken out first: what is read for the scope is not to pass over all of it.
            let inner = object.take_raw("event").ok_or_else(|| ReadError::missing(name, "event"))?;
            let is_only = object.get("event").is_none() && object.get("seq").is_none();
            wrapper = as_written::Child::of(text)
                .filter(|child| level == 0 && is_last && is_only && child.seq == seq)
                .and_then(|child| child.wrapper(inner.get()));
            scope = Some(self.scope(&object, &tag, level)?);
            object = Object::parse(inner.get())?;
            of = if name == rfc::WRAPPER { "the event in subagent" } else { "the event in SUB_AGENT" };
        }
        Err(ReadError::field(of, format_args!("wrapped more than {MAX_WRAPPERS} times")))
    }

    /// The scope that a wrapper states, in this many others.
    fn scope(&mut self, wrapper: &Object<'_>, tag: &Tag, level: u32) -> Result<Arc<ChildScope>, ReadError> {
        let mut wrappers = std::mem::take(&mut self.wrappers);
        let mut text = format!("{level}\0{}\0", tag.as_str());
        wrapper.write_to(&mut text);
        let scope = wrappers.get_or_read(&text, || {
            let mut scope: ChildScope = match tag {
                Tag::Native(tag) => {
                    let mut fields = wrapper.borrowed();
                    absent_if_null(&mut fields, "run");
                    payload::read(fields).map_err(|error| ReadError::field(tag, error))?
                }
                Tag::Rfc(_) => rfc::scope(wrapper)?,
            };
            if level > 0 {
                // A wrapper in a wrapper may not know how deep it lies.
                scope.depth = scope.depth.max(level + 1);
            }
            Ok(self.intern(scope))
        });
        self.wrappers = wrappers;
        scope
    }

    fn intern(&mut self, mut scope: ChildScope) -> Arc<ChildScope> {
        let key = (scope.child_session_id.clone(), scope.run);
        match self.scopes.get(&key) {
            Some(known) if **known == scope => Arc::clone(known),
            Some(_) | None => {
                scope.share_ids(&mut self.ids);
                let scope = Arc::new(scope);
                self.scopes.insert(key, Arc::clone(&scope));
                scope
            }
        }
    }

    fn event(&mut self, mut object: Object<'_>, tag: &Tag, scope: Scope) -> Result<Event, ReadError> {
        let of = tag.as_str();
        let id = self.stamped("id", object.take_optional("id", of)?, of, |stamp| stamp.event_id())?;
        let created_at =
            self.stamped("created_at", object.take_optional("created_at", of)?, of, |stamp| stamp.now())?;
        let (metadata, (mut kind, extra)) = match tag {
            Tag::Native(tag) => (object.take_metadata(tag, &mut self.metadata)?, object.payload(tag)?),
            Tag::Rfc(kind) => {
                let child = scope.child().map(|child| &**child);
                rfc::read(kind, object, child, self.stamp.as_deref(), &mut self.metadata)?
            }
        };
        kind.share_ids(&mut self.ids);
        Ok(assembled(id, created_at, scope, metadata, kind, extra))
    }

    /// What was read, or a fresh one.
    fn stamped<T>(
        &self,
        name: &str,
        read: Option<T>,
        of: &str,
        fresh: impl FnOnce(&dyn Stamp) -> T,
    ) -> Result<T, ReadError> {
        match (read, &self.stamp) {
            (Some(read), _) => Ok(read),
            (None, Some(stamp)) => Ok(fresh(&**stamp)),
            (None, None) => Err(ReadError::field(
                of,
                format_args!("field `{name}`: missing; `Reader::new` gives a fresh one to each such event"),
            )),
        }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("scopes", &self.scopes)
            .field("stamps", &self.stamp.is_some())
            .finish_non_exhaustive()
    }
}

pub(crate) fn assembled(
    id: EventId,
    created_at: Timestamp,
    scope: Scope,
    metadata: Metadata,
    kind: EventKind,
    extra: Fields,
) -> Event {
    let mut event = Event::new(id, created_at, scope, metadata, kind);
    if !extra.is_empty() {
        event.extra = Some(Box::new(extra));
    }
    event
}

/// What an event calls itself, and in which spelling.
enum Tag {
    Native(String),
    Rfc(String),
}

impl Tag {
    fn take(object: &mut Object<'_>, of: &str) -> Result<Self, ReadError> {
        match object.take_optional("type", of)? {
            Some(tag) => Ok(Self::Native(tag)),
            None => match object.take_optional("event_kind", of)? {
                Some(kind) => Ok(Self::Rfc(kind)),
                None => Err(ReadError::missing(of, "type")),
            },
        }
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Native(tag) | Self::Rfc(tag) => tag,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, sample::Index};

    use super::*;

    const DEMO: [&str; 2] =
        [include_str!("../../tests/data/demo/nested.jsonl"), include_str!("../../tests/data/demo/fan.jsonl")];
    const SAMPLES: &str = include_str!("../../tests/data/agentscope/samples.jsonl");

    /// What can come between two fields, or in the place of one.
    const INSERTED: &[&str] = &[
        r#""seq":7,"#,
        r#""seq":null,"#,
        r#""seq":07,"#,
        r#""type":"SUB_AGENT","#,
        r#""type":"TEXT_BLOCK_DELTA","#,
        r#""type":"NEW_KIND","#,
        r#""event_kind":"subagent","#,
        r#""event":{"id":"e"},"#,
        r#""event":{"id":"e","created_at":"2026-11-30T10:00:00Z","metadata":{},"type":"NEW_KIND"},"#,
        r#""metadata":{"a":1e2},"#,
        r#""metadata":null,"#,
        r#""id":"other","#,
        r#""created_at":"2026-11-30T10:00:00Z","#,
        r#""later":{"event":{"z":[1.50]}},"#,
        r#""\u006cater":1,"#,
        r#""response":null,"#,
        r#""run":2,"#,
        r#""run":null,"#,
        " \t",
        "}",
        "{",
        ",",
        "\\",
    ];

    fn lines() -> Vec<String> {
        let samples = SAMPLES.lines().map(str::to_owned);
        let demo = DEMO.iter().flat_map(|stream| stream.lines());
        let numbered = (1..)
            .zip(demo.clone())
            .map(|(seq, line)| format!("{{\"seq\":{seq},{}", line.trim_start_matches('{')));
        samples.chain(numbered).chain(demo.map(str::to_owned)).collect()
    }

    #[test]
    fn what_we_write_is_read_in_one_pass() {
        let mut reader = Reader::default();
        let (mut quick, mut all) = (0, 0);
        for line in DEMO.iter().flat_map(|stream| stream.lines()) {
            all += 1;
            match reader.read_as_written(line) {
                Some(_) => quick += 1,
                None => assert!(reader.read_any(line).is_ok(), "{line}"),
            }
        }
        // The first event of each child's run says how the others look.
        assert!(all > 200 && all - quick == reader.scopes.len(), "{quick} of {all}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

        /// Both ways read a line alike, whatever was read before it and however it is spelt.
        #[test]
        fn a_line_is_read_alike_either_way(
            edits in prop::collection::vec(
                (any::<Index>(), any::<Index>(), prop::sample::select(INSERTED), any::<bool>()), 1..12,
            ),
        ) {
            let lines = lines();
            let (mut either, mut general) = (Reader::default(), Reader::default());
            for (line, at, inserted, instead) in edits {
                let line = line.get(&lines);
                let commas: Vec<_> = line.match_indices([',', '{', '}']).map(|(at, _)| at).collect();
                let at = *at.get(&commas) + 1;
                let next = commas.iter().find(|comma| **comma >= at).map_or(line.len(), |comma| comma + 1);
                let rest = if instead { next } else { at };
                let edited = format!("{}{inserted}{}", &line[..at], &line[rest..]);
                // As it is, edited, edited again now that it is known, and as it is.
                for text in [line, &edited, &edited, line] {
                    let read = either.read(text);
                    let expected = match nesting::check(text) {
                        Ok(()) => general.read_any(text),
                        Err(error) => Err(error),
                    };
                    prop_assert_eq!(&read, &expected, "{}", text);
                }
            }
        }
    }
}
