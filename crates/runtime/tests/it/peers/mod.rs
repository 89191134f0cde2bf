//! What went wrong in others' runtimes when a run failed, was stopped or came to a limit, and which test holds the right
//! outcome. Tests of other modules and crates are named with theirs.
//!
//! A child's events taken for its parent's:
//!
//! | where | what went wrong | held by |
//! |---|---|---|
//! | agentscope | a child's `REPLY_START` replaces the parent's message | `parents::what_a_child_says_is_no_part_of_its_parents_message` |
//! | agentscope | a child's `REPLY_END` counts as the parent's, which then has none | `parents::a_childs_end_does_not_end_its_parent`, `foreign::what_a_child_says_at_any_position_changes_nothing_of_its_parent` |
//! | agentscope | a child's interrupted tool interrupts the parent's reply | `parents::a_childs_interruption_does_not_interrupt_its_parent` |
//! | agentscope | the parent's own result carries the child's id and goes to the child's panel | `one_run::metadata_says_whose_an_event_is_and_what_its_prompt_set`, `one_run::a_child_is_announced_before_its_content_and_ends_before_its_call` |
//! | agentscope | each level overwrites whose an event is | `spawning::scopes_are_flat_and_keys_are_inherited_at_every_depth` |
//! | agentscope | `call_0` of two children is one call | `parents::calls_of_one_id_in_several_sessions_each_have_their_own_result` |
//! | agentscope | a child that was spawned and one that died look alike | `parents::a_child_that_dies_before_it_says_anything_is_announced_and_ended` |
//! | agentscope-java, agentpool | two spawns of one agent are one session | `parents::two_children_of_one_name_are_two_sessions` |
//! | field case 8 | a grandchild's result goes to the root; its parent waits for ever | `parents::a_grandchilds_result_goes_to_its_own_parent_in_every_turn` |
//!
//! Failing:
//!
//! | where | what went wrong | held by |
//! |---|---|---|
//! | agentscope | a tool's exception ends as success, and the reply without an end | `failures::each_way_in_which_a_call_fails_is_told_to_the_model_beside_the_other_results` |
//! | agentscope | a model that fails leaves its blocks and its reply open | `failure::a_model_that_fails_before_during_or_after_its_text`, `failures::each_way_in_which_a_child_fails_is_told_to_the_model_beside_the_other_results` |
//! | agentscope | results come to the model in the order of completion | `one_run::results_reach_the_model_in_call_order_whatever_ends_first` |
//! | agentscope | rounds without end | `failure::an_agent_that_never_comes_to_an_end_is_stopped_at_its_limit` |
//! | `QwenPaw` | a child's error is a success with a text | `failures::each_way_in_which_a_child_fails_is_told_to_the_model_beside_the_other_results` |
//! | openai-agents, langgraph, rig | one failing call cancels its siblings, or all results wait for the last | the same, and pipeline's `side_by_side::a_result_ends_as_soon_as_its_call_does` |
//! | agentpool | a child that failed is waited for until a time-out | `failures::a_child_that_fails_ends_its_call_at_once` |
//! | codex | the parent never goes on after a child's end | `failures::a_master_that_reads_an_error_can_try_again_and_report_both_attempts`, `failures::a_model_that_fails_after_its_tools_leaves_their_results_to_the_next_prompt` |
//!
//! Stopping:
//!
//! | where | what went wrong | held by |
//! |---|---|---|
//! | agentscope | a cancelled spawn reports success | `stops::a_cancelled_spawn_is_no_success` |
//! | agentscope | whoever stops reading leaves tasks behind | `stops::a_dropped_reply_leaves_no_task`, `cancel::dropping_an_ephemeral_reply_stops_everything` |
//! | agentscope-java, codex | stopping a parent does not stop its children; a stopped tree goes on spawning | `stops::each_session_ends_after_all_below_it_and_once`, `stops::nothing_is_spawned_while_a_run_is_being_stopped` |
//! | agentpool | a parent is closed before its children, a cancelled task ends twice | `stops::each_session_ends_after_all_below_it_and_once`, `cancel::at_every_position_a_cancel_leaves_nothing_open` |
//! | field case 7 | a cancelled child is failed, one that was queued is cancelled | `stops::a_cancelled_spawn_is_no_success`, `stops::a_call_whose_turn_had_not_come_is_interrupted_and_announces_nobody` |
//! | codex | whoever waits is not woken by an interruption | `stops::whoever_waits_is_told_however_the_run_before_ends`, `stops::a_second_prompt_waits_until_the_children_of_the_first_are_gone` |
//! | `QwenPaw` | a blocking call cannot be cancelled | `stops::a_blocking_closure_holds_up_neither_its_siblings_nor_a_cancel` |
//! | field case 18 | two terminals | session's `field_cases::the_first_terminal_of_a_run_wins`, `foreign::the_first_terminal_ends_it` |
//!
//! Limits:
//!
//! | where | what went wrong | held by |
//! |---|---|---|
//! | agentscope, agentpool | depth is not passed on: 30 levels run, each at depth 1 | `limits::depth_counts_through_real_nesting` |
//! | agentpool | three limits that differ, one of them checked when the child exists already | `limits::depth_counts_through_real_nesting`, `limits::a_limit_of_nought_refuses_every_child` |
//! | agentpool | a refusal kills the parent's run | `limits::a_limit_of_one_allows_a_child_and_refuses_its_child` |
//! | codex | children that ended, or were interrupted, keep their places | `limits::a_place_is_free_again_however_a_child_ended`, `limits::a_spawn_that_is_given_up_leaves_its_place` |
//! | codex, pi-subagents, zeph | no bound on spawns in total | `limits::a_limit_of_one_allows_a_child_and_refuses_its_child`, `hostile::children_that_nobody_spawned_count_for_the_limit_too` |
//! | agentpool | what a child needed is never freed | `spawning::nothing_of_a_child_is_alive_after_its_end` |
//!
//! Time, and who reads:
//!
//! | where | what went wrong | held by |
//! |---|---|---|
//! | agentscope | a tool hangs for ever | `time::each_child_has_its_own_time_and_keeps_what_it_has_done`, `failure::a_model_that_hangs_is_given_up_at_its_limit` |
//! | `QwenPaw` | a time-out that is not the child's own | the same, `time::a_parked_reader_with_room_in_its_window_delays_no_time_out`, `time::a_parked_reader_without_room_delays_a_time_out_by_the_stall_limit_at_most` |
//! | agentscope | one task that is always ready leaves no turn to timers | `fairness::a_child_that_is_always_ready_starves_neither_its_sibling_nor_timers`, `foreign::a_child_that_is_always_ready_does_not_starve_its_deadline` |
//! | agentscope | nothing holds a producer back | `readers::a_stalled_reply_holds_its_producers_back_for_as_long_as_it_may` |
//! | agentpool | lifecycle events are dropped silently when a queue is full | `reading::a_reader_that_never_reads_is_waited_for_once_and_misses_nothing`, `readers::what_the_log_was_told_to_forget_is_a_gap` |
//! | agentpool | who subscribes late to a child has its last 100 events | `reading::whoever_comes_late_has_every_event_of_every_child` |
//! | agentpool | one client's leaving ends what others wait for | `reading::a_reader_that_leaves_holds_nobody_back_and_takes_nobody_with_it` |
//!
//! Asking, and work by others:
//!
//! | where | what went wrong | held by |
//! |---|---|---|
//! | agentscope | a child's question ends its call as a success, and is nobody's | `asking::a_child_that_asks_neither_ends_its_call_nor_parks_its_parent_nor_is_run_again` |
//! | agentscope | a child's question parks its parent, which runs the child again and again | the same, `questions::while_a_grandchild_asks_nobody_else_waits_and_nothing_is_run_again` |
//! | agentscope | a reply that asks has no end, its rest no beginning; a prompt meanwhile is an error | `asking::a_reply_that_asked_is_one_reply_and_a_prompt_meanwhile_waits_for_its_turn` |
//! | agentscope | of several questions of one kind some are left pending | `asking::a_rule_that_comes_with_an_answer_leaves_no_question_beside_it_pending` |
//! | agentscope | an external call parks the whole reply | `asking::calls_beside_one_that_asks_go_on_and_an_interruption_ends_all_without_another_model_call`, `questions::somebody_else_runs_a_call_of_a_child` |
//! | agentscope | a parked reply that is interrupted: its calls closed, its end said, no model call | the same, `questions::a_cancel_while_asking_interrupts_the_call_and_takes_no_answer_any_more` |
//! | `QwenPaw`, goose | a child, or one spawned another way, goes round its parent's approvals | `asking::however_a_child_came_to_be_it_may_do_no_more_than_its_parent`, `asking::a_childs_own_permissions_lift_no_question_of_its_parents`, `questions::a_childs_permissions_are_never_wider_than_its_parents`, `forks::a_fork_has_its_parents_permissions` |
//! | goose, codex, agentpool | a child's question never reaches the user of its parent | `asking::however_a_child_came_to_be_its_question_reaches_the_sessions_user_and_the_answer_reaches_it`, `hostile_tasks::a_child_that_asks_after_the_reply_has_ended_is_answered_between_replies` |
//! | field case 14 | an answer to one takes the other's chance; a time-out is called a refusal | `asking::an_answer_to_one_child_leaves_the_others_question_open_and_a_time_out_is_no_refusal`, `questions::two_children_ask_at_once_and_each_gets_its_own_answer`, `questions::a_request_that_nobody_answers_is_denied_and_the_user_is_not_said_to_have_refused` |
//! | field case 15 | an approved call is shown as done before it is | `asking::a_call_that_was_allowed_is_done_when_its_result_says_so_and_failed_when_that_does` |
//! | field case 6 | an announcement that comes again clears the question | `asking::a_second_announcement_of_a_child_that_asks_leaves_its_question_open` |
//! | field case 7 | a child that is stopped with a call open is failed | `asking::a_child_that_is_stopped_while_it_asks_is_interrupted_and_so_is_its_call` |
//! | agentpool, `QwenPaw` | one client's leaving cancels every session's questions; all sessions' questions are in one list | `asking::a_client_that_leaves_takes_no_question_with_it_here_or_elsewhere` |
//!
//! Tasks and further runs:
//!
//! | where | what went wrong | held by |
//! |---|---|---|
//! | agentscope | forks and tasks are not on the stream | `tasks::a_fork_and_a_task_are_on_the_stream_like_any_other_child` |
//! | agentscope | two names for one task; one that failed "completed with no output"; one that was stopped yields nothing; a placeholder that is a success | `tasks::a_task_has_one_name_and_what_became_of_it_is_said_as_it_was`, `tasks::stopping_a_task_gives_what_it_has_done_and_stopping_it_again_changes_nothing` |
//! | agentscope-java | what ends while the parent reasons is lost | `background::several_that_end_while_their_parent_is_in_mid_turn_are_told_once_each_in_the_order_of_their_ends`, `hostile_tasks::a_result_that_a_cut_call_took_is_told_later` |
//! | agentscope-java | a cancelled parent's async children go on | `background::a_cancelled_reply_takes_its_background_children_with_it_unless_they_are_to_be_kept`, `tasks::a_cancelled_reply_stops_the_children_of_its_background_children_too`, `hostile_tasks::wherever_a_tree_of_tasks_is_cancelled_nothing_is_left` |
//! | field case 2 | "still running" after the end | `background::a_model_checks_stops_and_lists_its_tasks`, and the rules of a stream |
//! | field case 8 | what a resumed child comes to goes to the root | `tasks::what_a_resumed_child_comes_to_goes_to_its_own_parent_in_every_run` |
//! | field case 9 | the end of a further run is not told | `background::a_message_reaches_a_running_task_and_an_ended_one_goes_on_with_a_further_run`, `hostile_tasks::a_task_that_goes_on_before_it_was_told_is_told_of_each_of_its_runs` |
//! | field case 10, agentpool | a child's events are dropped, or the child ended, because its parent is idle | `background::a_background_child_outlives_the_reply_and_its_events_go_on`, `tasks::a_parent_that_is_idle_or_answers_something_else_ends_no_child_of_its_own` |
//! | agentpool | whoever waits for a child's end registers too late, or is never told | `tasks::whoever_waits_for_a_child_that_ended_at_once_is_told`, `hostile_tasks::a_sub_agent_waits_for_its_tasks_however_soon_it_is_done_itself` |
//! | agentpool | a cascade closes parents first | `tasks::tasks_of_tasks_end_before_those_that_started_them_and_once` |
//! | agentpool | of many that end at once some are not told, or twice | `tasks::many_that_end_at_once_are_each_told_once_over_all_replies` |
//! | agentpool | a limit cancels | `tasks::a_limit_refuses_a_task_with_a_reason_stops_none_and_forgets_none` |
//! | agentpool | cancelling twice, or what has ended, ends it again; a time-out is a cancel | `tasks::stopping_a_task_gives_what_it_has_done_and_stopping_it_again_changes_nothing`, `background::a_background_child_has_its_own_time_and_says_what_it_did` |
//! | agentpool | waiting with a limit cancels; two that wait disturb each other; who waited is told again | `tasks::waiting_for_a_task_neither_stops_it_nor_takes_its_result_from_another_twice` |
//! | agentpool | a stream without a terminal is a success | `foreign::a_stream_without_an_end_has_failed_and_says_so` |
//! | agentpool | a child has its parent's history, or the parent the child's | `forks::without_a_fork_a_child_has_its_task_alone_and_the_parents_conversation_is_untouched` |
//! | codex | closing a child hangs | `tasks::stopping_a_task_gives_what_it_has_done_and_stopping_it_again_changes_nothing`, `hostile_tasks::a_task_whose_announcement_a_layer_lost_is_none_and_nobody_waits_for_it` |
//! | codex | a further run is another child, or without what the first was given | `tasks::what_a_resumed_child_comes_to_goes_to_its_own_parent_in_every_run`, `hostile_tasks::a_further_run_is_as_the_first_was_bounded_named_and_kept`, `tasks::what_was_stopped_can_go_on_and_what_is_unknown_is_said_to_the_model` |
//! | codex | a place is taken for ever by one that ended, in whatever way | `places::a_place_is_free_again_and_no_task_is_left` |
//! | goose | the model must ask again and again | `background::a_background_child_is_announced_with_its_task_and_its_result_is_a_hint_before_the_next_turn` |
//!
//! Teams:
//!
//! | where | what went wrong | held by |
//! |---|---|---|
//! | agentpool | a team's run announces nobody, or its workers at its own depth | `teams::a_team_and_each_member_are_announced_once_where_they_belong` |
//! | agentpool | siblings of one name share a session | `teams::members_of_one_name_share_no_session` |

mod asking;
mod failures;
mod fairness;
mod limits;
mod parents;
mod places;
mod reading;
mod stops;
mod tasks;
mod teams;
mod time;

use std::sync::Arc;

use anabranch_proto::{ContentBlock, Event, EventKind, Message, Outcome, ToolResultState};
use anabranch_runtime::{ModelRequest, Turn};

use crate::support::{kind, own};

/// Every terminal, in order: whose, and how it ended. The root is `.`.
fn terminals(events: &[Arc<Event>]) -> Vec<(&str, Outcome)> {
    let terminal = |event: &Arc<Event>| {
        let EventKind::StreamComplete(complete) = &event.kind else { return None };
        Some(complete.outcome)
    };
    events.iter().filter_map(|event| Some((who(event), terminal(event)?))).collect()
}

/// Whose an event is. The root is `.`.
fn who(event: &Event) -> &str {
    event.scope.child().map_or(".", |child| &child.source_name)
}

/// How many children were announced.
fn announced<'a>(events: impl IntoIterator<Item = &'a Arc<Event>>) -> usize {
    kind(events, |kind| matches!(kind, EventKind::SpawnSessionStart(_)).then_some(())).len()
}

/// What the root's calls of sub-agents came to, in the order in which they ended, as programs are told.
fn outcomes(events: &[Arc<Event>]) -> Vec<String> {
    kind(own(events), |kind| {
        if let EventKind::ToolResultEnd(end) = kind { end.response.get_str("outcome") } else { None }
    })
}

/// The results of a model's last calls, each as its state and its text.
fn results(request: &ModelRequest) -> Vec<String> {
    let line = |(state, text): (ToolResultState, String)| format!("{}: {text}", state.as_str());
    request.results().map(|result| line((result.state, result.output.text()))).collect()
}

/// An answer that repeats the results, one a line.
fn report(request: &ModelRequest) -> Turn {
    Turn::new().text(results(request).join("\n"))
}

/// The states and texts of all results in a conversation.
fn results_in(messages: &[Message]) -> Vec<(ToolResultState, String)> {
    let blocks = messages.iter().flat_map(|message| &message.content);
    blocks
        .filter_map(|block| {
            if let ContentBlock::ToolResult(result) = block {
                Some((result.state, result.output.text()))
            } else {
                None
            }
        })
        .collect()
}
