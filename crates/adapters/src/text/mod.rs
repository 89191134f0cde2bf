//! Lines for a terminal or a chat.
//!
//! The root's text passes as it comes. Everything of a child is whole lines with its name before them, so that
//! children who speak at the same time never share a line; where the root is in the middle of a line, a line break
//! comes first. What the root says is not ended by a line break until its run ends.
//!
//! | intent | what is shown |
//! |---|---|
//! | `OpenChild` | RFC-0014's line: 🚀, its name and its description for a sync child, ⚡ for the others |
//! | `UpdateChild` | `↻ name: description` where one of them changed and the child is at work |
//! | `CloseChild` | `■ completed (3 tool calls)`, or why it did not complete |
//! | `CloseRoot` | a line break where one is needed; `■` and why, where it did not complete |
//! | `Text` | the text |
//! | `Thought` | nothing, or with [`Text::thinking`] lines that begin with `· ` |
//! | `EndBlock` | the end of the line; the whole text where nothing of it was shown |
//! | `Data` | `◇ [image/png chart.png]` |
//! | `Prompt`, `Hint` | nothing, or with [`Text::prompts`] lines that begin with `» ` |
//! | `OpenCall`, `CallArguments` | nothing until the arguments are complete |
//! | `CallReady` | `→ tool(arguments)`, shortened |
//! | `AppendCall` | nothing until the result is complete |
//! | `CloseCall` | `✓ tool`, or `✗ tool: ` and the first line of what went wrong |
//! | `Ask`, `Answer` | `? tool needs a confirmation` and its like |
//! | `Custom` | nothing: only the application knows what it looks like |
//!
//! A child is named by its source's name; a second one of the same name is `n1·2`, a grandchild `n1/sub`, the second
//! run of a session `n1#2`.
//!
//! # What nobody can do
//! Nothing that an agent says can move the cursor, or look like another agent's line or like one that is no text. Control
//! characters, terminal escapes, characters that change the direction of writing and such as nobody sees become visible
//! symbols, wherever they stand; line breaks do in names, titles, arguments and errors. In a text they begin a line of the
//! same speaker. Where a line of text begins with one of the marks above, a space stands before it; and in what the root
//! says, which has no name before it, `│` becomes `|`. Tabs in texts stay, or become spaces where lines have a width.
//!
//! ```
//! use anabranch_adapters::{Encode, encode::Plain, text::Text};
//! # use anabranch_proto::{ChildScope, Event, EventId, Metadata, Scope, SpawnMechanism, Timestamp};
//! # use anabranch_proto::event::SpawnSessionStart;
//! # let event = Event::new(
//! #     EventId::new("1"), Timestamp::from_unix(0, 0), Scope::Root, Metadata::default(),
//! #     SpawnSessionStart::new(
//! #         &ChildScope::new("ses_1", "ses_0", "sa_1", "n1"), SpawnMechanism::Sync, "Run n1 task",
//! #     ),
//! # );
//! let mut out = Vec::new();
//! Plain::new(Text::new().thinking(true)).event(None, &event, &mut out)?;
//! assert_eq!(String::from_utf8(out)?, "\n🚀 **`n1`**: Run n1 task\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod call;
mod label;
mod lane;
mod lines;
mod page;
mod render;
mod stream;
mod width;

use anabranch_proto::Event;
use serde::Serialize;

use crate::{Adapter, encode::PlainFrame, intent::Intents};

/// The least columns of a line: a name has to fit, and what is said.
const LEAST_WIDTH: u16 = 32;

/// The adapter to lines of text.
#[derive(Clone, Debug, Default)]
pub struct Text {
    intents: Intents,
    screen: render::Screen,
}

impl Text {
    /// An adapter for a new stream: no thinking, no prompts, no colours.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether to show what the models think.
    #[must_use]
    pub fn thinking(mut self, shown: bool) -> Self {
        self.screen.thinking = shown;
        self
    }

    /// Whether to show what the agents are asked, and what is put before their models.
    #[must_use]
    pub fn prompts(mut self, shown: bool) -> Self {
        self.screen.prompts = shown;
        self
    }

    /// How many columns a line may have; by default any number. Longer ones go on in the next line. At least 32.
    ///
    /// Columns are Unicode's: wide characters take two, and none is cut from its marks. What the root says is
    /// shown a character later then, since one may get more marks.
    #[must_use]
    pub fn width(mut self, columns: u16) -> Self {
        self.screen.page.width = Some(usize::from(columns.max(LEAST_WIDTH)));
        self
    }

    /// Whether each child's name has a colour of its own, by ANSI escapes; for terminals.
    #[must_use]
    pub fn colours(mut self, shown: bool) -> Self {
        self.screen.colours = shown;
        self
    }
}

/// A piece of what is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "agent_message_chunk")]
#[non_exhaustive]
pub struct AgentMessageChunk<'a> {
    /// What is to be appended.
    pub text: &'a str,
}

impl PlainFrame for AgentMessageChunk<'_> {
    fn text(&self) -> &str {
        self.text
    }
}

impl Adapter for Text {
    type Frame<'a> = AgentMessageChunk<'a>;

    fn event(&mut self, event: &Event, out: &mut dyn for<'a> FnMut(AgentMessageChunk<'a>)) {
        let screen = &mut self.screen;
        self.intents.event(event, &mut |intent| {
            screen.show(intent, &mut |text| out(AgentMessageChunk { text }));
        });
    }

    fn finish(&mut self, out: &mut dyn for<'a> FnMut(AgentMessageChunk<'a>)) {
        self.screen.finish(&mut |text| out(AgentMessageChunk { text }));
    }
}
