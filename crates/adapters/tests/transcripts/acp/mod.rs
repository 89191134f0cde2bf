//! What the ACP adapter writes for each script, in both modes.

pub(crate) mod reader;
mod rules;

use anabranch_adapters::{Encode, acp::Acp, encode::JsonLines};
use anabranch_testkit::transcript;

use self::reader::Knows;
use crate::{played, scripts};

const MODES: [(Knows, &str); 2] = [(Knows::Cards, "cards"), (Knows::Sessions, "sessions")];

fn encoder(knows: Knows) -> impl Encode {
    JsonLines::new(match knows {
        Knows::Cards => Acp::cards("ses_0").permissions(true),
        Knows::Sessions => Acp::sessions("ses_0").permissions(true),
    })
}

#[test]
fn each_script_gives_its_updates() {
    for (name, script) in scripts::ALL {
        for (knows, mode) in MODES {
            let lines = transcript(encoder(knows), played(*script).events());
            insta::assert_snapshot!(format!("{name}__{mode}"), short(&lines));
            reader::check(&lines, knows);
        }
    }
}

/// The lines without what is the same in each of them.
fn short(lines: &str) -> String {
    lines
        .replace(r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"#, "{")
        .replace(r#","update":{"sessionUpdate":"#, " ")
}
