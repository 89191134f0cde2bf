//! The client: it writes and reads lines, and when it reads is the test's to say.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{BufRead as _, BufReader, Lines, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::agent;

/// After this the agent is taken for one that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long nothing has to change to be taken for standing still.
const STILL: Duration = Duration::from_secs(1);

/// An agent, and the client's side of the pipe to it.
pub(crate) struct Client {
    process: Arc<Mutex<Child>>,
    id: u32,
    stdin: Option<ChildStdin>,
    stdout: Option<Lines<BufReader<ChildStdout>>>,
    /// How many pieces the agent said that it has offered.
    offered: Arc<AtomicUsize>,
    pub(crate) session: String,
    /// Dropped when the test is over.
    _over: mpsc::Sender<()>,
}

/// What came until the prompt was answered.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) answer: Value,
    /// The sub-agent's session, where it has one.
    pub(crate) child: Option<String>,
    pub(crate) texts: BTreeMap<String, String>,
    /// What came that is no text, in words.
    pub(crate) lifecycle: Vec<String>,
    /// The last content of each card.
    pub(crate) cards: BTreeMap<String, Vec<Value>>,
    pub(crate) updates: usize,
}

impl Client {
    /// A client that knows sessions of sub-agents.
    pub(crate) fn of_sessions(pieces: usize) -> Self {
        Self::of_impatient_sessions(pieces, 60_000)
    }

    /// The same, of an agent that waits for so many milliseconds for who reads.
    pub(crate) fn of_impatient_sessions(pieces: usize, stall: u64) -> Self {
        Self::new(pieces, stall, &json!({ "subagents": {} }))
    }

    /// One that does not.
    pub(crate) fn of_cards(pieces: usize) -> Self {
        Self::new(pieces, 60_000, &json!({}))
    }

    fn new(pieces: usize, stall: u64, capabilities: &Value) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.arg(agent::SERVE).args([pieces.to_string(), stall.to_string()]);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take().unwrap());
        let stderr = BufReader::new(process.stderr.take().unwrap());
        let offered = Arc::new(AtomicUsize::new(0));
        let told = Arc::clone(&offered);
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                match line.parse::<usize>() {
                    Ok(count) => told.store(count + agent::TOLD, Ordering::Release),
                    Err(_) => eprintln!("the agent says: {line}"),
                }
            }
        });
        let id = process.id();
        let process = Arc::new(Mutex::new(process));
        let (over, is_over) = mpsc::channel::<()>();
        let watched = Arc::clone(&process);
        thread::spawn(move || {
            if is_over.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("the agent hangs");
                watched.lock().unwrap().kill().ok();
            }
        });
        let stdout = Some(BufReader::new(stdout).lines());
        let mut this = Self { process, id, stdin, stdout, offered, session: String::new(), _over: over };
        this.request(1, "initialize", &json!({ "protocolVersion": 1, "clientCapabilities": capabilities }));
        this.line();
        this.session = this.new_session();
        this
    }

    pub(crate) fn new_session(&mut self) -> String {
        self.request(2, "session/new", &json!({ "cwd": env!("CARGO_TARGET_TMPDIR"), "mcpServers": [] }));
        let new = self.line();
        new["result"]["sessionId"].as_str().expect("a session").to_owned()
    }

    fn request(&mut self, id: u64, method: &str, params: &Value) {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(self.stdin.as_mut().unwrap(), "{request}").unwrap();
    }

    fn line(&mut self) -> Value {
        let line = self.stdout.as_mut().unwrap().next().expect("the agent has ended").unwrap();
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) fn prompt(&mut self) {
        let prompt = json!([{ "type": "text", "text": "Go." }]);
        let params = json!({ "sessionId": self.session, "prompt": prompt });
        self.request(3, "session/prompt", &params);
    }

    /// Waits until the agent has offered so many pieces and offers no more; says how many it has offered at most.
    pub(crate) fn until_it_stands_still(&self, pieces: usize) -> usize {
        let begin = Instant::now();
        let (mut last, mut since) = (0, Instant::now());
        while last < pieces || since.elapsed() < STILL {
            assert!(begin.elapsed() < PATIENCE, "it goes on, or has not begun: {last}");
            thread::sleep(Duration::from_millis(20));
            let now = self.offered.load(Ordering::Acquire);
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        last
    }

    /// Reads until the prompt is answered.
    pub(crate) fn read_to_the_answer(&mut self) -> Seen {
        let mut seen = Seen::default();
        loop {
            let line = self.line();
            if line["id"] == 3 {
                seen.answer = line;
                return seen;
            }
            assert_eq!(line["method"], "session/update");
            seen.update(&line["params"]);
        }
    }

    /// Bytes of memory that the agent has, and the most that it had; as far as the system tells.
    pub(crate) fn memory(&self) -> Option<(usize, usize)> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id)).ok()?;
        let of = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            Some(line.trim().strip_suffix(" kB")?.parse::<usize>().ok()? * 1024)
        };
        Some((of("VmRSS:")?, of("VmHWM:")?))
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn close_stdout(&mut self) {
        self.stdout = None;
    }

    /// Waits until the agent has ended, which it has to.
    pub(crate) fn ended(&self) -> ExitStatus {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.process.lock().unwrap().try_wait().unwrap() {
                return status;
            }
            assert!(begin.elapsed() < PATIENCE / 4, "the agent does not end");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Ok(mut process) = self.process.lock() {
            process.kill().ok();
            process.wait().ok();
        }
    }
}

impl Seen {
    fn update(&mut self, params: &Value) {
        self.updates += 1;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (session, update) = (text(&params["sessionId"]), &params["update"]);
        let what = match update["sessionUpdate"].as_str().unwrap() {
            "agent_message_chunk" => {
                let said = update["content"]["text"].as_str().unwrap();
                return self.texts.entry(session).or_default().push_str(said);
            }
            "subagent_update" => {
                let child = text(&update["sessionId"]);
                assert_eq!(*self.child.get_or_insert_with(|| child.clone()), child);
                text(&update["state"]["state"])
            }
            "tool_call" => format!("opened {}", text(&update["title"])),
            "tool_call_update" => {
                let id = text(&update["toolCallId"]);
                if let Some(content) = update["content"].as_array() {
                    self.cards.insert(id.clone(), content.clone());
                }
                match update["status"].as_str() {
                    Some(status) => format!("{id} {status}"),
                    None => return,
                }
            }
            kind => panic!("{kind} was not asked for"),
        };
        self.lifecycle.push(what);
    }
}
