//! From intents to text.

use std::{collections::BTreeMap, sync::Arc};

use anabranch_proto::{
    Outcome, SessionId, SpawnMechanism,
    event::{StreamComplete, UserMessage},
};
use foldhash::HashMap;

use super::{
    call::{self, LONGEST_PROBLEM},
    label::Labels,
    lane::Lane,
    page::{Out, Page, mark},
    stream::Stream,
    width::shortened,
};
use crate::{
    intent::{Asked, BlockKind, Child, CloseChild, EndBlock, Intent, Piece, Speaker, UpdateChild},
    sanitize,
};

/// Everything that is shown.
#[derive(Clone, Debug, Default)]
pub(super) struct Screen {
    pub(super) thinking: bool,
    pub(super) prompts: bool,
    pub(super) colours: bool,
    pub(super) page: Page,
    labels: Labels,
    root: Lane,
    root_text: Stream,
    /// The children at work by the ids of their cards, in an order that is the same each time.
    children: BTreeMap<Arc<str>, Lane>,
    /// The card of each session at work.
    cards: HashMap<SessionId, Arc<str>>,
}

impl Screen {
    pub(super) fn show(&mut self, intent: Intent<'_>, out: &mut Out<'_>) {
        match intent {
            Intent::OpenChild(child) => self.open_child(child, out),
            Intent::UpdateChild(update) => self.update_child(update, out),
            Intent::CloseChild(close) => self.close_child(close, out),
            Intent::CloseRoot(complete) => self.close_root(complete, out),
            Intent::Text(piece) => self.say(piece, out),
            Intent::Thought(piece) => self.think(piece, out),
            Intent::EndBlock(end) => self.end_block(end, out),
            Intent::Data(data) => {
                let name = data.start.name.as_deref().map(|name| format!(" {name}"));
                let text = format!("[{}{}]", data.start.media_type, name.unwrap_or_default());
                self.line(data.speaker, mark::DATA, &sanitize::line(&text), out);
            }
            Intent::Hint(hint) if self.prompts => {
                let source = hint.hint.source.as_deref().map(|source| format!("{source}: "));
                let text = format!("{}{}", source.unwrap_or_default(), hint.hint.hint.text());
                self.quote(hint.speaker, &text, out);
            }
            Intent::Prompt(prompt) if self.prompts => {
                self.quote(prompt.speaker, &text_of(prompt.message), out);
            }
            Intent::OpenCall(call) => {
                if let Some((lane, _)) = self.lane(call.speaker) {
                    lane.call_count += 1;
                    lane.calls.insert(Arc::clone(call.id), call::CallLine::default());
                }
            }
            Intent::CallArguments(piece) => {
                if let Some(call) = self.call(piece.call) {
                    call.arguments.push(piece.text);
                }
            }
            Intent::CallReady(call) => {
                if let Some(text) = self.call(call).map(|line| line.with_arguments(call.name)) {
                    self.line(call.speaker, mark::CALL, &text, out);
                }
            }
            Intent::AppendCall(piece) => {
                if let Some(call) = self.call(piece.call) {
                    call.output.push(piece.text);
                }
            }
            Intent::Ask(ask) => {
                let needs = match ask.asked {
                    Asked::Person => "needs a confirmation",
                    Asked::Executor => "is to be run elsewhere",
                };
                let text = format!("{} {needs}", call::tool(ask.call.name));
                self.line(ask.call.speaker, mark::ASKED, &text, out);
            }
            Intent::Answer(answer) => {
                let came = match (answer.asked, answer.allowed) {
                    (Asked::Person, true) => "was confirmed",
                    (Asked::Person, false) => "was refused",
                    (Asked::Executor, _) => "was run elsewhere",
                };
                let text = format!("{} {came}", call::tool(answer.call.name));
                self.line(answer.call.speaker, mark::ASKED, &text, out);
            }
            Intent::CloseCall(close) => {
                let line =
                    self.lane(close.call.speaker).and_then(|(lane, _)| lane.calls.remove(close.call.id));
                let (mark, text) = line.unwrap_or_default().ended(close.call.name, close.end.state);
                self.line(close.call.speaker, mark, &text, out);
            }
            // Hidden unless asked for, and what only the application can show.
            Intent::Hint(_) | Intent::Prompt(_) | Intent::Custom(_) => {}
        }
    }

    /// Shows what was begun and not completed.
    pub(super) fn finish(&mut self, out: &mut Out<'_>) {
        self.end_root_text(out);
        self.root.flush(&mut self.page, out);
        for lane in self.children.values_mut() {
            lane.flush(&mut self.page, out);
        }
    }

    fn open_child(&mut self, child: &Child, out: &mut Out<'_>) {
        // What the parent said before comes before.
        let parent = self.cards.get(&child.parent);
        let parent = parent.and_then(|card| self.children.get_mut(card));
        parent.unwrap_or(&mut self.root).flush(&mut self.page, out);
        let icon = if child.mechanism == SpawnMechanism::Sync { mark::SYNC } else { mark::BACKGROUND };
        // A backtick would end the name's span; this one looks like it.
        let name = sanitize::line(&child.name).replace('`', "ˋ");
        let description = sanitize::line(&child.description);
        self.page.announce(icon, &format!("**`{name}`**: {description}"), out);
        let prefix = self.labels.prefix(child, self.colours, self.page.width);
        self.children.insert(Arc::clone(&child.card), Lane::new(prefix));
        self.cards.insert(child.session.clone(), Arc::clone(&child.card));
    }

    fn update_child(&mut self, UpdateChild { child, update }: UpdateChild<'_>, out: &mut Out<'_>) {
        let Some(lane) = self.children.get_mut(&child.card) else {
            return;
        };
        if update.source_name.is_some() || update.description.is_some() {
            let text = format!("{}: {}", sanitize::line(&child.name), sanitize::line(&child.description));
            lane.line(mark::LEARNT, &text, &mut self.page, out);
            lane.prefix = self.labels.prefix(child, self.colours, self.page.width);
        }
    }

    fn close_child(&mut self, CloseChild { child, complete }: CloseChild<'_>, out: &mut Out<'_>) {
        let Some(mut lane) = self.children.remove(&child.card) else {
            return;
        };
        if self.cards.get(&child.session) == Some(&child.card) {
            self.cards.remove(&child.session);
        }
        let calls = match lane.call_count {
            0 => String::new(),
            1 => " (1 tool call)".to_owned(),
            count => format!(" ({count} tool calls)"),
        };
        lane.line(mark::END, &(came_to(complete) + &calls), &mut self.page, out);
    }

    fn close_root(&mut self, complete: &StreamComplete, out: &mut Out<'_>) {
        self.end_root_text(out);
        self.root.flush(&mut self.page, out);
        self.page.break_line(out);
        if complete.outcome != Outcome::Completed {
            self.root.line(mark::END, &came_to(complete), &mut self.page, out);
        }
        self.root = Lane::default();
    }

    fn say(&mut self, piece: Piece<'_>, out: &mut Out<'_>) {
        if piece.text.is_empty() {
            return;
        }
        match piece.speaker {
            Speaker::Root => {
                if self.root.enters(BlockKind::Text, &piece) {
                    self.end_root_text(out);
                    self.root.flush(&mut self.page, out);
                    self.page.break_line(out);
                }
                if self.root_text.passes(piece.text) {
                    self.page.flow(piece.text, out);
                } else {
                    let mut clean = String::with_capacity(piece.text.len());
                    self.root_text.push(piece.text, &mut clean);
                    self.page.flow(&clean, out);
                }
            }
            Speaker::Child(_) => {
                if let Some((lane, page)) = self.lane(piece.speaker) {
                    if lane.enters(BlockKind::Text, &piece) {
                        lane.flush(page, out);
                    }
                    lane.say(piece.text, page, out);
                }
            }
        }
    }

    fn think(&mut self, piece: Piece<'_>, out: &mut Out<'_>) {
        if !self.thinking || piece.text.is_empty() {
            return;
        }
        if let Some((lane, page)) = self.lane(piece.speaker) {
            if lane.enters(BlockKind::Thinking, &piece) {
                lane.flush(page, out);
            }
            lane.think(piece.text, page, out);
        }
    }

    fn end_block(&mut self, end: EndBlock<'_>, out: &mut Out<'_>) {
        // What was shown cannot be taken back; a text that came with the end alone can still be shown.
        let was_shown = self.lane(end.speaker).is_some_and(|(lane, _)| lane.leaves(&end));
        if !was_shown {
            let Some(text) = end.whole else { return };
            self.say(Piece { speaker: end.speaker, reply: end.reply, block: end.block, text }, out);
            self.lane(end.speaker).map(|(lane, _)| lane.leaves(&end));
        }
        if end.speaker == Speaker::Root {
            self.end_root_text(out);
        }
        if let Some((lane, page)) = self.lane(end.speaker) {
            lane.flush(page, out);
        }
    }

    /// Writes each line of a text with the mark of what is put before a model.
    fn quote(&mut self, speaker: Speaker<'_>, text: &str, out: &mut Out<'_>) {
        let mut clean = String::with_capacity(text.len());
        let mut stream = Stream::default();
        stream.push(text, &mut clean);
        stream.end(&mut clean);
        for line in clean.lines() {
            self.line(speaker, mark::PROMPT, line, out);
        }
    }

    fn line(&mut self, speaker: Speaker<'_>, mark: &str, text: &str, out: &mut Out<'_>) {
        if speaker == Speaker::Root {
            self.end_root_text(out);
        }
        if let Some((lane, page)) = self.lane(speaker) {
            lane.line(mark, text, page, out);
        }
    }

    /// Writes what the root's text held back.
    fn end_root_text(&mut self, out: &mut Out<'_>) {
        let mut rest = String::new();
        self.root_text.end(&mut rest);
        self.page.flow(&rest, out);
        self.page.end_flow(out);
    }

    fn lane(&mut self, speaker: Speaker<'_>) -> Option<(&mut Lane, &mut Page)> {
        let lane = match speaker {
            Speaker::Root => &mut self.root,
            Speaker::Child(child) => self.children.get_mut(&child.card)?,
        };
        Some((lane, &mut self.page))
    }

    fn call(&mut self, call: crate::intent::Call<'_>) -> Option<&mut call::CallLine> {
        self.lane(call.speaker)?.0.calls.get_mut(call.id)
    }
}

/// How a run ended, in words.
fn came_to(complete: &StreamComplete) -> String {
    let outcome = match complete.outcome {
        Outcome::Completed => "completed",
        Outcome::Failed => "failed",
        Outcome::TimedOut => "timed out",
        Outcome::Interrupted => "interrupted",
        Outcome::ExceedMaxIters => "used all its model calls",
        _ => complete.outcome.as_str(),
    };
    match &complete.error {
        None => outcome.to_owned(),
        Some(error) => {
            let line = error.message.trim_start().lines().next().unwrap_or_default();
            format!("{outcome}: {}", shortened(line, LONGEST_PROBLEM, false))
        }
    }
}

fn text_of(message: &UserMessage) -> String {
    message.content.iter().filter_map(anabranch_proto::ContentBlock::as_text).collect()
}
