//! Rounds over one file: eight sessions at work, a kill, a restart, and what is there then.

use std::{
    collections::BTreeMap,
    fs, mem,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anabranch_proto::native;
use anabranch_session::Batch;
use anabranch_store::{SessionQuery, Store, StoreOptions};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet};

use crate::{
    drive::{Person, Place},
    judge::{Case, Stories, Story, judge},
    mode::{Mode, Promise},
    moment::{Deck, Moment},
    plant::planted,
    processes::{Reader, SOON, Server},
    random::Random,
    report::Report,
    seen::{Frame, Seen},
};

/// How many sessions are at work.
const SESSIONS: usize = 8;

/// What stops all rounds: what was found, or why nothing can be.
pub(crate) type Failure = Vec<String>;

#[expect(clippy::needless_pass_by_value, reason = "errors and texts come as they are")]
fn broken(error: impl ToString) -> Failure {
    vec![error.to_string()]
}

/// One file and all that is about it.
pub(crate) struct Campaign<'a> {
    mode: Mode,
    folder: PathBuf,
    random: Random,
    deck: &'a mut Deck,
    report: &'a mut Report,
    server: Option<Server>,
    address: String,
    /// Which of the servers it is.
    number: u64,
    startup: Duration,
    reader: Option<Reader>,
    /// How many files readers have written; a new one where cursors are no good.
    reader_files: u64,
    sessions: Vec<String>,
    place: watch::Sender<Place>,
    taken_by: Vec<Arc<AtomicU64>>,
    answered: Arc<AtomicU64>,
    stops: Arc<AtomicBool>,
    people: JoinSet<()>,
}

impl<'a> Campaign<'a> {
    pub(crate) fn new(
        mode: Mode,
        folder: PathBuf,
        random: Random,
        deck: &'a mut Deck,
        report: &'a mut Report,
    ) -> Self {
        Self {
            mode,
            folder,
            random,
            deck,
            report,
            server: None,
            address: String::new(),
            number: 0,
            startup: Duration::ZERO,
            reader: None,
            reader_files: 0,
            sessions: Vec::new(),
            place: watch::Sender::new(None),
            taken_by: Vec::new(),
            answered: Arc::default(),
            stops: Arc::default(),
            people: JoinSet::new(),
        }
    }

    /// Plays so many rounds, and lets all come to its end.
    pub(crate) async fn play(&mut self, rounds: u64) -> Result<(), Failure> {
        self.start().await?;
        self.begin().await?;
        let mut last = None;
        for _ in 0..rounds {
            self.report.rounds += 1;
            last = Some(self.round().await?);
        }
        self.end(last).await
    }

    fn file(&self) -> PathBuf {
        self.folder.join("sessions.db")
    }

    fn seen_file(&self) -> PathBuf {
        self.folder.join(format!("seen-{}.tsv", self.reader_files))
    }

    /// Starts a server and waits for it.
    async fn start(&mut self) -> Result<(), Failure> {
        self.number += 1;
        let begun = Instant::now();
        let mut server = Server::start(&self.file(), self.mode).map_err(broken)?;
        self.address = server.ready().await.map_err(broken)?;
        self.startup = begun.elapsed();
        self.server = Some(server);
        Ok(())
    }

    /// Makes the sessions, and lets people and the reader at them.
    async fn begin(&mut self) -> Result<(), Failure> {
        let client = reqwest::Client::new();
        for _ in 0..SESSIONS {
            let made = client.post(format!("http://{}/sessions", self.address)).json(&json!({}));
            let made = made.send().await.and_then(reqwest::Response::error_for_status).map_err(broken)?;
            let made: Value = made.json().await.map_err(broken)?;
            self.sessions
                .push(made["id"].as_str().ok_or_else(|| broken("a session without an id"))?.to_owned());
        }
        self.start_reader().await?;
        for session in &self.sessions {
            let taken_by = Arc::new(AtomicU64::new(0));
            self.taken_by.push(Arc::clone(&taken_by));
            let person = Person {
                session: session.clone(),
                random: Random::new(self.random.number()),
                place: self.place.subscribe(),
                taken_by,
                answered: Arc::clone(&self.answered),
                stops: Arc::clone(&self.stops),
            };
            self.people.spawn(person.talk());
        }
        self.show();
        Ok(())
    }

    async fn start_reader(&mut self) -> Result<(), Failure> {
        let mut reader = Reader::start(&self.seen_file(), &self.sessions).map_err(broken)?;
        reader.at(&self.address, self.number).await.map_err(broken)?;
        self.reader = Some(reader);
        Ok(())
    }

    /// Tells people where the server is.
    fn show(&self) {
        self.place.send_replace(Some((self.address.clone(), self.number)));
    }

    /// Waits until the server has taken a prompt in each session: so they go on after a restart.
    async fn all_at_work(&self) -> Result<(), Failure> {
        let begun = Instant::now();
        while let Some(idle) = self.taken_by.iter().position(|by| by.load(Ordering::SeqCst) != self.number) {
            if begun.elapsed() > SOON {
                let session = self.sessions.get(idle).map_or("", String::as_str);
                return Err(broken(format!("{session}: takes no prompt from server {}", self.number)));
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    async fn round(&mut self) -> Result<Case, Failure> {
        self.all_at_work().await?;
        let moment = self.deck.next(self.mode, &mut self.random);
        let at = Duration::from_millis(self.random.below(500));
        tokio::time::sleep(at).await;
        let caught = self.wait_for(moment).await?;
        let killed = self.number;
        let durable = self.kill().await?;
        let mut left = vec![self.look("left").await?];
        let held = (moment == Moment::Held).then_some(caught.clone()).flatten();
        match (moment, &caught) {
            (Moment::Held | Moment::Commit | Moment::Forgetting, Some(_)) => self.report.kill(moment),
            _ => self.report.kill(Moment::Any),
        }
        if moment == Moment::Restart {
            for _ in 0..=self.random.below(2) {
                self.kill_during_restart().await?;
                left.push(self.look("left").await?);
            }
        }
        self.start().await?;
        let found = self.ask().await?;
        let case = Case {
            promise: self.mode.promise(),
            left,
            found,
            seen: self.seen()?,
            durable,
            held: held.map(|(session, seq)| (killed, session, seq)),
            killed: true,
        };
        let checked = judge(&case)?;
        self.note(&case, moment, caught.as_ref());
        self.report.add(&checked);
        self.next_reader(&case, checked.seen, checked.lost).await?;
        self.show();
        Ok(case)
    }

    fn note(&mut self, case: &Case, moment: Moment, caught: Option<&(String, u64)>) {
        let mut line = format!("round {:>3}  {:<12} {}", self.report.rounds, self.mode.name(), moment.text());
        if let Some((session, seq)) = caught {
            let last = case.left.first().and_then(|left| left.get(session)).map_or(0, Story::last);
            let on_disk = last >= *seq;
            if moment == Moment::Held {
                self.report.on_disk += u64::from(on_disk);
            }
            line += if on_disk { ", on disk: event " } else { ", lost: event " };
            line += &seq.to_string();
        }
        println!("{line}");
    }

    /// Waits for the moment; gives what the trap caught.
    async fn wait_for(&mut self, moment: Moment) -> Result<Option<(String, u64)>, Failure> {
        let server = self.server.as_mut().ok_or_else(|| broken("there is no server"))?;
        let (event, hold, linger) = match moment {
            Moment::Held => {
                let events = ["spawn", "child-end", "root-end", "result", "question", "answer"];
                let which = usize::try_from(self.random.below(events.len() as u64)).unwrap_or_default();
                (events.get(which).copied().unwrap_or("spawn"), true, 60_000)
            }
            Moment::Commit => ("result", false, 5_000),
            Moment::Forgetting => ("root-end", false, 30_000),
            Moment::Restart | Moment::Any => return Ok(None),
        };
        server.trap(event, self.random.below(6), hold).await.map_err(broken)?;
        let Ok(Some(caught)) = tokio::time::timeout(SOON, server.caught()).await else {
            return Err(broken(format!("no {event} was appended")));
        };
        // Some at once, some when the disk has had its time.
        let wait = if self.random.below(3) == 0 { 0 } else { self.random.below(linger) };
        tokio::time::sleep(Duration::from_micros(wait)).await;
        Ok(Some(caught))
    }

    async fn kill(&mut self) -> Result<BTreeMap<String, u64>, Failure> {
        let server = self.server.take().ok_or_else(|| broken("there is no server"))?;
        let durable = server.kill().await.map_err(broken)?;
        self.place.send_replace(None);
        Ok(durable)
    }

    async fn kill_during_restart(&mut self) -> Result<(), Failure> {
        self.number += 1;
        let server = Server::start(&self.file(), self.mode).map_err(broken)?;
        let most = u64::try_from(self.startup.as_micros()).unwrap_or(u64::MAX);
        tokio::time::sleep(Duration::from_micros(self.random.below(most))).await;
        server.kill().await.map_err(broken)?;
        self.report.kill(Moment::Restart);
        Ok(())
    }

    /// What the file has, looked at in a copy: the next server is to find it as it is.
    async fn look(&self, name: &str) -> Result<Stories, Failure> {
        let copy = self.folder.join(name);
        if copy.exists() {
            fs::remove_dir_all(&copy).map_err(broken)?;
        }
        fs::create_dir_all(&copy).map_err(broken)?;
        for name in ["sessions.db", "sessions.db-wal"] {
            if self.folder.join(name).exists() {
                fs::copy(self.folder.join(name), copy.join(name)).map_err(broken)?;
            }
        }
        stories(&copy.join("sessions.db")).await
    }

    /// What the server gives.
    async fn ask(&self) -> Result<Stories, Failure> {
        let client = reqwest::Client::new();
        let mut stories = Stories::new();
        for session in &self.sessions {
            let url = format!("http://{}/sessions/{session}/events?follow=false", self.address);
            let told =
                client.get(url).timeout(SOON).send().await.and_then(reqwest::Response::error_for_status);
            let text = told.map_err(broken)?.text().await.map_err(broken)?;
            let mut story = Story::default();
            for frame in text.split("\n\n").filter_map(|frame| Frame::read(self.number, session, frame)) {
                match (frame.name.as_deref(), frame.position()) {
                    (None, Some(_)) => story.lines.push(frame.data),
                    (Some("gap"), Some((_, to))) if story.lines.is_empty() => story.forgotten = to,
                    (Some("end"), _) if frame.data.contains("caught_up") => {}
                    _ => return Err(broken(format!("{session}: told {frame:?}"))),
                }
            }
            stories.insert(session.clone(), story);
        }
        Ok(stories)
    }

    fn seen(&self) -> Result<Seen, Failure> {
        let path = self.seen_file();
        let text = fs::read(&path).map_err(|error| broken(format!("{}: {error}", path.display())))?;
        Seen::parse(&String::from_utf8_lossy(&text)).map_err(broken)
    }

    /// Has the reader go on: from its cursors where they are good, or with nothing.
    async fn next_reader(&mut self, case: &Case, seen: usize, lost: usize) -> Result<(), Failure> {
        let begins_anew = case.promise != Promise::All;
        let reader = self.reader.take().ok_or_else(|| broken("there is no reader"))?;
        if begins_anew || self.random.below(5) == 0 {
            reader.kill().await.map_err(broken)?;
            self.report.readers_killed += 1;
            if begins_anew {
                self.report.seen += seen;
                self.report.lost += lost;
                self.reader_files += 1;
            }
            return self.start_reader().await;
        }
        let reader = self.reader.insert(reader);
        reader.at(&self.address, self.number).await.map_err(broken)
    }

    /// Lets all come to an end, and judges the whole file.
    async fn end(&mut self, last: Option<Case>) -> Result<(), Failure> {
        self.all_at_work().await?;
        self.stops.store(true, Ordering::SeqCst);
        let people = mem::replace(&mut self.people, JoinSet::new());
        if tokio::time::timeout(SOON, people.join_all()).await.is_err() {
            return Err(broken("a session does not come to its end"));
        }
        let server = self.server.take().ok_or_else(|| broken("there is no server"))?;
        let durable = server.stop().await.map_err(broken)?;
        self.reader.take().ok_or_else(|| broken("there is no reader"))?.stop().await.map_err(broken)?;
        let found = stories(&self.file()).await?;
        let (promise, seen) = (self.mode.promise(), self.seen()?);
        let case = Case { promise, left: Vec::new(), found, seen, durable, held: None, killed: false };
        let checked = judge(&case)?;
        Self::read_to_the_end(&case)?;
        self.report.add_file(&checked);
        self.report.seen += checked.seen;
        self.report.answered += self.answered.load(Ordering::SeqCst);
        for case in last.iter().chain([&case]) {
            self.plant(case)?;
        }
        Ok(())
    }

    /// Spoils what was found to be well: a judge that is content with that is none.
    fn plant(&mut self, case: &Case) -> Result<(), Failure> {
        let planted = planted(case);
        let missed = planted.iter().filter(|(_, spoilt)| judge(spoilt).is_ok());
        let missed: Vec<_> =
            missed.map(|(what, _)| format!("{what} was planted, and is not found")).collect();
        self.report.faults_found += planted.len();
        if missed.is_empty() { Ok(()) } else { Err(missed) }
    }

    /// Whoever follows a server to its end in order has all.
    fn read_to_the_end(case: &Case) -> Result<(), Failure> {
        let mut findings = Vec::new();
        for (session, story) in &case.found {
            let last = case.seen.sessions.get(session).and_then(|frames| {
                frames.iter().rev().find_map(|frame| frame.position().map(|(_, seq)| seq))
            });
            if last != Some(story.last()) {
                findings.push(format!("{session}: seen up to {last:?}, and {} is the last", story.last()));
            }
        }
        if findings.is_empty() { Ok(()) } else { Err(findings) }
    }
}

/// All that a file has, which nobody else has open.
async fn stories(file: &Path) -> Result<Stories, Failure> {
    let store = Store::open(file, StoreOptions::new()).await.map_err(broken)?;
    let reader = store.reader();
    let faults = reader.check().await.map_err(broken)?;
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut all = Stories::new();
    for root in reader.roots(SessionQuery::new()).await.map_err(broken)? {
        let mut one = Story::default();
        loop {
            match reader.events(root.id.clone(), one.last(), 1_000).await.map_err(broken)? {
                Batch::Gap { to, .. } => one.forgotten = to,
                Batch::Events(events) if events.is_empty() => break,
                Batch::Events(events) => {
                    for admitted in events {
                        let mut line = Vec::new();
                        native::write(Some(admitted.seq), &admitted.event, &mut line).map_err(broken)?;
                        one.lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
                    }
                }
            }
        }
        all.insert(root.id.to_string(), one);
    }
    store.close().await.map_err(broken)?;
    Ok(all)
}
