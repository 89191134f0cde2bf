//! Makes a plan that fails smaller for as long as it fails in the same way.

use crate::plan::{
    AgentPlan, Behaviour, CallPlan, Child, Fate, ForeignEnd, ForeignPlan, LimitsPlan, Meddling, Pace, Part,
    Plan, SessionEnding, TurnEnd, WINDOW, Way, Work,
};

/// How many plans are tried.
const TRIES: usize = 2_000;

/// The least plan that still fails, as far as a bounded number of tries finds it.
#[must_use]
pub fn shrink(plan: &Plan, mut fails: impl FnMut(&Plan) -> bool) -> Plan {
    let mut least = plan.clone();
    let mut tries = 0;
    loop {
        let mut target = 0;
        let mut has_shrunk = false;
        while let Some(smaller) = edited(&least, target) {
            tries += 1;
            if tries > TRIES {
                return least;
            }
            if fails(&smaller) {
                least = smaller;
                has_shrunk = true;
            } else {
                target += 1;
            }
        }
        if !has_shrunk {
            return least;
        }
    }
}

/// The plan with one of all possible simplifications; none where it has not so many.
fn edited(plan: &Plan, target: usize) -> Option<Plan> {
    let mut edited = plan.clone();
    let mut editor = Editor { left: target, is_done: false };
    editor.plan(&mut edited);
    editor.is_done.then_some(edited)
}

/// Walks a plan and makes the edit whose turn it is.
struct Editor {
    left: usize,
    is_done: bool,
}

impl Editor {
    /// Whether this edit is the one.
    fn is_it(&mut self) -> bool {
        if self.is_done {
            return false;
        }
        self.is_done = self.left == 0;
        self.left = self.left.saturating_sub(1);
        self.is_done
    }

    /// Makes a value the simplest, where it is not.
    fn simplify<T: PartialEq>(&mut self, value: &mut T, simplest: T) {
        if *value != simplest && self.is_it() {
            *value = simplest;
        }
    }

    /// Takes half of a long list away, or one after another.
    fn remove<T>(&mut self, list: &mut Vec<T>, least: usize) {
        if list.len() >= 4 + least {
            if self.is_it() {
                list.truncate(list.len() / 2);
                return;
            }
            if self.is_it() {
                list.drain(..list.len() / 2);
                return;
            }
        }
        if list.len() <= least {
            return;
        }
        for index in (0..list.len()).rev() {
            if self.is_it() {
                list.remove(index);
                return;
            }
        }
    }

    fn plan(&mut self, plan: &mut Plan) {
        self.remove(&mut plan.prompts, 1);
        self.remove(&mut plan.readers, 0);
        self.remove(&mut plan.cancels, 0);
        for prompt in &mut plan.prompts {
            self.hoist(&mut prompt.agent);
            self.agent(&mut prompt.agent);
            self.simplify(&mut prompt.queued, false);
            self.simplify(&mut prompt.reply.pace, Pace::Fast);
            self.simplify(&mut prompt.reply.fate, Fate::Reads);
        }
        self.simplify(&mut plan.retention, None);
        self.simplify(&mut plan.linger, 0);
        self.simplify(&mut plan.ending, SessionEnding::Close);
        let LimitsPlan { depth, running, spawned, iterations, window, stall } = &mut plan.limits;
        self.simplify(depth, 6);
        self.simplify(running, 1_000);
        self.simplify(spawned, 10_000);
        self.simplify(iterations, 50);
        self.simplify(window, WINDOW);
        self.simplify(stall, 30_000);
        for reader in &mut plan.readers {
            self.simplify(&mut reader.pace, Pace::Fast);
            self.simplify(&mut reader.comes, 0);
            self.simplify(&mut reader.after, 0);
            self.simplify(&mut reader.vanishes, None);
            self.simplify(&mut reader.lossless, false);
        }
        for cancel in &mut plan.cancels {
            let sooner = cancel.poll / 2;
            if sooner > 0 && self.is_it() {
                cancel.poll = sooner;
            }
            if cancel.poll > 1 && self.is_it() {
                cancel.poll -= 1;
            }
        }
    }

    /// Puts one of an agent's children in its place.
    fn hoist(&mut self, agent: &mut AgentPlan) {
        let children = agent.calls().filter_map(|call| {
            let Work::Spawn(spawn) = &call.work else { return None };
            if let Child::Agent(child) = &spawn.child { Some(child.clone()) } else { None }
        });
        let children: Vec<_> = children.collect();
        for child in children {
            if self.is_it() {
                *agent = child;
                return;
            }
        }
    }

    fn agent(&mut self, agent: &mut AgentPlan) {
        self.remove(&mut agent.turns, 0);
        for turn in &mut agent.turns {
            self.remove(&mut turn.parts, 0);
            self.simplify(&mut turn.end, TurnEnd::Done);
            for part in &mut turn.parts {
                match part {
                    Part::Text(words) | Part::Thinking(words) => self.simplify(words, 1),
                    Part::Usage(_) | Part::Pause(_) | Part::Yield => {}
                    Part::Call(call) => self.call(call),
                }
            }
        }
    }

    fn call(&mut self, call: &mut CallPlan) {
        let simplest = Work::Tool { behaviour: Behaviour::Ok, exclusive: false };
        if call.work != simplest && self.is_it() {
            call.work = simplest;
            return;
        }
        self.simplify(&mut call.meddling, Meddling::None);
        self.simplify(&mut call.ask, None);
        self.simplify(&mut call.repeated, false);
        self.simplify(&mut call.in_parts, false);
        match &mut call.work {
            Work::Tool { exclusive, .. } => self.simplify(exclusive, false),
            Work::Refused(_) | Work::External(_) => {}
            Work::Spawn(spawn) => {
                self.simplify(&mut spawn.timeout, None);
                self.simplify(&mut spawn.way, Way::InTask);
                self.simplify(&mut spawn.fork, false);
                match &mut spawn.child {
                    Child::Agent(agent) => {
                        self.hoist(agent);
                        self.agent(agent);
                    }
                    Child::Foreign(foreign) => self.foreign(foreign),
                    Child::Team(team) => {
                        self.remove(&mut team.members, 0);
                        self.simplify(&mut team.parallel, true);
                        for member in &mut team.members {
                            self.agent(member);
                        }
                    }
                }
            }
        }
    }

    fn foreign(&mut self, foreign: &mut ForeignPlan) {
        self.simplify(&mut foreign.nested, None);
        self.simplify(&mut foreign.pause, 0);
        self.simplify(&mut foreign.words, 0);
        self.simplify(&mut foreign.prompt, false);
        self.simplify(&mut foreign.end, ForeignEnd::Reply);
        if let Some(nested) = &mut foreign.nested {
            self.foreign(nested);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{calls, depth, generate};

    #[test]
    fn a_planted_failure_shrinks_to_the_least_plan_that_has_it() {
        let panics = |plan: &Plan| {
            calls(plan).any(|call| matches!(call.work, Work::Tool { behaviour: Behaviour::PanicAtPoll, .. }))
        };
        let plans: Vec<_> = (0..400).map(generate).filter(|plan| panics(plan) && depth(plan) > 1).collect();
        assert!(plans.len() > 5);
        for plan in plans {
            let least = shrink(&plan, panics);
            assert!(panics(&least));
            assert_eq!((least.prompts.len(), least.readers.len(), least.cancels.len()), (1, 0, 0));
            let left: Vec<_> = calls(&least).collect();
            let spawns = left.iter().filter(|call| matches!(call.work, Work::Spawn(_))).count();
            // What spawns the agent whose call it is stays, and nothing else.
            assert_eq!(left.len(), spawns + 1, "{least:#?}");
            assert!(left.iter().all(|call| call.meddling == Meddling::None && !call.repeated));
        }
    }

    #[test]
    fn what_never_fails_stays_as_it_is() {
        let plan = generate(3);
        assert_eq!(shrink(&plan, |_| false), plan);
    }
}
