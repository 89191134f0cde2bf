//! The table of rules.

use std::fmt;

macro_rules! rules {
    ($($rule:ident = $name:literal, $text:literal;)*) => {
        /// What a stream must obey, each rule by its name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Rule {
            $(#[doc = $text] $rule,)*
        }

        impl Rule {
            /// Every rule, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$rule),*];

            /// The name, in kebab case.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)*
                }
            }

            /// What it demands, in a sentence.
            #[must_use]
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$rule => $text,)*
                }
            }
        }
    };
}

rules! {
    Numbered = "numbered",
        "Events are numbered 1, 2, 3… without gaps.";
    Announced = "announced",
        "A child's run is announced by a spawn before its first event.";
    AnnouncedOnce = "announced-once",
        "A child's run is announced once, and a session's runs count upwards, from 1 or more.";
    SpawnInParent = "spawn-in-parent",
        "A spawn is an event of the parent that it names.";
    SessionUnique = "session-unique",
        "No child's session has the root's id, which the root's first spawn or reply says.";
    SubagentUnique = "subagent-unique",
        "No two open children have the same sub-agent's id.";
    Depth = "depth",
        "A child lies one deeper than its parent.";
    DepthLimit = "depth-limit",
        "No child lies deeper than the limit.";
    ScopeAsAnnounced = "scope-as-announced",
        "Each event of a child's run has the parent, the depth and the sub-agent of the run's spawn; where the spawn names no sub-agent, that of the run's first event.";
    UpdateOfChild = "update-of-child",
        "What is learnt later is of an announced run, and is said by the nearest session above it that has not ended.";
    PromptFirst = "prompt-first",
        "A run begins with its prompt, which steers nothing.";
    OneRunAtATime = "one-run-at-a-time",
        "A session's run ends before its next one begins; in mid-run a prompt only steers.";
    BetweenRuns = "between-runs",
        "Between the root's runs no child begins that a call would wait for, and none is learnt to be one.";
    AfterTerminal = "after-terminal",
        "Nothing of a run follows its terminal.";
    Terminal = "terminal",
        "Every run ends with a terminal before the stream does.";
    OneReplyAtATime = "one-reply-at-a-time",
        "A session's reply ends before its next one begins.";
    ReplyOfSession = "reply-of-session",
        "A reply's start and its end name the session whose events they are; the root's, as its first spawn or reply does.";
    WithinReply = "within-reply",
        "What belongs to a reply comes between the reply's start and its end.";
    ReplyClosed = "reply-closed",
        "What a reply has open is closed before its end, and every call in it has a result.";
    RunClosed = "run-closed",
        "What a run has open is closed before its terminal.";
    WithinModelCall = "within-model-call",
        "A reply's model calls follow one another, each with one start and one end.";
    WithinBlock = "within-block",
        "A block's pieces and its one end come after its start and are of its kind.";
    BlockUnique = "block-unique",
        "No two blocks of a session have the same id.";
    WithinCall = "within-call",
        "The pieces of a call's arguments and their one end come after the call's start.";
    CallUnique = "call-unique",
        "No two calls of a session have the same id.";
    ResultAfterCall = "result-after-call",
        "A result begins after the arguments of its call are complete.";
    OneResult = "one-result",
        "A call has one result.";
    WithinResult = "within-result",
        "A result's pieces and its one end come after its start.";
    QuestionOfCall = "question-of-call",
        "A question is about calls that wait for a result, once at a time, and its answer is of its kind and about calls that were asked about.";
    ChildWithinCall = "child-within-call",
        "A child that a call waits for begins and ends before the call's result ends.";
    ChildrenFirst = "children-first",
        "Children end before their parent; only background children of the root, and those that code made between its runs, may outlive its run.";
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
