//! The plan of a seed.

use anabranch_proto::Outcome;

use super::{
    AgentPlan, Ask, Behaviour, CallPlan, Child, ForeignEnd, ForeignPlan, LimitsPlan, Meddling, Part, Plan,
    PromptPlan, Refusal, SessionEnding, SpawnPlan, TeamPlan, TurnEnd, TurnPlan, Way, Work,
    around::{cancel, reader, reply},
};
use crate::Random;

/// How deep children lie at most.
const DEPTH: u32 = 5;

/// After how many milliseconds without an end a session is closed: more than any deadline of a model or a child.
const PATIENCE: u64 = 60_000;

/// How many bytes a lossless reader may be behind where that is not to matter: more than any conversation here has.
pub(crate) const WINDOW: usize = 16 << 20;

/// The plan of a seed. The same for the same seed, for as long as the tables stay what they are.
#[must_use]
pub fn generate(seed: u64) -> Plan {
    let theme = *[Theme::Mixed, Theme::Mixed, Theme::Mixed, Theme::Background]
        .get(usize::try_from(seed % 4).unwrap_or(0))
        .unwrap_or(&Theme::Mixed);
    let mut generator = Generator { random: Random::new(seed), theme, agents: 0, calls: 0, budget: 0 };
    let limits = generator.limits();
    let count = *generator.random.weighted(&[(70, 1), (20, 2), (10, 3)]).unwrap_or(&1);
    let prompts = (0..count).map(|_| generator.prompt()).collect();
    let random = &mut generator.random;
    let readers = (0..random.below(4)).map(|_| reader(random)).collect();
    let cancelled = *random.weighted(&[(60, 0), (30, 1), (10, 3)]).unwrap_or(&0);
    let cancels = (0..cancelled).map(|_| cancel(random)).collect();
    let retention = random.percent(12).then(|| to_usize(random.between(2_000, 20_000)));
    let ending = if random.percent(70) { SessionEnding::Close } else { SessionEnding::Drop };
    let linger = if random.percent(40) { random.between(1, 60) } else { 0 };
    Plan { limits, retention, prompts, readers, cancels, patience: PATIENCE, linger, ending }
}

/// What comes up more often in some seeds, so that it meets itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theme {
    Mixed,
    /// Children in the background and on their own tasks, and models that fail.
    Background,
}

struct Generator {
    random: Random,
    theme: Theme,
    agents: u32,
    calls: u32,
    /// How many agents may still be added below the prompt under way.
    budget: u64,
}

impl Generator {
    fn limits(&mut self) -> LimitsPlan {
        let random = &mut self.random;
        let mut unless = |percent: u64, usual: u64, least: u64, most: u64| {
            if random.percent(percent) { random.between(least, most) } else { usual }
        };
        // A reader that has no room holds models up too: for less than they are given.
        let (window, stall) = match unless(30, 0, 300, 6_000) {
            0 => (WINDOW, 30_000),
            window => (to_usize(window), unless(100, 0, 5, 200)),
        };
        LimitsPlan {
            depth: to_u32(unless(10, 6, 0, 3)),
            running: to_usize(unless(12, 1_000, 1, 4)),
            spawned: to_usize(unless(10, 10_000, 1, 6)),
            iterations: to_u32(unless(8, 50, 1, 3)),
            window,
            stall,
        }
    }

    fn prompt(&mut self) -> PromptPlan {
        let shape = *self.random.weighted(&[(45, 3), (35, 10), (16, 25), (4, 64)]).unwrap_or(&3);
        let queued = self.random.percent(30);
        let reply = reply(&mut self.random);
        let agent = if shape == 64 {
            self.wide()
        } else {
            self.budget = self.random.between(0, shape);
            self.agent(0)
        };
        PromptPlan { queued, reply, agent }
    }

    /// An agent with as many children as a session may have running by default.
    fn wide(&mut self) -> AgentPlan {
        let number = self.next_agent();
        self.budget = 0;
        let children = self.random.between(30, 64);
        let parts = (0..children).map(|_| {
            let child = Child::Agent(self.agent(DEPTH));
            Part::Call(self.call_of(Work::Spawn(Box::new(SpawnPlan {
                by_tool: true,
                timeout: None,
                way: Way::InTask,
                fork: false,
                child,
            }))))
        });
        let parts = parts.collect();
        AgentPlan { number, turns: vec![TurnPlan { parts, end: TurnEnd::Done }] }
    }

    fn agent(&mut self, depth: u32) -> AgentPlan {
        let number = self.next_agent();
        let count = *self.random.weighted(&[(8, 0), (55, 1), (27, 2), (10, 3)]).unwrap_or(&1);
        AgentPlan { number, turns: (0..count).map(|_| self.turn(depth)).collect() }
    }

    fn turn(&mut self, depth: u32) -> TurnPlan {
        let mut parts = Vec::new();
        let spawns =
            if depth < DEPTH && self.budget > 0 { self.random.between(0, self.budget.min(6)) } else { 0 };
        self.budget -= spawns;
        let tools = *self.random.weighted(&[(50, 0), (25, 1), (15, 2), (8, 3), (2, 6)]).unwrap_or(&0);
        for _ in 0..spawns {
            self.words(&mut parts, 25);
            let spawn = self.spawn(depth);
            let spawn = self.call_of(Work::Spawn(Box::new(spawn)));
            parts.push(Part::Call(spawn));
        }
        for _ in 0..tools {
            self.words(&mut parts, 25);
            let call = self.tool();
            // Among the spawns, not behind them.
            let place = self.random.below(1 + parts.len() as u64);
            parts.insert(to_usize(place), Part::Call(call));
        }
        self.words(&mut parts, 60);
        // A model that answers with nothing has failed; not too many are to.
        let says_nothing =
            !parts.iter().any(|part| matches!(part, Part::Text(_) | Part::Thinking(_) | Part::Call(_)));
        if says_nothing && self.random.percent(90) {
            parts.push(Part::Text(2));
        }
        let fails = self.theme == Theme::Background && self.random.percent(15);
        let end = if fails { TurnEnd::Error } else { self.pick(TurnEnd::TABLE, TurnEnd::Done) };
        TurnPlan { parts, end }
    }

    /// Perhaps something that a model says.
    fn words(&mut self, parts: &mut Vec<Part>, percent: u64) {
        while self.random.percent(percent) {
            let random = &mut self.random;
            parts.push(match random.below(10) {
                0..4 => Part::Text(random.between(1, 5)),
                4..6 => Part::Thinking(random.between(1, 4)),
                6 => Part::Usage(random.between(1, 50)),
                7..9 => Part::Pause(random.between(1, 30)),
                _ => Part::Yield,
            });
        }
    }

    fn spawn(&mut self, depth: u32) -> SpawnPlan {
        let by_tool = self.random.percent(50);
        let timeout = self
            .random
            .percent(35)
            .then(|| if by_tool { 1_000 * self.random.between(1, 3) } else { self.random.between(1, 90) });
        if self.random.percent(18) {
            let child = Child::Foreign(self.foreign(0));
            return SpawnPlan { by_tool: false, timeout, way: Way::InTask, fork: false, child };
        }
        if depth + 2 <= DEPTH && self.random.percent(8) {
            let way = if self.random.percent(25) { Way::OwnTask } else { Way::InTask };
            let child = Child::Team(self.team(depth + 2));
            return SpawnPlan { by_tool: false, timeout, way, fork: false, child };
        }
        let table = if self.theme == Theme::Background { Way::BACKGROUND } else { Way::TABLE };
        let way = match self.pick(table, Way::InTask) {
            // The tool knows two ways.
            Way::OwnTask if by_tool => Way::InTask,
            Way::Kept if by_tool => Way::Background,
            way @ (Way::InTask | Way::OwnTask | Way::Background | Way::Kept) => way,
        };
        let fork = self.random.percent(12);
        SpawnPlan { by_tool, timeout, way, fork, child: Child::Agent(self.agent(depth + 1)) }
    }

    fn team(&mut self, depth: u32) -> TeamPlan {
        let number = self.next_agent();
        let parallel = self.random.percent(50);
        let count = self.random.between(0, 3);
        TeamPlan { number, parallel, members: (0..count).map(|_| self.agent(depth)).collect() }
    }

    fn foreign(&mut self, depth: u32) -> ForeignPlan {
        let number = self.next_agent();
        let random = &mut self.random;
        let (prompt, words) = (random.percent(40), random.between(0, 4));
        let pause = if random.percent(40) { random.between(1, 60) } else { 0 };
        let end = self.pick(
            &[
                (8, ForeignEnd::Terminal(Outcome::Completed)),
                (2, ForeignEnd::Terminal(Outcome::Failed)),
                (1, ForeignEnd::Terminal(Outcome::Interrupted)),
                (1, ForeignEnd::Terminal(Outcome::ExceedMaxIters)),
                (6, ForeignEnd::Reply),
                (2, ForeignEnd::Cut),
                (2, ForeignEnd::Panic),
                (1, ForeignEnd::PanicInDrop),
                (2, ForeignEnd::Never),
            ],
            ForeignEnd::Reply,
        );
        // What goes wrong with the stream goes wrong with the outermost.
        let end = if depth == 0 || matches!(end, ForeignEnd::Terminal(_)) { end } else { ForeignEnd::Cut };
        let nests = depth == 0 && self.random.percent(35);
        let nested = nests.then(|| Box::new(self.foreign(depth + 1)));
        ForeignPlan { number, prompt, words, pause, nested, end }
    }

    fn tool(&mut self) -> CallPlan {
        if self.random.percent(8) {
            let refusal = self.pick(Refusal::TABLE, Refusal::UnknownTool);
            return self.call_of(Work::Refused(refusal));
        }
        if self.random.percent(4) {
            let answered = self.random.percent(80);
            let delay = self.random.between(0, 40);
            return self.call_of(Work::External(answered.then_some(delay)));
        }
        let behaviour = self.pick(Behaviour::TABLE, Behaviour::Ok);
        let exclusive = self.random.percent(10);
        self.call_of(Work::Tool { behaviour, exclusive })
    }

    fn call_of(&mut self, work: Work) -> CallPlan {
        self.calls += 1;
        let number = self.calls;
        let (repeated, in_parts) = (self.random.percent(35), self.random.percent(30));
        let meddling = match work {
            // A layer knows a call by its arguments.
            Work::Refused(Refusal::Malformed | Refusal::NoObject) => Meddling::None,
            Work::Refused(_) | Work::Tool { .. } | Work::Spawn(_) | Work::External(_) => {
                self.pick(Meddling::TABLE, Meddling::None)
            }
        };
        let ask = match work {
            // What cannot run says why by itself.
            Work::Refused(_) => None,
            Work::Tool { .. } | Work::Spawn(_) | Work::External(_) => self.pick(Ask::TABLE, None),
        };
        CallPlan { number, repeated, in_parts, work, meddling, ask }
    }

    fn next_agent(&mut self) -> u32 {
        self.agents += 1;
        self.agents
    }

    fn pick<T: Copy>(&mut self, table: &[(u64, T)], otherwise: T) -> T {
        self.random.weighted(table).copied().unwrap_or(otherwise)
    }
}

fn to_u32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::plan::{agents, calls, depth};

    #[test]
    fn a_seed_has_one_plan() {
        for seed in 0..50 {
            assert_eq!(generate(seed), generate(seed));
        }
        assert_ne!(generate(1), generate(2));
    }

    #[test]
    fn numbers_are_unique_and_depth_is_bounded() {
        for seed in 0..500 {
            let plan = generate(seed);
            let numbers: Vec<_> = calls(&plan).map(|call| call.number).collect();
            assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len());
            let numbers: Vec<_> = agents(&plan).iter().map(|agent| agent.number).collect();
            assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), numbers.len());
            assert!(depth(&plan) <= DEPTH + 2, "seed {seed}");
        }
    }

    #[test]
    fn every_row_of_every_table_comes_up() {
        let plans: Vec<_> = (0..3_000).map(generate).collect();
        let calls: Vec<_> = plans.iter().flat_map(calls).collect();
        for (_, behaviour) in Behaviour::TABLE {
            let is_it =
                |call: &&&CallPlan| matches!(call.work, Work::Tool { behaviour: b, .. } if b == *behaviour);
            assert!(calls.iter().find(is_it).is_some(), "{behaviour:?}");
        }
        for (_, meddling) in Meddling::TABLE {
            assert!(calls.iter().any(|call| call.meddling == *meddling), "{meddling:?}");
        }
        for (_, refusal) in Refusal::TABLE {
            assert!(calls.iter().any(|call| call.work == Work::Refused(*refusal)), "{refusal:?}");
        }
        assert!(plans.iter().any(|plan| depth(plan) == DEPTH));
    }
}
