//! Ways through a plan.

use super::{AgentPlan, CallPlan, Child, ForeignPlan, Part, Plan, Work};

/// Every agent of the plan, the roots first of all below them.
#[must_use]
pub fn agents(plan: &Plan) -> Vec<&AgentPlan> {
    let mut found = Vec::new();
    let mut waiting: Vec<&AgentPlan> = plan.prompts.iter().rev().map(|prompt| &prompt.agent).collect();
    while let Some(agent) = waiting.pop() {
        found.push(agent);
        for call in agent.calls() {
            let Work::Spawn(spawn) = &call.work else { continue };
            match &spawn.child {
                Child::Agent(child) => waiting.push(child),
                Child::Team(team) => waiting.extend(&team.members),
                Child::Foreign(_) => {}
            }
        }
    }
    found
}

/// Every call of the plan.
pub fn calls(plan: &Plan) -> impl Iterator<Item = &CallPlan> {
    agents(plan).into_iter().flat_map(AgentPlan::calls)
}

/// How deep the plan's deepest child lies.
#[must_use]
pub fn depth(plan: &Plan) -> u32 {
    plan.prompts.iter().map(|prompt| prompt.agent.depth()).max().unwrap_or(0)
}

impl AgentPlan {
    /// The calls that its model makes, in order.
    pub fn calls(&self) -> impl Iterator<Item = &CallPlan> {
        self.turns
            .iter()
            .flat_map(|turn| &turn.parts)
            .filter_map(|part| if let Part::Call(call) = part { Some(call) } else { None })
    }

    fn depth(&self) -> u32 {
        let below = self.calls().map(|call| {
            let Work::Spawn(spawn) = &call.work else { return 0 };
            1 + match &spawn.child {
                Child::Agent(agent) => agent.depth(),
                Child::Foreign(foreign) => foreign.depth(),
                Child::Team(team) => 1 + team.members.iter().map(AgentPlan::depth).max().unwrap_or(0),
            }
        });
        below.max().unwrap_or(0)
    }
}

impl CallPlan {
    /// The numbers of the team's members that it spawns, where it does.
    pub(crate) fn members(&self) -> Vec<u32> {
        let Work::Spawn(spawn) = &self.work else { return Vec::new() };
        let Child::Team(team) = &spawn.child else { return Vec::new() };
        team.members.iter().map(|member| member.number).collect()
    }
}

impl Part {
    /// The call, where it is one.
    pub(crate) fn call(&self) -> Option<&CallPlan> {
        if let Self::Call(call) = self { Some(call) } else { None }
    }
}

impl ForeignPlan {
    fn depth(&self) -> u32 {
        self.nested.as_ref().map_or(0, |nested| 1 + nested.depth())
    }
}
