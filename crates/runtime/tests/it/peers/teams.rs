//! A team and each of its members are sessions of their own.

use std::collections::BTreeSet;

use anabranch_proto::{EventKind, Outcome, SourceType};
use anabranch_runtime::{Agent, ScriptedModel, SpawnSubagent, Team, Turn};
use serde_json::json;

use super::{announced, report, terminals};
use crate::support::{events, kind, of_child, own, says};

fn master(team: Team) -> Agent {
    let model = ScriptedModel::new("scripted")
        .turn(|_| Turn::new().call("team", json!({ "task": "Look." })))
        .turn(report);
    Agent::builder("master", model).tool(SpawnSubagent::team(team).as_tool("team", "")).build()
}

#[tokio::test]
async fn members_of_one_name_share_no_session() {
    for team in [Team::parallel("team"), Team::sequential("team")] {
        let team =
            team.member(says("same", "one ")).member(says("same", "two ")).member(says("same", "three "));
        let session = master(team).session();
        let seen = events(session.prompt("Go.").await.unwrap()).await;
        let sessions: BTreeSet<_> =
            of_child(&seen, "same").map(|event| &event.scope.child().unwrap().child_session_id).collect();
        assert_eq!((announced(&seen), sessions.len()), (4, 3));
        let mut said: Vec<_> = sessions
            .iter()
            .map(|session| {
                let own = of_child(&seen, "same").filter(|event| {
                    event.scope.child().is_some_and(|child| child.child_session_id == **session)
                });
                kind(own, |kind| {
                    if let EventKind::TextBlockDelta(delta) = kind { Some(&*delta.delta) } else { None }
                })
                .concat()
            })
            .collect();
        said.sort_unstable();
        assert_eq!(said, ["one ", "three ", "two "], "nobody's words are another's");
    }
}

#[tokio::test]
async fn a_team_and_each_member_are_announced_once_where_they_belong() {
    for (team, source_type) in [
        (Team::parallel("team"), SourceType::TeamParallel),
        (Team::sequential("team"), SourceType::TeamSequential),
    ] {
        let team = team.member(says("first", "one")).member(says("second", "two"));
        let session = master(team).session();
        let seen = events(session.prompt("Go.").await.unwrap()).await;
        let spawns: Vec<_> = seen
            .iter()
            .filter_map(|event| {
                let EventKind::SpawnSessionStart(spawn) = &event.kind else { return None };
                let by = event.scope.child().map_or(".", |child| &child.source_name);
                Some((by, &*spawn.source_name, spawn.source_type, spawn.depth, spawn.tool_call_id.is_some()))
            })
            .collect();
        assert_eq!(
            spawns,
            [
                (".", "team", source_type, 1, true),
                ("team", "first", SourceType::Agent, 2, false),
                ("team", "second", SourceType::Agent, 2, false)
            ]
        );
        let ends = terminals(&seen);
        assert_eq!(ends.len(), 4);
        assert_eq!(ends[2..], [("team", Outcome::Completed), (".", Outcome::Completed)]);
        let spawn = kind(own(&seen), |kind| {
            if let EventKind::SpawnSessionStart(spawn) = kind {
                Some(spawn.child_session_id.clone())
            } else {
                None
            }
        });
        for member in ["first", "second"] {
            assert!(of_child(&seen, member).all(|event| {
                event
                    .scope
                    .child()
                    .is_some_and(|child| child.depth == 2 && child.parent_session_id == spawn[0])
            }));
        }
        assert_eq!(session.with_tree(anabranch_session::SessionTree::len), 4);
    }
}

#[tokio::test]
async fn a_team_without_members_is_no_hang_and_no_failure() {
    for team in [Team::parallel("team"), Team::sequential("team")] {
        let session = master(team).session();
        let seen = events(session.prompt("Go.").await.unwrap()).await;
        assert_eq!(terminals(&seen), [("team", Outcome::Completed), (".", Outcome::Completed)]);
        assert_eq!(session.messages()[1].text(), "success: The sub-agent ended without saying anything.");
    }
}
