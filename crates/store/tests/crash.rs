//! A process that is killed in mid-work: what it had said to be durable is there, once, in order, without a hole.
//!
//! The process is this program again, with an argument that says what it is to do.

use std::{
    env,
    error::Error,
    io::{BufRead as _, BufReader, Write as _, stdout},
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use anabranch_proto::{
    Admitted, ErrorInfo, ErrorType, Stamp, Timestamp,
    grammar::{Profile, Verifier},
};
use anabranch_session::{
    Batch, EventLog,
    conformance::{ROOT, RUN, conversation},
};
use anabranch_store::{Barriers, SessionLog, SessionQuery, Store, StoreError, StoreOptions, StoreReader};

/// How many runs the events of a session are.
const RUNS: u64 = 200;

/// How often a process is killed.
const ROUNDS: u64 = 25;

type Outcome = Result<(), Box<dyn Error>>;
type Test = (&'static str, fn() -> Outcome);

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().collect();
    let outcome = match (arguments.get(1).and_then(|verb| verb.to_str()), arguments.get(2)) {
        (Some("append"), Some(path)) => append(Path::new(path)),
        (Some("open"), Some(path)) => open(Path::new(path)),
        // Whatever a test runner says.
        _ => all(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn all() -> Outcome {
    let tests: [Test; 3] = [
        (
            "what_a_killed_process_said_to_be_durable_is_there",
            what_a_killed_process_said_to_be_durable_is_there,
        ),
        ("what_was_open_is_closed_once_after_a_kill", what_was_open_is_closed_once_after_a_kill),
        (
            "a_second_process_is_told_that_the_file_is_in_use",
            a_second_process_is_told_that_the_file_is_in_use,
        ),
    ];
    for (name, test) in tests {
        test().map_err(|error| format!("test {name} ... FAILED: {error}"))?;
        println!("test {name} ... ok");
    }
    Ok(())
}

fn options(round: u64) -> StoreOptions {
    let barriers = if round.is_multiple_of(2) { Barriers::Held } else { Barriers::Open };
    // So that it is killed while it writes, and not before it has begun to.
    StoreOptions::new().barriers(barriers).waiting_bytes(50_000)
}

fn block_on<F: Future>(future: F) -> F::Output {
    // The store needs no runtime; this one is at hand.
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap_or_else(|error| panic!("no runtime: {error}")).block_on(future)
}

/// Appends until it is killed, and says on its output what is durable.
fn append(path: &Path) -> Outcome {
    let all = conversation(RUNS);
    let (round, sessions) = (env::var("ROUND")?.parse()?, env::var("SESSIONS")?.parse()?);
    let store = block_on(Store::open(path, options(round)))?;
    let mut random = Random(round);
    let mut logs: Vec<(SessionLog, u64)> = Vec::new();
    let mut made = 0;
    loop {
        // Those that are full are left behind.
        logs.retain(|(log, _)| log.last() < RUNS * RUN);
        while logs.len() < sessions {
            let id = if made == 0 { ROOT.to_owned() } else { format!("root_{made}") };
            made += 1;
            let log = match block_on(store.log(&*id)) {
                Err(StoreError::NoSession { .. }) => block_on(store.create(&*id))?,
                log => log?,
            };
            logs.push((log, 0));
        }
        for (log, said) in &mut logs {
            if let Some(room) = log.room() {
                block_on(room);
            }
            let last = usize::try_from(log.last())?;
            let count = usize::try_from(1 + random.below(40))?.min(all.len() - last);
            log.append(all.get(last..last + count).ok_or("no events")?)?;
            let durable = *log.durable().borrow();
            if durable > *said {
                *said = durable;
                writeln!(stdout(), "{} {durable}", log.id())?;
                stdout().flush()?;
            }
        }
        if random.below(4) == 0 {
            thread::sleep(Duration::from_micros(random.below(2_000)));
        }
    }
}

fn open(path: &Path) -> Outcome {
    block_on(block_on(Store::open(path, StoreOptions::new()))?.close())?;
    Ok(())
}

fn what_a_killed_process_said_to_be_durable_is_there() -> Outcome {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let path = folder.path().join("sessions.db");
    let all = conversation(RUNS);
    let mut kept = 0;
    for round in 0..ROUNDS {
        let said = kill_one(&path, round, 4)?;
        let store = block_on(Store::open(&path, StoreOptions::new()))?;
        let faults = block_on(store.reader().check())?;
        assert!(faults.is_empty(), "round {round}: {faults:?}");
        let mut events = 0;
        for root in block_on(store.reader().roots(SessionQuery::new()))? {
            let log = block_on(store.log(root.id.clone()))?;
            let found = whole(&log)?;
            assert_eq!(found, all.get(..found.len()).unwrap_or_default(), "round {round}: {}", root.id);
            events += found.len();
        }
        for (session, durable) in &said {
            let last = block_on(store.log(session.as_str()))?.last();
            assert!(last >= *durable, "round {round}: {session} has {last} events of {durable}");
        }
        assert!(events >= kept, "round {round}: {events} events are left of {kept}");
        kept = events;
        block_on(store.close())?;
    }
    println!("{ROUNDS} kills, {kept} events kept");
    assert!(kept > 1_000, "{kept} events are none to speak of");
    Ok(())
}

fn what_was_open_is_closed_once_after_a_kill() -> Outcome {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let mut found = None;
    // One in fifty is killed between two runs, and has nothing to close.
    for round in 0..20 {
        let path = folder.path().join(format!("sessions-{round}.db"));
        kill_one(&path, round, 1)?;
        let reader = block_on(StoreReader::open(&path))?;
        if block_on(reader.roots(SessionQuery::new().unfinished()))?
            .iter()
            .any(|root| root.id.as_str() == ROOT)
        {
            found = Some(path);
            break;
        }
    }
    let path = found.ok_or("none was killed within a run")?;
    let why = ErrorInfo::new(ErrorType::other("restart"), "the process was killed");
    for (time, expected) in [(0, 1), (1, 0)] {
        let store = block_on(Store::open(&path, StoreOptions::new()))?;
        let recovered = block_on(store.recover(&Another(time), &why))?;
        assert_eq!(recovered.len(), expected);
        for (session, closed) in recovered {
            let closed = closed?;
            let events = whole(&block_on(store.log(session))?)?;
            assert!(!closed.is_empty() && events.ends_with(&closed));
            let mut verifier = Verifier::new(Profile::Native);
            for Admitted { seq, event, .. } in &events {
                verifier.check_numbered(*seq, event)?;
            }
            verifier.finish()?;
        }
        block_on(store.close())?;
    }
    Ok(())
}

fn a_second_process_is_told_that_the_file_is_in_use() -> Outcome {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let path = folder.path().join("sessions.db");
    let store = block_on(Store::open(&path, StoreOptions::new()))?;
    let open = || Command::new(env::current_exe()?).arg("open").arg(&path).output();
    let refused = open()?;
    let said = String::from_utf8(refused.stderr)?;
    assert!(
        !refused.status.success() && said.contains("is open in another store; close that one first"),
        "{said}"
    );
    block_on(store.close())?;
    assert!(open()?.status.success());
    Ok(())
}

/// Lets a process append, and kills it at some moment. Gives what it said to be durable.
fn kill_one(path: &Path, round: u64, sessions: usize) -> Result<Vec<(String, u64)>, Box<dyn Error>> {
    let mut child = Killed(
        Command::new(env::current_exe()?)
            .arg("append")
            .arg(path)
            .env("ROUND", round.to_string())
            .env("SESSIONS", sessions.to_string())
            .stdout(Stdio::piped())
            .spawn()?,
    );
    let output = child.0.stdout.take().ok_or("no output")?;
    let (sender, lines) = mpsc::channel();
    let reading = thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut random = Random(round + 1_000);
    let mut said: Vec<(String, u64)> = Vec::new();
    let mut note = |line: String| {
        let (session, durable) = line.split_once(' ').unwrap_or_default();
        // What was cut off in mid-line is none.
        if let Ok(durable) = durable.parse() {
            said.retain(|(known, _)| known != session);
            said.push((session.to_owned(), durable));
        }
    };
    for _ in 0..=random.below(60) {
        note(lines.recv_timeout(Duration::from_secs(60))?);
    }
    thread::sleep(Duration::from_micros(random.below(20_000)));
    child.0.kill()?;
    child.0.wait()?;
    // The last line may be cut off, and then say less than it was to say: that is no promise less.
    lines.iter().for_each(note);
    reading.join().map_err(|_| "the reading thread panicked")?;
    Ok(said)
}

/// A process that does not outlive the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn whole(log: &SessionLog) -> Result<Vec<Admitted>, Box<dyn Error>> {
    let mut events: Vec<Admitted> = Vec::new();
    loop {
        let after = events.last().map_or(0, |last| last.seq);
        match block_on(log.read(after, 1_000))? {
            Batch::Events(more) if more.is_empty() => return Ok(events),
            Batch::Events(more) => events.extend(more),
            Batch::Gap { from, to } => return Err(format!("events {from} to {to} are missing").into()),
        }
    }
}

/// The stamp of another program.
struct Another(u64);

impl Stamp for Another {
    fn unique(&self) -> [u8; 16] {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(1 << 40);
        u128::from(NEXT.fetch_add(1 + self.0, Ordering::Relaxed)).to_be_bytes()
    }

    fn ascending(&self) -> [u8; 16] {
        self.unique()
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_unix(1_700_000_000, 0)
    }
}

/// Numbers that are the same each time (an xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        let mut state = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.0 = state;
        state % limit.max(1)
    }
}
