//! The machine that holds a stream to the rules.

use super::{
    Counts, Rule, Violation,
    ended::Ended,
    error::{Breach, Step},
    reply::Memory,
    run::{Opening, Progress, Run, opening},
    tree::{IsNew, ROOT, Runs, Tree},
};
use crate::{
    Event, EventKind, Scope, SpawnMechanism,
    event::{MessageOrigin, SpawnSessionStart},
};

/// Whose stream it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Profile {
    /// Ours: every rule holds.
    #[default]
    Native,
    /// agentscope's own. The end of a reply is the terminal of the run, and a run needs no prompt. A reply that waits
    /// for a person or for somebody else's execution has no end, and the stream that goes on with it has no start: it
    /// begins with the answer or with a result, and calls may be the earlier part's. Children need no spawn; one that
    /// has none is nobody's to wait for. `CUSTOM` and unknown events may come at any time.
    Agentscope,
}

/// The depth that children may have, unless [`Verifier::max_depth`] says otherwise.
const MAX_DEPTH: u32 = 5;
/// How many ended blocks, and as many calls, are remembered unless [`Verifier::remember`] says otherwise.
const REMEMBERED: usize = 16_384;

/// Holds the stream of one root session to the rules, event by event.
///
/// The first violation is final: whatever is checked afterwards gives the same one again, because what is open is no
/// longer known.
#[derive(Clone, Debug)]
pub struct Verifier {
    profile: Profile,
    max_depth: u32,
    tree: Tree,
    memory: Memory,
    broken: Option<Box<Violation>>,
}

impl Verifier {
    /// A verifier of a stream that has not begun.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            max_depth: MAX_DEPTH,
            tree: Tree::new(),
            memory: Memory {
                blocks: Ended::new(REMEMBERED),
                calls: Ended::new(REMEMBERED),
                counts: Counts::default(),
            },
            broken: None,
        }
    }

    /// How deep a child may lie; 5 by default.
    #[must_use]
    pub fn max_depth(mut self, max_depth: u32) -> Self {
        self.max_depth = max_depth;
        self
    }

    /// How many ended blocks, and as many ended calls, are remembered to notice when an id comes again; 16,384 of each
    /// by default, over all sessions. The last ones are kept.
    #[must_use]
    pub fn remember(mut self, ids: usize) -> Self {
        self.memory.blocks.set_bound(ids);
        self.memory.calls.set_bound(ids);
        self
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// When it breaks a rule, or an event before it did.
    pub fn check(&mut self, event: &Event) -> Result<(), Violation> {
        self.check_with(None, event)
    }

    /// Takes the next event with its number in the session's log, which counts from 1 without gaps.
    ///
    /// # Errors
    /// When the number is not the next one, or the event breaks a rule, or an event before it did.
    pub fn check_numbered(&mut self, seq: u64, event: &Event) -> Result<(), Violation> {
        self.check_with(Some(seq), event)
    }

    /// Says that no event will follow; to be called once.
    ///
    /// # Errors
    /// When a run has no terminal, or an event broke a rule.
    pub fn finish(&mut self) -> Result<(), Violation> {
        self.unbroken()?;
        let open = self.tree.running().find(|(_, _, run)| match self.profile {
            Profile::Native => true,
            Profile::Agentscope => !run.is_parked(),
        });
        let Some((session, run, _)) = open else { return Ok(()) };
        let terminal = match self.profile {
            Profile::Native => "STREAM_COMPLETE",
            Profile::Agentscope => "REPLY_END, or a question with nothing else under way,",
        };
        let breach = Rule::Terminal.expected(format!("{terminal} of run {run}"));
        let violation = Violation::at_end(session.cloned(), breach);
        Err(self.broken(violation))
    }

    /// What came so far, up to the first violation.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.memory.counts
    }

    /// How many runs, replies, model calls, blocks and calls are open. Asks every session.
    #[must_use]
    pub fn open(&self) -> usize {
        self.tree.open()
    }

    fn check_with(&mut self, seq: Option<u64>, event: &Event) -> Result<(), Violation> {
        self.unbroken()?;
        match self.number(seq).and_then(|()| self.take(event)) {
            Ok(()) => {
                self.memory.counts.events += 1;
                Ok(())
            }
            Err(breach) => Err(self.broken(Violation::of(event, breach))),
        }
    }

    fn unbroken(&self) -> Result<(), Violation> {
        self.broken.as_deref().map_or(Ok(()), |violation| Err(violation.clone()))
    }

    fn broken(&mut self, violation: Violation) -> Violation {
        self.broken = Some(Box::new(violation.clone()));
        violation
    }

    fn number(&self, seq: Option<u64>) -> Step {
        let next = self.memory.counts.events + 1;
        Rule::Numbered.demand(seq.is_none_or(|seq| seq == next), || format!("the number {next}"))
    }

    fn take(&mut self, event: &Event) -> Step {
        let session = self.locate(event)?;
        if let EventKind::SpawnSessionStart(spawn) = &event.kind {
            self.spawn(session, event, spawn)
        } else if let EventKind::SessionUpdated(update) = &event.kind {
            if session != ROOT {
                self.enter(session, event)?;
            }
            self.tree.update(session, update)
        } else {
            self.own(session, event)
        }
    }

    /// The session that an event belongs to, with an open run where it is a child's that was announced.
    fn locate(&mut self, event: &Event) -> Step<usize> {
        let Scope::Child(scope) = &event.scope else { return Ok(ROOT) };
        match (self.tree.find(&event.scope), self.profile) {
            (Some(session), Profile::Native) => {
                self.tree.fits(session, scope, Runs::Counted)?;
                Ok(session)
            }
            (Some(session), Profile::Agentscope) => {
                self.tree.fits(session, scope, Runs::Uncounted)?;
                Ok(session)
            }
            (None, Profile::Agentscope) => {
                let session = self.tree.appear(scope, self.max_depth)?;
                self.count_session(scope.depth);
                Ok(session)
            }
            (None, Profile::Native) => Err(Rule::Announced
                .expected(format!("a spawn of run {} of `{}` before it", scope.run, scope.child_session_id))),
        }
    }

    /// A spawn is an event of its parent's run. Between the root's runs it may announce a child that nobody waits for: a
    /// background one, or one that code made.
    fn spawn(&mut self, parent: usize, event: &Event, spawn: &SpawnSessionStart) -> Step {
        if parent == ROOT && !self.tree.root_is_open() {
            let runs = self.tree.session_mut(ROOT).map_or(0, |root| root.runs);
            if spawn.spawn_mechanism == SpawnMechanism::Sync {
                return Err(if runs == 0 && self.profile == Profile::Native {
                    Rule::PromptFirst.expected("a prompt of the root before its first sync child")
                } else {
                    Rule::BetweenRuns.expected("the prompt of the root's next run before a sync child")
                });
            }
        } else {
            self.enter(parent, event)?;
        }
        if self.tree.spawn(parent, spawn, self.max_depth)? == IsNew::Yes {
            self.count_session(spawn.depth);
        }
        self.memory.counts.runs += 1;
        Ok(())
    }

    /// Takes an event that a session says of itself.
    fn own(&mut self, session: usize, event: &Event) -> Step {
        if self.enter(session, event)? == Entered::Outside {
            return Ok(());
        }
        if self.profile == Profile::Native {
            if let EventKind::ReplyStart(start) = &event.kind {
                self.tree.learn_own(session, &start.session_id)?;
            } else if let EventKind::ReplyEnd(end) = &event.kind {
                self.tree.learn_own(session, &end.session_id)?;
            }
        }
        let Some(known) = self.tree.session_mut(session) else { return Ok(()) };
        let Some(run) = known.run.as_mut() else { return Ok(()) };
        if let EventKind::StreamComplete(_) = event.kind {
            run.close()?;
            return self.tree.end_run(session);
        }
        run.take(&event.kind, session, &mut self.memory)?;
        if self.profile == Profile::Agentscope && matches!(event.kind, EventKind::ReplyEnd(_)) {
            self.tree.end_run(session)?;
        }
        Ok(())
    }

    /// Sees to it that a session has a run for an event, and that the run begins rightly.
    fn enter(&mut self, session: usize, event: &Event) -> Step<Entered> {
        let Some(known) = self.tree.session_mut(session) else { return Ok(Entered::Outside) };
        let opening = opening(&event.kind);
        if let Some(run) = &mut known.run {
            let is_prompt = matches!(opening, Opening::Prompt(_));
            let steers = matches!(opening, Opening::Prompt(MessageOrigin::Steering));
            match run.progress {
                Progress::Announced => {
                    let begins = is_prompt && !steers;
                    Rule::PromptFirst.demand(begins || self.profile == Profile::Agentscope, || {
                        format!("the prompt of run {} before it", known.runs)
                    })?;
                    run.progress = Progress::Begun;
                }
                Progress::Begun => {
                    Rule::OneRunAtATime.demand(steers || !is_prompt, || {
                        format!(
                            "the terminal of run {} before the next prompt, or a steering one",
                            known.runs
                        )
                    })?;
                }
            }
            return Ok(Entered::Run);
        }
        let run = match (self.profile, opening) {
            (Profile::Native, Opening::Prompt(MessageOrigin::Steering)) => {
                let next = known.runs.saturating_add(1);
                return Err(
                    Rule::PromptFirst.expected(format!("the prompt of run {next}, which steers nothing"))
                );
            }
            (Profile::Native | Profile::Agentscope, Opening::Prompt(_))
            | (Profile::Agentscope, Opening::Reply) => Run::new(Progress::Begun),
            (Profile::Agentscope, Opening::Rest(reply)) if known.runs == 0 => Run::resumed(reply.clone()),
            (Profile::Agentscope, Opening::Free) => return Ok(Entered::Outside),
            (Profile::Native, Opening::Reply | Opening::Free)
            | (Profile::Native | Profile::Agentscope, Opening::Rest(_) | Opening::None) => {
                return Err(outside(known.runs, self.profile));
            }
        };
        known.begin_run(run);
        if session == ROOT && known.runs == 1 {
            self.memory.counts.sessions += 1;
        }
        self.memory.counts.runs += 1;
        Ok(Entered::Run)
    }

    fn count_session(&mut self, depth: u32) {
        let counts = &mut self.memory.counts;
        counts.sessions += 1;
        counts.deepest = counts.deepest.max(depth);
    }
}

/// Whether an event belongs to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entered {
    Run,
    /// To none, and it needs none.
    Outside,
}

/// What is wrong with an event that comes where its session has no run, after so many of them.
fn outside(runs: u32, profile: Profile) -> Breach {
    match (runs, profile) {
        (0, Profile::Native) => Rule::PromptFirst.expected("the prompt of run 1 before it"),
        (0, Profile::Agentscope) => {
            Rule::WithinReply.expected("the start of a reply before it, or an answer or a result")
        }
        (_, Profile::Native | Profile::Agentscope) => Rule::AfterTerminal
            .expected(format!("nothing between the end of run {runs} and the start of the next")),
    }
}
