//! A bound on how deep a line nests, so that no line can exhaust the stack.

use super::ReadError;

/// How deep objects and arrays may lie in each other, counting the line itself. It is `serde_json`'s own bound, which
/// does not see the values that are kept as text.
pub(crate) const MAX_NESTING: usize = 128;

/// Refuses a text whose brackets nest deeper than [`MAX_NESTING`].
///
/// Few lines have so many brackets at all, and counting them is quicker than following them.
pub(crate) fn check(text: &str) -> Result<(), ReadError> {
    if opening(text) > MAX_NESTING && depth(text) > MAX_NESTING {
        return Err(ReadError::TooDeep { max: MAX_NESTING });
    }
    Ok(())
}

/// How many brackets open. In pieces whose count fits a byte, which the compiler turns into wide instructions.
fn opening(text: &str) -> usize {
    // `{` and `[` differ in one bit.
    let is_opening = |byte: &u8| u8::from(byte & 0xDF == b'[');
    let pieces = text.as_bytes().chunks(usize::from(u8::MAX));
    pieces.map(|piece| usize::from(piece.iter().map(is_opening).sum::<u8>())).sum()
}

fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut in_string = false;
    let mut escaped = false;
    for byte in text.bytes() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_strings_and_side_by_side_are_not_nested() {
        assert_eq!(depth(r#"{"a":[[1],[2]],"b":"[[[[\"[["}"#), 3);
        let wide = format!("[{}{{}}]", "{},".repeat(1_000));
        assert_eq!(check(&wide), Ok(()));
        assert_eq!(opening(&wide), 1_002);
        let text = format!("[\"{}\"]", "[".repeat(1_000));
        assert_eq!(check(&text), Ok(()));
    }

    #[test]
    fn the_bound_is_the_deepest_that_is_accepted() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(check(&nested(MAX_NESTING)), Ok(()));
        assert_eq!(check(&nested(MAX_NESTING + 1)), Err(ReadError::TooDeep { max: MAX_NESTING }));
    }
}
