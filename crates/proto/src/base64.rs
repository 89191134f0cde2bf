//! Base64 that comes in pieces.

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// Appends a piece of base64 that is padded on its own.
///
/// Where the text so far ends in padding, its last four characters and the piece are decoded and encoded again, so the
/// cost is the piece's. A piece that is no base64 is appended as it is: nothing is lost, and the reader sees the fault.
pub(crate) fn append(data: &mut String, piece: &str) {
    if data.ends_with('=')
        && let Some(end) = data.len().checked_sub(4)
        && let Some(tail) = data.get(end..)
        && let (Ok(mut bytes), Ok(more)) = (STANDARD.decode(tail), STANDARD.decode(piece))
    {
        bytes.extend(more);
        data.truncate(end);
        STANDARD.encode_string(bytes, data);
    } else {
        data.push_str(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_length_add_up() {
        let bytes: Vec<u8> = (0..=60).collect();
        for length in 1..=7 {
            let mut data = String::new();
            for piece in bytes.chunks(length) {
                append(&mut data, &STANDARD.encode(piece));
            }
            assert_eq!(STANDARD.decode(&data).unwrap(), bytes, "pieces of {length}");
        }
    }

    #[test]
    fn what_is_no_base64_is_kept() {
        let mut data = "aGk=".to_owned();
        append(&mut data, "!");
        assert_eq!(data, "aGk=!");
    }
}
