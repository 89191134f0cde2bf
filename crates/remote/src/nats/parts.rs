//! Events in messages: a broker bounds a message, an event may be larger.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};

/// How many bytes an event may have, and all together that wait for their parts.
pub(super) const LARGEST: usize = 64 * 1024 * 1024;

/// How many events may wait for their parts.
const OPEN: usize = 64;

/// Which part of an event a message is: from 1, of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) index: u32,
    pub(super) of: u32,
}

impl Part {
    /// As it stands in a header.
    pub(super) fn to_header(self) -> String {
        format!("{}/{}", self.index, self.of)
    }

    /// From a header.
    pub(super) fn read(header: &str) -> Option<Self> {
        let (index, of) = header.split_once('/')?;
        let part = Self { index: index.parse().ok()?, of: of.parse().ok()? };
        (1 <= part.index && part.index <= part.of).then_some(part)
    }
}

/// Cuts an event into messages of so many bytes; none where it is too large for any number of them.
pub(super) fn cut(event: &Bytes, size: usize) -> Option<Vec<(Part, Bytes)>> {
    if event.len() > LARGEST {
        return None;
    }
    let size = size.max(1);
    let of = u32::try_from(event.len().div_ceil(size).max(1)).ok()?;
    let part = |index: u32| {
        let start = (index as usize - 1) * size;
        (Part { index, of }, event.slice(start..event.len().min(start + size)))
    };
    Some((1..=of).map(part).collect())
}

/// Puts events together again, in whatever order their parts come.
#[derive(Debug, Default)]
pub(super) struct Parts {
    open: HashMap<u64, Vec<Option<Bytes>>>,
    bytes: usize,
}

/// Parts that are no parts, or of more than may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadPart;

impl Parts {
    /// Takes a part of the event of this number; gives the event when it is whole.
    pub(super) fn take(&mut self, number: u64, part: Part, bytes: Bytes) -> Result<Option<Bytes>, BadPart> {
        if part.of == 1 {
            return Ok(Some(bytes));
        }
        let of = part.of as usize;
        // No part is empty, so this bounds what is made room for.
        if of > LARGEST / 64 || (self.open.len() >= OPEN && !self.open.contains_key(&number)) {
            return Err(BadPart);
        }
        let parts = self.open.entry(number).or_insert_with(|| vec![None; of]);
        if parts.len() != of {
            return Err(BadPart);
        }
        let place = parts.get_mut(part.index as usize - 1).ok_or(BadPart)?;
        if place.is_some() {
            return Ok(None);
        }
        self.bytes += bytes.len();
        *place = Some(bytes);
        if self.bytes > LARGEST {
            return Err(BadPart);
        }
        if parts.iter().any(Option::is_none) {
            return Ok(None);
        }
        let mut whole = BytesMut::new();
        for part in self.open.remove(&number).into_iter().flatten().flatten() {
            self.bytes -= part.len();
            whole.extend_from_slice(&part);
        }
        Ok(Some(whole.freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_any_size_is_put_together_from_parts_in_any_order() {
        for length in [0, 1, 9, 10, 11, 95] {
            let event: Bytes = (0..length).map(|byte: u8| byte).collect::<Vec<_>>().into();
            let mut cut = cut(&event, 10).unwrap();
            assert_eq!(cut.len(), usize::from(length).div_ceil(10).max(1));
            cut.reverse();
            let mut parts = Parts::default();
            let mut whole = Vec::new();
            for (part, bytes) in cut {
                let part = Part::read(&part.to_header()).unwrap();
                whole.extend(parts.take(7, part, bytes.clone()).unwrap());
                if whole.is_empty() {
                    // What comes twice changes nothing.
                    assert_eq!(parts.take(7, part, bytes), Ok(None));
                }
            }
            assert_eq!(whole, [event]);
            assert_eq!((parts.bytes, parts.open.len()), (0, 0));
        }
    }

    #[test]
    fn what_waits_is_bounded_and_nonsense_is_refused() {
        assert_eq!(cut(&Bytes::from(vec![0; LARGEST + 1]), 1_000_000), None);
        for header in ["", "1", "0/1", "2/1", "a/b", "1/2/3", "-1/2"] {
            assert_eq!(Part::read(header), None, "{header}");
        }
        let part = |index, of| Part { index, of };
        let mut parts = Parts::default();
        parts.take(1, part(1, 2), Bytes::from_static(b"a")).unwrap();
        assert_eq!(parts.take(1, part(2, 3), Bytes::from_static(b"b")), Err(BadPart));
        assert_eq!(parts.take(2, part(1, u32::MAX), Bytes::from_static(b"b")), Err(BadPart));
        let many = (2..100).map(|number| parts.take(number, part(1, 2), Bytes::from_static(b"a")));
        assert_eq!(many.filter(Result::is_err).count(), 98 - (OPEN - 1));
        let large = Bytes::from(vec![0; LARGEST]);
        assert_eq!(Parts::default().take(1, part(1, 2), large.clone()), Ok(None));
        assert_eq!(parts.take(1, part(2, 2), large), Err(BadPart));
    }
}
