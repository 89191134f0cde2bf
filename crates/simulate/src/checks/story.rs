//! What happened, put beside what was planned: runs and their calls.

use std::collections::HashMap;

use anabranch_proto::{
    Admitted, ErrorInfo, EventKind, Outcome, Scope, SessionId, ToolCallId, ToolResultState,
    event::{StreamComplete, ToolResultEnd},
};

use crate::{
    fakes::{agent_name, foreign_name, team_name},
    plan::{self, AgentPlan, CallPlan, Child, ForeignPlan, Plan, SpawnPlan, TeamPlan, Work},
    run::Record,
};

/// What happened, put beside what was planned.
pub(crate) struct Story<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) record: &'a Record,
    /// The root's runs in order, then each child's.
    pub(crate) runs: Vec<Run<'a>>,
}

/// One run of a session.
pub(crate) struct Run<'a> {
    pub(crate) name: String,
    pub(crate) session: &'a SessionId,
    pub(crate) depth: u32,
    pub(crate) who: Who<'a>,
    /// Which prompt it answers, where it is the root's.
    pub(crate) prompt: Option<usize>,
    /// The run above it, and the call there, by their places; none for the root and what a foreign stream spawned.
    pub(crate) parent: Option<(usize, usize)>,
    /// The team whose member it is, by the place of its run.
    pub(crate) team: Option<usize>,
    pub(crate) spawn: Option<&'a SpawnPlan>,
    /// When it was announced.
    pub(crate) announced: Option<&'a Admitted>,
    pub(crate) events: Vec<&'a Admitted>,
    pub(crate) calls: Vec<Call<'a>>,
}

/// Whose run it is.
#[derive(Clone, Copy)]
pub(crate) enum Who<'a> {
    Agent(&'a AgentPlan),
    Foreign(&'a ForeignPlan),
    Team(&'a TeamPlan),
    /// What a foreign stream spawned.
    Nested,
    /// Nobody's in the plan.
    Unknown,
}

/// A call of a run.
pub(crate) struct Call<'a> {
    pub(crate) id: &'a ToolCallId,
    /// None where the plan has no such call.
    pub(crate) plan: Option<&'a CallPlan>,
    pub(crate) end: Option<(u64, &'a ToolResultEnd)>,
    pub(crate) text: String,
    /// Whether the model was called after its result: then it ended by itself.
    pub(crate) is_natural: bool,
    /// The child that it spawned, by the place of its run.
    pub(crate) child: Option<usize>,
}

impl Call<'_> {
    pub(crate) fn state(&self) -> Option<ToolResultState> {
        self.end.map(|(_, end)| end.state)
    }
}

impl<'a> Run<'a> {
    pub(crate) fn terminal(&self) -> Option<(&'a Admitted, &'a StreamComplete)> {
        self.events.iter().rev().find_map(|admitted| {
            if let EventKind::StreamComplete(complete) = &admitted.event.kind {
                Some((*admitted, &**complete))
            } else {
                None
            }
        })
    }

    /// Whether nobody waits for it.
    pub(crate) fn is_background(&self) -> bool {
        self.spawn.is_some_and(|spawn| spawn.way.is_background())
    }

    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.terminal().map(|(_, complete)| complete.outcome)
    }

    pub(crate) fn error(&self) -> Option<&'a ErrorInfo> {
        self.terminal().and_then(|(_, complete)| complete.error.as_ref())
    }
}

impl<'a> Story<'a> {
    pub(crate) fn new(plan: &'a Plan, record: &'a Record) -> Self {
        let mut runs = root_runs(plan, record);
        children_runs(plan, record, &mut runs);
        for run in &mut runs {
            run.calls = calls(run);
        }
        link(&mut runs);
        Self { plan, record, runs }
    }

    /// Whether a call on the way from a run to the root did something that the test holds for.
    pub(crate) fn any_call_above(&self, run: &Run<'_>, test: impl Fn(&Run<'_>, &Call<'_>) -> bool) -> bool {
        let mut below = run;
        loop {
            if let Some(team) = below.team.and_then(|team| self.runs.get(team)) {
                below = team;
                continue;
            }
            // What a background child says goes by none of its parent's calls.
            let Some((parent, call)) = below.parent.filter(|_| !below.is_background()) else { return false };
            let Some(run) = self.runs.get(parent) else { return false };
            if run.calls.get(call).is_some_and(|call| test(run, call)) {
                return true;
            }
            below = run;
        }
    }

    /// Whether a run is a background child, or below one.
    pub(crate) fn is_in_background(&self, run: &Run<'_>) -> bool {
        let mut below = run;
        while !below.is_background() {
            let Some(EventKind::SpawnSessionStart(spawn)) =
                below.announced.map(|announced| &announced.event.kind)
            else {
                return false;
            };
            let above = self.runs.iter().find(|above| *above.session == spawn.parent_session_id);
            let Some(above) = above else { return false };
            below = above;
        }
        true
    }
}

/// The root's events, cut behind each terminal.
fn root_runs<'a>(plan: &'a Plan, record: &'a Record) -> Vec<Run<'a>> {
    let mut runs: Vec<Run<'a>> = Vec::new();
    let mut is_open = false;
    for admitted in record.log.iter().filter(|admitted| admitted.event.scope == Scope::Root) {
        // Between two runs stands what is said of background children.
        let begins = matches!(admitted.event.kind, EventKind::UserMessage(_));
        if !is_open && !begins {
            continue;
        }
        if !is_open {
            let number = runs.len();
            let agent = plan.prompts.get(number).map(|prompt| &prompt.agent);
            runs.push(Run {
                name: "root".to_owned(),
                session: &record.root,
                depth: 0,
                who: agent.map_or(Who::Unknown, Who::Agent),
                prompt: Some(number),
                parent: None,
                team: None,
                spawn: None,
                announced: None,
                events: Vec::new(),
                calls: Vec::new(),
            });
        }
        if let Some(run) = runs.last_mut() {
            run.events.push(admitted);
        }
        is_open = !matches!(admitted.event.kind, EventKind::StreamComplete(_));
    }
    runs
}

fn children_runs<'a>(plan: &'a Plan, record: &'a Record, runs: &mut Vec<Run<'a>>) {
    let mut named: HashMap<String, (Who<'a>, Option<&'a SpawnPlan>)> = HashMap::new();
    for call in plan::calls(plan) {
        let Work::Spawn(spawn) = &call.work else { continue };
        match &spawn.child {
            Child::Agent(agent) => {
                named.insert(agent_name(agent.number), (Who::Agent(agent), Some(spawn)));
            }
            Child::Team(team) => {
                named.insert(team_name(team.number), (Who::Team(team), Some(spawn)));
                for member in &team.members {
                    named.insert(agent_name(member.number), (Who::Agent(member), None));
                }
            }
            Child::Foreign(foreign) => {
                named.insert(foreign_name(foreign.number), (Who::Foreign(foreign), Some(spawn)));
            }
        }
    }
    let mut places: HashMap<(&SessionId, u32), usize> = HashMap::new();
    for admitted in &record.log {
        if let EventKind::SpawnSessionStart(spawn) = &admitted.event.kind {
            let name = spawn.source_name.to_string();
            let other = if name.starts_with('f') { Who::Nested } else { Who::Unknown };
            let (who, planned) = named.get(&name).copied().unwrap_or((other, None));
            places.insert((&spawn.child_session_id, spawn.run.unwrap_or(1)), runs.len());
            runs.push(Run {
                name,
                session: &spawn.child_session_id,
                depth: spawn.depth,
                who,
                prompt: None,
                parent: None,
                team: None,
                spawn: planned,
                announced: Some(admitted),
                events: Vec::new(),
                calls: Vec::new(),
            });
        }
        if let Some(scope) = admitted.event.scope.child()
            && let Some(run) =
                places.get(&(&scope.child_session_id, scope.run)).and_then(|place| runs.get_mut(*place))
        {
            run.events.push(admitted);
        }
    }
}

/// The calls of a run, each beside the plan's call of the same place.
fn calls<'a>(run: &Run<'a>) -> Vec<Call<'a>> {
    let mut planned: Vec<_> = match run.who {
        Who::Agent(agent) => agent.calls().collect(),
        Who::Foreign(_) | Who::Team(_) | Who::Nested | Who::Unknown => Vec::new(),
    };
    planned.reverse();
    let mut calls: Vec<Call<'a>> = Vec::new();
    for Admitted { seq, event, .. } in run.events.iter().copied() {
        let of = |calls: &'_ mut Vec<Call<'a>>, id: &ToolCallId| calls.iter().position(|call| call.id == id);
        if let EventKind::ToolCallStart(start) = &event.kind {
            let plan = planned.pop();
            let id = &start.tool_call_id;
            calls.push(Call { id, plan, end: None, text: String::new(), is_natural: false, child: None });
        } else if let EventKind::ToolResultTextDelta(delta) = &event.kind {
            if let Some(call) = of(&mut calls, &delta.tool_call_id).and_then(|call| calls.get_mut(call)) {
                call.text.push_str(&delta.delta);
            }
        } else if let EventKind::ToolResultEnd(end) = &event.kind {
            if let Some(call) = of(&mut calls, &end.tool_call_id).and_then(|call| calls.get_mut(call)) {
                call.end = Some((*seq, end));
            }
        } else if let EventKind::ModelCallStart(_) | EventKind::ExceedMaxIters(_) = &event.kind {
            for call in &mut calls {
                call.is_natural = call.end.is_some();
            }
        }
    }
    calls
}

/// Puts children below the calls that spawned them, and members below their teams.
fn link(runs: &mut [Run<'_>]) {
    let team = |run: &Run<'_>| {
        let EventKind::SpawnSessionStart(spawn) = &run.announced?.event.kind else { return None };
        let is_team =
            |team: &Run<'_>| matches!(team.who, Who::Team(_)) && *team.session == spawn.parent_session_id;
        runs.iter().position(is_team)
    };
    let teams: Vec<_> = runs.iter().map(team).collect();
    for (run, team) in runs.iter_mut().zip(teams) {
        run.team = team;
    }
    let parents: Vec<_> = runs
        .iter()
        .map(|run| {
            let Some(EventKind::SpawnSessionStart(spawn)) =
                run.announced.map(|announced| &announced.event.kind)
            else {
                return None;
            };
            // From the last run of a session: a call's id is unique in its session.
            let wanted = spawn.tool_call_id.as_ref()?;
            runs.iter().enumerate().find_map(|(place, parent)| {
                let is_parent = *parent.session == spawn.parent_session_id;
                let call = parent.calls.iter().position(|call| is_parent && call.id == wanted)?;
                Some((place, call))
            })
        })
        .collect();
    for (place, parent) in parents.into_iter().enumerate() {
        let Some((above, call)) = parent else { continue };
        if let Some(run) = runs.get_mut(place) {
            run.parent = Some((above, call));
        }
        if let Some(call) = runs.get_mut(above).and_then(|above| above.calls.get_mut(call)) {
            call.child = Some(place);
        }
    }
}
