//! An answer is of the kind of its question.

use anabranch_proto::{
    Outcome, ToolCallBlock, ToolResultBlock, ToolResultState,
    event::{
        ConfirmResult, ExternalExecutionResult, RequireExternalExecution, RequireUserConfirm,
        UserConfirmResult,
    },
    grammar::Rule,
};
use anabranch_testkit::Stage;

use crate::support::broken;

#[derive(Clone, Copy)]
enum Say {
    AskToConfirm,
    AskElsewhere,
    Confirm,
    Result,
}

/// What comes of a call about which this is said.
fn said(what: &[Say]) -> Option<Rule> {
    let stage = Stage::new();
    let root = stage.root();
    root.begin("Go");
    let call = root.call("browse", "{}");
    let (reply, block) = (root.reply(), ToolCallBlock::new(&call, "browse", "{}"));
    for say in what {
        let (reply, block) = (reply.clone(), block.clone());
        match say {
            Say::AskToConfirm => root.emit(RequireUserConfirm::new(reply, vec![block])),
            Say::AskElsewhere => root.emit(RequireExternalExecution::new(reply, vec![block])),
            Say::Confirm => root.emit(UserConfirmResult::new(reply, vec![ConfirmResult::new(true, block)])),
            Say::Result => {
                root.emit(ExternalExecutionResult::new(reply, vec![ToolResultBlock::new(&call, "browse")]))
            }
        };
    }
    root.result(&call, "browse", ToolResultState::Success, "a page");
    root.end(Outcome::Completed);
    broken(&stage.events())
}

#[test]
fn an_answer_is_of_the_kind_of_its_question() {
    use Say::{AskElsewhere, AskToConfirm, Confirm, Result};
    for fits in [
        &[][..],
        &[AskToConfirm, Confirm],
        &[AskElsewhere, Result],
        &[AskElsewhere],
        &[AskToConfirm, Confirm, AskElsewhere, Result],
    ] {
        assert_eq!(said(fits), None);
    }
    for other in [
        &[Result][..],
        &[Confirm],
        &[AskToConfirm, Result],
        &[AskElsewhere, Confirm],
        &[AskToConfirm, Confirm, Result],
    ] {
        assert_eq!(said(other), Some(Rule::QuestionOfCall));
    }
}
