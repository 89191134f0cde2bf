//! For each rule a stream that breaks only it.

use anabranch_proto::{
    Admitted,
    grammar::{Profile, Rule, Verifier, Violation},
};
use anabranch_testkit::Broken;

fn numbered(events: &[Admitted]) -> Result<(), Violation> {
    let mut verifier = Verifier::new(Profile::Native);
    events.iter().try_for_each(|event| verifier.check_numbered(event.seq, &event.event))?;
    verifier.finish()
}

#[test]
fn each_rule_has_a_stream_that_breaks_it_and_is_well_formed_without_its_flaw() {
    let all = Broken::all();
    let rules: Vec<_> = all.iter().map(|broken| broken.rule).collect();
    assert_eq!(rules, Rule::ALL);
    for broken in all {
        assert_eq!(numbered(&broken.mended), Ok(()), "{}, mended", broken.flaw);
        let violation = numbered(&broken.events).expect_err(broken.flaw);
        assert_eq!(violation.rule, broken.rule, "{}: {violation}", broken.flaw);
    }
}

#[test]
fn a_violation_names_rule_event_session_and_what_was_expected() {
    let said: Vec<_> =
        Broken::all().iter().map(|broken| numbered(&broken.events).unwrap_err().to_string()).collect();
    insta::assert_snapshot!(said.join("\n"), @r"
    USER_MESSAGE 01KDVDNA000000000000000007 of ses_1 breaks `numbered`: expected the number 7
    USER_MESSAGE 01KDVDNA000000000000000007 of ses_1 breaks `announced`: expected a spawn of run 1 of `ses_1` before it
    SPAWN_SESSION_START 01KDVDNA000000000000000006 of root breaks `announced-once`: expected a run of `ses_1` from 2 on, not a second spawn of 1
    SPAWN_SESSION_START 01KDVDNA000000000000000009 of root breaks `spawn-in-parent`: expected the parent `ses_0`, not `ses_1`
    SPAWN_SESSION_START 01KDVDNA000000000000000006 of root breaks `session-unique`: expected another id than the root's `ses_0`
    SPAWN_SESSION_START 01KDVDNA000000000000000009 of root breaks `subagent-unique`: expected another sub-agent than `sa_1`, which the open child `ses_1` is
    SPAWN_SESSION_START 01KDVDNA000000000000000006 of root breaks `depth`: expected the depth 1, not 2
    SPAWN_SESSION_START 01KDVDNA00000000000000000J of ses_5 breaks `depth-limit`: expected no child deeper than 5, not 6
    TEXT_BLOCK_DELTA 01KDVDNA00000000000000000B of ses_1 breaks `scope-as-announced`: expected the sub-agent `sa_1`
    SESSION_UPDATED 01KDVDNA000000000000000009 of root breaks `update-of-child`: expected a spawn of run 2 of `ses_1` before it
    REPLY_START 01KDVDNA000000000000000008 of ses_1 breaks `prompt-first`: expected the prompt of run 1 before it
    USER_MESSAGE 01KDVDNA00000000000000000N of root breaks `one-run-at-a-time`: expected the terminal of run 1 before the next prompt, or a steering one
    SPAWN_SESSION_START 01KDVDNA00000000000000000G of root breaks `between-runs`: expected the prompt of the root's next run before a sync child
    STREAM_COMPLETE 01KDVDNA00000000000000000E of ses_1 breaks `after-terminal`: expected nothing more of run 1 of `ses_1`, which has ended
    the end of the stream of root breaks `terminal`: expected STREAM_COMPLETE of run 1
    REPLY_START 01KDVDNA000000000000000002 of root breaks `one-reply-at-a-time`: expected the end of the reply `reply_ses_0_1` before the start of the next
    REPLY_END 01KDVDNA000000000000000010 of root breaks `reply-of-session`: expected the session `ses_0`, not `ses_9`
    TEXT_BLOCK_START 01KDVDNA000000000000000007 of root breaks `within-reply`: expected the open reply `reply_ses_0_1`, not `reply_9`
    REPLY_END 01KDVDNA000000000000000010 of root breaks `reply-closed`: expected the end of the block `block_2` before that of the reply `reply_ses_0_1`
    STREAM_COMPLETE 01KDVDNA000000000000000011 of root breaks `run-closed`: expected the end of the reply `reply_ses_0_1` before it
    MODEL_CALL_START 01KDVDNA000000000000000003 of root breaks `within-model-call`: expected the end of the reply `reply_ses_0_1`'s model call before its next one
    TEXT_BLOCK_DELTA 01KDVDNA000000000000000008 of root breaks `within-block`: expected the start of the text block `block_1` before it
    TEXT_BLOCK_START 01KDVDNA000000000000000007 of root breaks `block-unique`: expected an id that no block of the session had, not `block_1`
    TOOL_CALL_DELTA 01KDVDNA00000000000000000C of root breaks `within-call`: expected the start of the call `call_0` before it and no end
    TOOL_CALL_START 01KDVDNA00000000000000000E of root breaks `call-unique`: expected an id that no call of the session had, not `call_0`
    TOOL_RESULT_START 01KDVDNA00000000000000000J of root breaks `result-after-call`: expected the end of the call `call_0` before its result
    TOOL_RESULT_START 01KDVDNA00000000000000000J of root breaks `one-result`: expected nothing more of the call `call_0`, which has its result
    TOOL_RESULT_TEXT_DELTA 01KDVDNA00000000000000000K of root breaks `within-result`: expected nothing more of the call `call_0`, which has its result
    REQUIRE_USER_CONFIRM 01KDVDNA00000000000000000N of root breaks `question-of-call`: expected the call `call_1` complete, without a result and not yet asked about
    TOOL_RESULT_END 01KDVDNA00000000000000000H of root breaks `child-within-call`: expected all sync children of the call `call_0` to end before its result, of which 1 are open
    STREAM_COMPLETE 01KDVDNA00000000000000000X of root breaks `children-first`: expected the terminal of the child `ses_2` before it
    ");
}

#[test]
fn the_first_violation_is_final() {
    let broken = Broken::of(Rule::Announced);
    let mut verifier = Verifier::new(Profile::Native);
    let first = broken.events.iter().find_map(|event| verifier.check(&event.event).err());
    let first = first.unwrap();
    let last = broken.events.last().unwrap();
    assert_eq!(verifier.check(&last.event), Err(first.clone()));
    assert_eq!(verifier.finish(), Err(first));
}

#[test]
fn rules_are_named_in_kebab_case_and_told_in_a_sentence() {
    for rule in Rule::ALL {
        let name = rule.name();
        assert_eq!(name.replace('-', ""), format!("{rule:?}").to_lowercase());
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{name}");
        assert!(rule.text().ends_with('.'), "{name}");
        assert_eq!(rule.to_string(), name);
    }
}
