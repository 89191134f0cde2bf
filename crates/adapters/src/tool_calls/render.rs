//! From intents to frames.

use anabranch_proto::{Outcome, ToolResultState};

use super::{
    frame::{
        AgentMessageChunk, AgentThoughtChunk, Frame, StartMetadata, Status, ToolCallStart, ToolCallUpdate,
        ToolKind, UpdateMetadata,
    },
    held::{Block, Held},
};
use crate::{
    intent::{
        Asked, BlockKind, Call, Child, CloseCall, CloseChild, EndBlock, Intent, Piece, Speaker, UpdateChild,
    },
    sanitize,
};

/// Where frames go.
type Out<'o> = dyn for<'a> FnMut(Frame<'a>) + 'o;

pub(super) fn intent(held: &mut Held, intent: Intent<'_>, out: &mut Out<'_>) {
    match intent {
        Intent::OpenChild(child) => open_child(child, out),
        Intent::UpdateChild(update) => update_child(update, out),
        Intent::CloseChild(close) => close_child(held, close, out),
        Intent::CloseRoot(_) => held.end_root(),
        Intent::Text(piece) => say(held, BlockKind::Text, piece, out),
        Intent::Thought(piece) => say(held, BlockKind::Thinking, piece, out),
        Intent::EndBlock(end) => end_block(held, end, out),
        Intent::OpenCall(call) => open_call(call, out),
        Intent::CallArguments(piece) => held.call(piece.call).input.push_str(piece.text),
        Intent::CallReady(call) => {
            let input = std::mem::take(&mut held.call(call).input);
            update(call.id, None, UpdateMetadata::ToolCallInput { input: &input }, out);
        }
        Intent::AppendCall(piece) => held.call(piece.call).output.push_str(piece.text),
        Intent::Ask(ask) => {
            let metadata = match ask.asked {
                Asked::Person => UpdateMetadata::ConfirmationRequired,
                Asked::Executor => UpdateMetadata::ExternalExecutionRequired,
            };
            update(ask.call.id, None, metadata, out);
        }
        Intent::Answer(answer) => {
            let confirmed = answer.allowed;
            let metadata = match answer.asked {
                Asked::Person => UpdateMetadata::ConfirmationResult { confirmed },
                Asked::Executor => UpdateMetadata::ExternalExecutionResult,
            };
            update(answer.call.id, None, metadata, out);
        }
        Intent::CloseCall(close) => close_call(held, close, out),
        Intent::Custom(custom) => {
            if let Speaker::Child(child) = custom.speaker {
                let metadata =
                    UpdateMetadata::Custom { name: &custom.custom.name, value: &custom.custom.value };
                update(&child.card, None, metadata, out);
            }
        }
        Intent::Data(_) | Intent::Hint(_) | Intent::Prompt(_) => {}
    }
}

fn of_kind(kind: BlockKind) -> UpdateMetadata<'static> {
    match kind {
        BlockKind::Text => UpdateMetadata::SpawnText,
        BlockKind::Thinking => UpdateMetadata::SpawnThinking,
    }
}

/// The update that appends what a child said.
pub(super) fn block<'a>(card: &'a str, block: &'a Block) -> Frame<'a> {
    let metadata = of_kind(block.kind);
    Frame::ToolCallUpdate(ToolCallUpdate {
        tool_call_id: card,
        title: None,
        status: None,
        content: Some(&block.text),
        metadata,
    })
}

fn open_child(child: &Child, out: &mut Out<'_>) {
    out(Frame::ToolCallStart(ToolCallStart {
        tool_call_id: &child.card,
        title: &title(child),
        kind: ToolKind::Other,
        status: Status::InProgress,
        metadata: StartMetadata::SpawnStart {
            child_session_id: &child.session,
            spawn_mechanism: child.mechanism,
            depth: child.depth,
        },
    }));
}

fn title(child: &Child) -> String {
    format!("Spawned: {}", sanitize::line(&child.name))
}

fn update_child(UpdateChild { child, update }: UpdateChild<'_>, out: &mut Out<'_>) {
    let title = update.source_name.as_ref().map(|_| title(child));
    out(Frame::ToolCallUpdate(ToolCallUpdate {
        tool_call_id: &child.card,
        title: title.as_deref(),
        status: None,
        content: None,
        metadata: UpdateMetadata::SpawnUpdate {
            spawn_mechanism: child.mechanism,
            description: &sanitize::line(&child.description),
        },
    }));
}

fn close_child(held: &mut Held, CloseChild { child, complete }: CloseChild<'_>, out: &mut Out<'_>) {
    for unfinished in held.end_child(&child.card) {
        out(block(&child.card, &unfinished));
    }
    let text = complete.message.as_ref().map(anabranch_proto::Message::text);
    out(Frame::ToolCallUpdate(ToolCallUpdate {
        tool_call_id: &child.card,
        title: None,
        status: Some(status(complete.outcome == Outcome::Completed)),
        content: text.as_deref().filter(|text| !text.is_empty()),
        metadata: UpdateMetadata::SpawnEnd { outcome: complete.outcome, error: complete.error.as_ref() },
    }));
}

fn say(held: &mut Held, kind: BlockKind, piece: Piece<'_>, out: &mut Out<'_>) {
    match piece.speaker {
        _ if piece.text.is_empty() => {}
        Speaker::Root => {
            held.root_shows(kind, &piece);
            let (text, message_id) = (piece.text, piece.reply);
            out(match kind {
                BlockKind::Text => Frame::AgentMessageChunk(AgentMessageChunk { text, message_id }),
                BlockKind::Thinking => Frame::AgentThoughtChunk(AgentThoughtChunk { text, message_id }),
            });
        }
        Speaker::Child(child) => held.say(&child.card, kind, &piece),
    }
}

fn end_block(held: &mut Held, end: EndBlock<'_>, out: &mut Out<'_>) {
    match end.speaker {
        // What was shown cannot be taken back; a text that came with the end alone can still be shown.
        Speaker::Root => {
            let text = end.whole.filter(|text| !text.is_empty());
            if let (false, Some(text)) = (held.root_has_shown(&end), text) {
                out(Frame::AgentMessageChunk(AgentMessageChunk { text, message_id: end.reply }));
            }
        }
        Speaker::Child(child) => {
            let said = held.end_block(&child.card, &end);
            let pieces = said.as_ref().map(|block| block.text.as_str());
            if let Some(text) = end.whole.or(pieces).filter(|text| !text.is_empty()) {
                update(&child.card, Some(text), of_kind(end.kind), out);
            }
        }
    }
}

fn open_call(call: Call<'_>, out: &mut Out<'_>) {
    out(Frame::ToolCallStart(ToolCallStart {
        tool_call_id: call.id,
        title: &sanitize::line(call.name),
        kind: ToolKind::Other,
        status: Status::InProgress,
        metadata: StartMetadata::ToolCall {
            child_session_id: call.speaker.child().map(|child| &child.session),
            depth: call.speaker.depth(),
        },
    }));
}

fn close_call(held: &mut Held, CloseCall { call, end }: CloseCall<'_>, out: &mut Out<'_>) {
    let text = held.end_call(call).output;
    out(Frame::ToolCallUpdate(ToolCallUpdate {
        tool_call_id: call.id,
        title: None,
        // An end that says `running` is an end all the same.
        status: Some(status(matches!(end.state, ToolResultState::Success | ToolResultState::Running))),
        content: Some(text.as_str()).filter(|text| !text.is_empty()),
        metadata: UpdateMetadata::ToolCallEnd { state: end.state, response: &end.response },
    }));
}

fn status(did_its_work: bool) -> Status {
    if did_its_work { Status::Completed } else { Status::Failed }
}

fn update(card: &str, content: Option<&str>, metadata: UpdateMetadata<'_>, out: &mut Out<'_>) {
    out(Frame::ToolCallUpdate(ToolCallUpdate {
        tool_call_id: card,
        title: None,
        status: None,
        content,
        metadata,
    }));
}
