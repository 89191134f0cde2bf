//! One tool call: its arguments, the questions about it, its result, the children that it waits for.

use std::collections::BTreeSet;

use super::{Rule, error::Step};
use crate::ToolCallId;

/// A call whose result is not complete.
#[derive(Clone, Debug)]
pub(super) struct Call {
    origin: Origin,
    arguments: Arguments,
    question: Question,
    /// Whether somebody else was asked for its result and has not given it. They may give it after it began here.
    is_elsewhere: bool,
    result: CallResult,
    /// Whether somebody else's result came. It is then given, and may be told once more as a result of its own.
    external: bool,
    /// The open children that it waits for.
    pub(super) children: BTreeSet<usize>,
}

/// Where the call began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Here,
    /// In the part of a reply that an earlier stream had.
    Earlier,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arguments {
    Open,
    Complete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    None,
    /// Whether it may be carried out.
    Confirm,
    /// For a result from elsewhere.
    External,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallResult {
    Missing,
    Open,
}

impl Call {
    /// A call that begins.
    pub(super) fn new() -> Self {
        Self {
            origin: Origin::Here,
            arguments: Arguments::Open,
            question: Question::None,
            is_elsewhere: false,
            result: CallResult::Missing,
            external: false,
            children: BTreeSet::new(),
        }
    }

    /// A call of which only the end is in this stream.
    pub(super) fn earlier() -> Self {
        Self { origin: Origin::Earlier, arguments: Arguments::Complete, ..Self::new() }
    }

    pub(super) fn arguments_are_open(&self) -> bool {
        self.arguments == Arguments::Open
    }

    /// Whether it has all that it needs before its reply ends.
    pub(super) fn is_settled(&self) -> bool {
        self.arguments == Arguments::Complete && self.external && self.result == CallResult::Missing
    }

    /// Whether its reply may stay without an end because of it.
    pub(super) fn is_asked(&self) -> bool {
        self.question != Question::None
    }

    /// Whether it is under way and waits for nobody.
    pub(super) fn is_busy(&self) -> bool {
        self.arguments == Arguments::Open || (self.result == CallResult::Open && !self.is_asked())
    }

    pub(super) fn has_external_result(&self) -> bool {
        self.external
    }

    pub(super) fn complete_arguments(&mut self) {
        self.arguments = Arguments::Complete;
    }

    pub(super) fn start_result(&mut self, id: &ToolCallId) -> Step {
        Rule::ResultAfterCall.demand(self.arguments == Arguments::Complete, || {
            format!("the end of the call `{id}` before its result")
        })?;
        Rule::OneResult
            .demand(self.result == CallResult::Missing, || format!("no second result of the call `{id}`"))?;
        self.result = CallResult::Open;
        // Whoever was asked has answered, in this stream or elsewhere.
        self.question = Question::None;
        Ok(())
    }

    /// A piece of the result, or its end.
    pub(super) fn continue_result(&mut self, id: &ToolCallId) -> Step {
        let may = self.result == CallResult::Open || self.origin == Origin::Earlier;
        Rule::WithinResult.demand(may, || format!("the start of the result of the call `{id}` before it"))?;
        self.result = CallResult::Open;
        Ok(())
    }

    /// That the children which it waits for have ended.
    pub(super) fn children_first(&self, id: &ToolCallId) -> Step {
        Rule::ChildWithinCall.demand(self.children.is_empty(), || {
            let open = self.children.len();
            format!("all sync children of the call `{id}` to end before its result, of which {open} are open")
        })
    }

    pub(super) fn give_external_result(&mut self, id: &ToolCallId) -> Step {
        Rule::ResultAfterCall.demand(self.arguments == Arguments::Complete, || {
            format!("the end of the call `{id}` before its result")
        })?;
        Rule::OneResult.demand(!self.external, || format!("no second result of the call `{id}`"))?;
        let was_earlier = self.origin == Origin::Earlier && !self.is_asked();
        Rule::QuestionOfCall.demand(self.is_elsewhere || was_earlier, || {
            format!(
                "a question for an external execution of the call `{id}` before its result from elsewhere"
            )
        })?;
        self.children_first(id)?;
        self.external = true;
        self.is_elsewhere = false;
        self.question = Question::None;
        Ok(())
    }

    pub(super) fn ask(&mut self, question: Question, id: &ToolCallId) -> Step {
        let may = self.arguments == Arguments::Complete && !self.external && !self.is_asked();
        Rule::QuestionOfCall
            .demand(may, || format!("the call `{id}` complete, without a result and not yet asked about"))?;
        self.question = question;
        self.is_elsewhere = question == Question::External;
        Ok(())
    }

    pub(super) fn answer(&mut self, id: &ToolCallId) -> Step {
        let was_earlier = self.origin == Origin::Earlier && !self.is_asked();
        Rule::QuestionOfCall.demand(self.question == Question::Confirm || was_earlier, || {
            format!("a question for a confirmation of the call `{id}` before the answer")
        })?;
        self.question = Question::None;
        Ok(())
    }

    /// That a child may begin which it waits for.
    pub(super) fn may_spawn(&self, id: &ToolCallId) -> Step {
        let may = self.arguments == Arguments::Complete && !self.is_settled();
        Rule::ChildWithinCall
            .demand(may, || format!("the call `{id}` of the parent complete and without a result"))
    }
}
