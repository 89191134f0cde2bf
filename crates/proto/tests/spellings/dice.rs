//! Repeatable chance: the same seed gives the same stream.

use anabranch_proto::{Json, Metadata};

/// Numbers that look random (splitmix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to `sides - 1`.
    pub(crate) fn below(&mut self, sides: usize) -> usize {
        usize::try_from(self.roll() % sides as u64).unwrap()
    }

    pub(crate) fn one_in(&mut self, sides: usize) -> bool {
        self.below(sides) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub(crate) fn text(&mut self) -> String {
        if self.one_in(2_000) {
            return self.pick(&["x", "ü", "\u{1F680}", "\""]).repeat(1 << 20);
        }
        self.pick(&["", "hello", "a\n\"ü\u{1F680}\\", "\u{0}\u{7f}\u{2028}", "{\"a\":", " ", "\u{10FFFF}"])
            .to_owned()
    }

    /// An id that nobody else has, and that looks like anything.
    pub(crate) fn id(&mut self, unique: &mut u64) -> String {
        *unique += 1;
        let odd =
            self.pick(&["", "ses_", "\"", "\\u0061", "ü ", "null", "{\n", "01JDXA0000000000000000000A"]);
        format!("{odd}{unique}")
    }

    pub(crate) fn json(&mut self) -> Json {
        let text = self.pick(&[
            "null",
            "true",
            "1e2",
            "-0.10",
            "123456789012345678901234567890",
            r#""a \u0061 ü""#,
            "[]",
            "{}",
            r#"{"b":[1.50,null],"a":{"x":1e400}}"#,
            r#"{"value":1}"#,
            r#"{"metadata":{}}"#,
            r#"[{"a":1,"a":2}]"#,
        ]);
        Json::parse(text).unwrap()
    }

    /// Metadata, now and then with keys that the flat spelling uses itself.
    pub(crate) fn metadata(&mut self, subagent_id: Option<&str>) -> Metadata {
        let mut metadata = Metadata::default();
        let routes = |metadata: Metadata| match subagent_id {
            Some(id) => metadata.with("subagent_id", id),
            None => metadata,
        };
        if self.one_in(2) {
            metadata = routes(metadata);
        }
        for _ in 0..self.below(4) {
            let value = self.json();
            let key = self.pick(&["node_id", "tenant", "", "ü\"", "anabranch", "metadata", "type"]);
            metadata = metadata.with_json(key, value);
        }
        match self.below(12) {
            0 => metadata.with("subagent_id", "sa_of_nobody"),
            1 => metadata.with_json("subagent_id", self.json()),
            2 => metadata.with_json("tool_response", self.json()),
            3 => routes(metadata),
            _ => metadata,
        }
    }
}
