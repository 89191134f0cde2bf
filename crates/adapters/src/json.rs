//! JSON as `serde_json` writes it, with a wide look at each text for what has to be escaped.
//!
//! Most of what a frame costs is its texts: ids, names and pieces, few of which have anything to escape. What is unusual
//! here, such as a key that is no text, is written by `serde_json` itself; so is whatever has no spelling, for its error.

use std::fmt;

use serde::{
    Serialize, Serializer,
    ser::{self, Impossible},
};

/// Appends the value as JSON.
///
/// # Errors
/// When it has no spelling. `out` may then hold a part of it.
pub(crate) fn write(out: &mut Vec<u8>, value: &impl Serialize) -> serde_json::Result<()> {
    let start = out.len();
    if value.serialize(Writer { out }).is_ok() {
        return Ok(());
    }
    out.truncate(start);
    serde_json::to_writer(out, value)
}

/// Something that is left to `serde_json`.
#[derive(Debug)]
struct Unusual;

impl fmt::Display for Unusual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("left to serde_json")
    }
}

impl std::error::Error for Unusual {}

impl ser::Error for Unusual {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

type Written = Result<(), Unusual>;

/// Whether a text is written as it is.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    // The last piece overlaps the one before it, so that each is whole.
    if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        let (pieces, _) = bytes.as_chunks::<16>();
        let last = bytes.last_chunk::<16>().map_or(is_escaped(first) | is_escaped(last), is_escaped);
        return !pieces.iter().fold(last, |found, piece| found | is_escaped(piece));
    }
    !bytes.iter().fold(false, |found, byte| found | is_escaped(&[*byte]))
}

/// Whether one of the bytes is. Without an early end, so that the compiler looks at all of them at once.
fn is_escaped<const N: usize>(bytes: &[u8; N]) -> bool {
    let escaped = |byte: u8| u8::from(byte < 0x20) | u8::from(byte == b'"') | u8::from(byte == b'\\');
    bytes.iter().fold(0, |found, byte| found | escaped(*byte)) != 0
}

struct Writer<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> Writer<'o> {
    #[expect(clippy::unnecessary_wraps, reason = "what serde's methods return")]
    fn raw(self, text: &str) -> Written {
        self.out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn text(self, text: &str) -> Written {
        if is_plain(text) {
            self.out.reserve(text.len() + 2);
            self.out.push(b'"');
            self.out.extend_from_slice(text.as_bytes());
            self.out.push(b'"');
            return Ok(());
        }
        self.by_serde_json(text)
    }

    fn by_serde_json(self, value: &(impl Serialize + ?Sized)) -> Written {
        serde_json::to_writer(self.out, value).map_err(|_| Unusual)
    }

    fn compound(self, begin: &str, end: &'static str) -> Compound<'o> {
        self.out.extend_from_slice(begin.as_bytes());
        Compound { out: self.out, before: "", end }
    }

    fn variant(self, variant: &str) -> Result<Self, Unusual> {
        self.out.push(b'{');
        Writer { out: &mut *self.out }.text(variant)?;
        self.out.push(b':');
        Ok(self)
    }
}

/// Something of several parts.
struct Compound<'o> {
    out: &'o mut Vec<u8>,
    /// What stands before the next part.
    before: &'static str,
    end: &'static str,
}

impl Compound<'_> {
    fn next(&mut self) -> Writer<'_> {
        self.out.extend_from_slice(self.before.as_bytes());
        self.before = ",";
        Writer { out: &mut *self.out }
    }

    fn value(&mut self, value: &(impl Serialize + ?Sized)) -> Written {
        self.out.push(b':');
        value.serialize(Writer { out: &mut *self.out })
    }

    fn done(self) -> Written {
        Writer { out: self.out }.raw(self.end)
    }
}

/// What `serde_json` calls a struct whose only field is JSON already.
const RAW: &str = "$serde_json::private::RawValue";

/// An object, or text that is JSON already.
enum Object<'o> {
    Fields(Compound<'o>),
    Raw(&'o mut Vec<u8>),
}

macro_rules! by_serde_json {
    ($($name:ident: $type:ty;)*) => {
        $(fn $name(self, value: $type) -> Written {
            self.by_serde_json(&value)
        })*
    };
}

impl<'o> Serializer for Writer<'o> {
    type Ok = ();
    type Error = Unusual;
    type SerializeSeq = Compound<'o>;
    type SerializeTuple = Compound<'o>;
    type SerializeTupleStruct = Compound<'o>;
    type SerializeTupleVariant = Compound<'o>;
    type SerializeMap = Compound<'o>;
    type SerializeStruct = Object<'o>;
    type SerializeStructVariant = Object<'o>;

    by_serde_json! {
        serialize_i8: i8;
        serialize_i16: i16;
        serialize_i32: i32;
        serialize_i64: i64;
        serialize_i128: i128;
        serialize_u8: u8;
        serialize_u16: u16;
        serialize_u32: u32;
        serialize_u64: u64;
        serialize_u128: u128;
        serialize_f32: f32;
        serialize_f64: f64;
        serialize_char: char;
        serialize_bytes: &[u8];
    }

    fn serialize_bool(self, value: bool) -> Written {
        self.raw(if value { "true" } else { "false" })
    }

    fn serialize_str(self, text: &str) -> Written {
        self.text(text)
    }

    fn serialize_none(self) -> Written {
        self.raw("null")
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Written {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Written {
        self.raw("null")
    }

    fn serialize_unit_struct(self, _: &'static str) -> Written {
        self.raw("null")
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Written {
        self.text(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Written {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Written {
        let Writer { out } = self.variant(variant)?;
        value.serialize(Writer { out: &mut *out })?;
        Writer { out }.raw("}")
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Compound<'o>, Unusual> {
        Ok(self.compound("[", "]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Compound<'o>, Unusual> {
        Ok(self.compound("[", "]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Compound<'o>, Unusual> {
        Ok(self.compound("[", "]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'o>, Unusual> {
        Ok(self.variant(variant)?.compound("[", "]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Compound<'o>, Unusual> {
        Ok(self.compound("{", "}"))
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Object<'o>, Unusual> {
        match name {
            RAW => Ok(Object::Raw(self.out)),
            // Numbers of any length, where somebody has switched them on, and what else may come.
            _ if name.starts_with("$serde_json") => Err(Unusual),
            _ => Ok(Object::Fields(self.compound("{", "}"))),
        }
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Object<'o>, Unusual> {
        Ok(Object::Fields(self.variant(variant)?.compound("{", "}}")))
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Written {
        self.by_serde_json(&Shown(value))
    }
}

/// What is written by its `Display`; `serde_json` does so without a text between.
struct Shown<'a, T: ?Sized>(&'a T);

impl<T: fmt::Display + ?Sized> Serialize for Shown<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}

macro_rules! elements {
    ($($role:ident $add:ident;)*) => {
        $(impl ser::$role for Compound<'_> {
            type Ok = ();
            type Error = Unusual;

            fn $add<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
                value.serialize(self.next())
            }

            fn end(self) -> Written {
                self.done()
            }
        })*
    };
}

elements! {
    SerializeSeq serialize_element;
    SerializeTuple serialize_element;
    SerializeTupleStruct serialize_field;
    SerializeTupleVariant serialize_field;
}

impl ser::SerializeMap for Compound<'_> {
    type Ok = ();
    type Error = Unusual;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Written {
        key.serialize(Text { out: self.next().out, is_json: false })
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Written {
        self.value(value)
    }

    fn end(self) -> Written {
        self.done()
    }
}

macro_rules! fields {
    ($($role:ident)*) => {
        $(impl ser::$role for Object<'_> {
            type Ok = ();
            type Error = Unusual;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Written {
                match self {
                    Self::Fields(fields) => {
                        fields.next().text(key)?;
                        fields.value(value)
                    }
                    Self::Raw(out) => value.serialize(Text { out: &mut *out, is_json: true }),
                }
            }

            fn end(self) -> Written {
                match self {
                    Self::Fields(fields) => fields.done(),
                    Self::Raw(_) => Ok(()),
                }
            }
        })*
    };
}

fields! { SerializeStruct SerializeStructVariant }

/// Takes a text and nothing else: a key, or one that is JSON already.
struct Text<'o> {
    out: &'o mut Vec<u8>,
    is_json: bool,
}

macro_rules! unusual {
    ($($name:ident($($argument:ty),*) -> $of:ty;)*) => {
        $(fn $name(self, $(_: $argument),*) -> Result<$of, Unusual> {
            Err(Unusual)
        })*
    };
}

type No = Impossible<(), Unusual>;

impl Serializer for Text<'_> {
    type Ok = ();
    type Error = Unusual;
    type SerializeSeq = No;
    type SerializeTuple = No;
    type SerializeTupleStruct = No;
    type SerializeTupleVariant = No;
    type SerializeMap = No;
    type SerializeStruct = No;
    type SerializeStructVariant = No;

    fn serialize_str(self, text: &str) -> Written {
        let writer = Writer { out: self.out };
        if self.is_json { writer.raw(text) } else { writer.text(text) }
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Written {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Written {
        value.serialize(self)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Written {
        Err(Unusual)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Written {
        Err(Unusual)
    }

    unusual! {
        serialize_bool(bool) -> ();
        serialize_i8(i8) -> ();
        serialize_i16(i16) -> ();
        serialize_i32(i32) -> ();
        serialize_i64(i64) -> ();
        serialize_i128(i128) -> ();
        serialize_u8(u8) -> ();
        serialize_u16(u16) -> ();
        serialize_u32(u32) -> ();
        serialize_u64(u64) -> ();
        serialize_u128(u128) -> ();
        serialize_f32(f32) -> ();
        serialize_f64(f64) -> ();
        serialize_char(char) -> ();
        serialize_bytes(&[u8]) -> ();
        serialize_none() -> ();
        serialize_unit() -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_seq(Option<usize>) -> No;
        serialize_tuple(usize) -> No;
        serialize_tuple_struct(&'static str, usize) -> No;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> No;
        serialize_map(Option<usize>) -> No;
        serialize_struct(&'static str, usize) -> No;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> No;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use anabranch_proto::{
        Json,
        flat::Flat,
        native::{Native, Reader},
    };
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Clone, Debug, Serialize)]
    struct Unit;

    #[derive(Clone, Debug, Serialize)]
    enum Shape {
        Unit,
        New(Option<u8>),
        Tuple(char, f64),
        Fields { r#type: String, none: Option<()>, bytes: (i128, f32, Unit) },
    }

    #[derive(Clone, Debug, Serialize)]
    #[serde(tag = "type")]
    enum Tagged {
        One {
            #[serde(flatten)]
            more: BTreeMap<String, Value>,
        },
    }

    #[track_caller]
    fn alike(value: &impl Serialize) {
        let mut ours = b"before".to_vec();
        write(&mut ours, value).unwrap();
        let theirs = serde_json::to_string(value).unwrap();
        assert_eq!(std::str::from_utf8(&ours).unwrap(), format!("before{theirs}"));
    }

    #[test]
    fn every_shape_is_written_as_serde_json_writes_it() {
        let fields = Shape::Fields { r#type: "a\"\u{1}".into(), none: None, bytes: (-1, 1.5, Unit) };
        let shapes =
            [Shape::Unit, Shape::New(Some(1)), Shape::New(None), Shape::Tuple('"', f64::NAN), fields];
        alike(&shapes);
        alike(&shapes.clone().map(|shape| HashMap::from([("a key", shape)])));
        // Keys that are no texts.
        alike(&BTreeMap::from([(1, "one"), (2, "two")]));
        alike(&BTreeMap::from([(true, Vec::<u64>::new())]));
        alike(&BTreeMap::from([('"', Some(()))]));
        alike(&Tagged::One { more: BTreeMap::from([("b\n".to_owned(), json!([1, -2.5e300, {}]))]) });
        alike(&Json::parse(r#"{"a":[1e2,123456789012345678901234567890,"\u00fc"]}"#).unwrap());
        alike(&(String::from("x"), Some(Some(3_u16)), (), i64::MIN, u64::MAX));
        alike(&format_args!("{}\t", "shown"));
    }

    #[test]
    fn what_has_no_spelling_has_serde_jsons_error() {
        let bad = [HashMap::from([((1, 2), 3)])];
        let theirs = serde_json::to_string(&bad).unwrap_err().to_string();
        assert_eq!(write(&mut Vec::new(), &bad).unwrap_err().to_string(), theirs);
    }

    #[test]
    fn every_event_is_written_as_serde_json_writes_it() {
        let samples = include_str!("../../proto/tests/data/agentscope/samples.jsonl").lines();
        let demo = include_str!("../../proto/tests/data/demo/nested.jsonl").lines();
        let mut reader = Reader::default();
        let mut written = 0;
        for line in samples.chain(demo) {
            let event = reader.read(line).unwrap().event;
            alike(&Native::new(Some(7), &event));
            alike(&Flat::new(&event));
            written += 1;
        }
        assert!(written > 100, "{written}");
    }

    #[test]
    fn what_is_escaped_is_found_wherever_it_is() {
        for length in 0..50 {
            let plain = "a".repeat(length);
            assert!(is_plain(&plain));
            for (at, bad) in (0..length).flat_map(|at| ["\"", "\\", "\u{1f}", "\0"].map(|bad| (at, bad))) {
                let mut text = plain.clone();
                text.replace_range(at..=at, bad);
                assert!(!is_plain(&text), "{text:?}");
                alike(&text);
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_is_escaped_alike(text in any::<String>(), ascii in "[\\x00-\\x7f]{0,40}") {
            alike(&BTreeMap::from([(&text, &ascii), (&ascii, &text)]));
        }
    }
}
