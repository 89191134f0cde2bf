//! An agent of the Agent Client Protocol over a pipe whose reader stalls. The agent is a process of its own: this program,
//! told to serve, since its memory is looked at and nothing else may be written to its stdout.

mod agent;
mod client;

use std::{
    env,
    panic::catch_unwind,
    process::{ExitCode, ExitStatus},
    thread,
};

use self::client::Client;

const TESTS: [(&str, fn()); 6] = [
    ("a_reader_that_stands_still_holds_the_agent_back_and_afterwards_has_everything", stands_still),
    ("a_reader_that_is_waited_for_no_longer_is_told_so_and_the_agent_lives_on", waited_for_no_longer),
    ("a_card_has_everything_at_its_end_however_late_it_is_read", reads_late),
    ("a_client_that_says_no_more_and_reads_no_more_ends_the_agent", closes_stdin),
    ("a_client_that_will_never_read_ends_the_agent", closes_stdout),
    ("a_client_that_is_gone_ends_the_agent", closes_both),
];

/// How many bytes of updates are on their way at most.
const ON_THEIR_WAY: usize = 2 * 1024 * 1024;

/// Beside them: what the pump merges and the pipe holds, and the events that wait for it, a quarter more than the window
/// with what each has beside its text.
const WAITING: usize = 16 * 1024 + 64 * 1024 + (1024 + 256) * 1024 / 256 * 8;

/// So many pieces, a megabyte of text, are more than any pipe holds and less than what may be on its way.
const ENOUGH: usize = 150_000;

/// What the session's log keeps.
const LOG: usize = 16 * 1024 * 1024;

/// The SDK's buffer before stdout, of which it uses a part again and again, and the allocator's own.
const BUFFERS: usize = 16 * 1024 * 1024;

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if let Some(told) = agent::Told::from(&arguments) {
        return agent::serve(told);
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let wanted = TESTS.iter().filter(|(name, _)| filter.is_none_or(|filter| name.contains(filter.as_str())));
    let all_passed = thread::scope(|scope| {
        let running: Vec<_> =
            wanted.map(|(name, test)| (name, scope.spawn(move || catch_unwind(test).is_ok()))).collect();
        running.into_iter().fold(true, |all, (name, test)| {
            let passed = test.join().unwrap_or(false);
            println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
            all && passed
        })
    });
    if all_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn stands_still() {
    let pieces = 1_000_000;
    let mut client = Client::of_sessions(pieces);
    let before = client.memory();
    client.prompt();

    // The agent is at work and waits: what it has offered is on its way.
    let offered = agent::text(client.until_it_stands_still(ENOUGH)).len();
    let most = ON_THEIR_WAY + WAITING;
    assert!(offered <= most, "{offered} bytes of text were offered, and there is room for {most}");
    if let (Some((before, _)), Some((now, _))) = (before, client.memory()) {
        let grown = now.saturating_sub(before);
        assert!(grown <= LOG + BUFFERS + 4 * most, "{grown} bytes were taken");
    }

    let seen = client.read_to_the_answer();
    assert_eq!(seen.answer["result"]["stopReason"], "end_turn");
    let child = seen.child.expect("the sub-agent was announced");
    let said = agent::text(pieces);
    assert!(seen.texts[&child] == said.clone() + agent::LAST, "the sub-agent said something else");
    assert_eq!(seen.texts[&client.session], agent::ANSWER);
    let call = |state: &str| format!("{child}/note {state}");
    assert_eq!(
        seen.lifecycle,
        [
            "opened spawn_subagent",
            "call_0_0 in_progress",
            "running",
            "opened note",
            &call("in_progress"),
            &call("completed"),
            "idle",
            "call_0_0 completed"
        ]
    );
    assert!(seen.updates < pieces / 500, "{} updates", seen.updates);
    if let (Some((before, _)), Some((_, peak))) = (before, client.memory()) {
        // What was said is in the messages of the session and of the run, which double where they grow.
        let grown = peak.saturating_sub(before);
        assert!(grown <= LOG + BUFFERS + 4 * most + 4 * said.len(), "{grown} bytes were taken at most");
    }
    client.close_stdin();
    assert!(client.ended().success());
}

fn waited_for_no_longer() {
    let pieces = 500_000;
    let mut client = Client::of_impatient_sessions(pieces, 100);
    let before = client.memory();
    client.prompt();
    // It goes on to its end, and what the log keeps is less than that.
    client.until_it_stands_still(pieces);
    let seen = client.read_to_the_answer();
    let error = seen.answer["error"]["message"].as_str().unwrap();
    assert!(error.contains("forgotten"), "{error}");
    // What came is a beginning, and whatever was open is closed.
    let child = seen.child.expect("the sub-agent was announced");
    let said = agent::text(pieces);
    assert!(said.starts_with(&seen.texts[&child]) && seen.texts[&child].len() < said.len());
    let ends: Vec<_> = seen.lifecycle.iter().rev().take(2).collect();
    assert!(
        ends.contains(&&"unknown".to_owned()) && ends.contains(&&"call_0_0 failed".to_owned()),
        "{ends:?}"
    );
    if let (Some((before, _)), Some((_, peak))) = (before, client.memory()) {
        let grown = peak.saturating_sub(before);
        let most = LOG + BUFFERS + 4 * (ON_THEIR_WAY + WAITING) + 4 * said.len();
        assert!(grown <= most, "{grown} bytes were taken at most");
    }
    assert_ne!(client.new_session(), client.session);
    client.close_stdin();
    assert!(client.ended().success());
}

fn reads_late() {
    let pieces = 200_000;
    let mut client = Client::of_cards(pieces);
    client.prompt();
    client.until_it_stands_still(pieces);
    let seen = client.read_to_the_answer();
    assert_eq!(seen.answer["result"]["stopReason"], "end_turn");
    let spawned = seen.cards.keys().find(|id| id.starts_with("spawn:")).unwrap();
    let texts = seen.cards[spawned].iter().filter(|part| part.get("_meta").is_none());
    let said: String = texts.filter_map(|part| part["content"]["text"].as_str()).collect();
    assert!(said == agent::text(pieces) + agent::LAST, "the card says something else");
    let ends = seen.lifecycle.iter().filter(|what| what.ends_with(" completed"));
    assert_eq!(ends.count(), 3, "{:?}", seen.lifecycle);
    let opened = seen.lifecycle.iter().filter(|what| what.starts_with("opened "));
    assert!(opened.eq(["opened spawn_subagent", "opened Spawned: worker", "opened note"]));
}

/// How an agent ends that had far more to say than this client reads.
fn ended_by(leave: impl FnOnce(&mut Client)) -> ExitStatus {
    let mut client = Client::of_sessions(10_000_000);
    client.prompt();
    client.until_it_stands_still(ENOUGH);
    leave(&mut client);
    client.ended()
}

fn closes_stdin() {
    assert!(ended_by(Client::close_stdin).success());
}

fn closes_stdout() {
    assert_eq!(ended_by(Client::close_stdout).code(), Some(1), "the connection broke off");
}

fn closes_both() {
    let ended = ended_by(|client| {
        client.close_stdout();
        client.close_stdin();
    });
    // Which is seen first is nobody's to say.
    assert!(ended.code().is_some_and(|code| code <= 1), "{ended}");
}
