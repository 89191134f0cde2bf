//! How much clients may ask for.

use std::time::Duration;

/// How much clients may ask for, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How many bytes the body of a request may have. 1 MiB by default.
    pub body: usize,
    /// How long a body may take to arrive. 10 seconds by default.
    pub body_time: Duration,
    /// How many threads are kept. 64 by default; one more takes the place of the one that was idle for longest.
    pub threads: usize,
    /// How many bytes of events a thread or a session keeps in memory. 16 MiB by default.
    pub log: usize,
    /// How many sessions a tenant has at most. 64 by default; another is refused.
    pub sessions_of_tenant: usize,
    /// How many sessions all tenants have together at most. 256 by default; another is refused.
    pub sessions: usize,
    /// How many sessions of a tenant are open at most, where sessions outlive the server. 64 by default; an idle one is closed
    /// for another, the one that was idle for longest.
    pub open_of_tenant: usize,
    /// How many sessions of all tenants are open at most, where they outlive the server. 256 by default.
    pub open: usize,
    /// How many prompts of a session may be open: one that is being answered, and those that wait. 16 by default; another is
    /// refused.
    pub prompts: usize,
    /// How many streams of sessions' events a tenant reads at once at most. 4,096 by default; another is refused.
    pub readers: usize,
    /// How many requests of a tenant may come in a second. 100 by default; 0 for as many as come.
    pub rate: u32,
    /// How many may come at once, beyond that. 200 by default.
    pub burst: u32,
    /// How many connections there are at most. 16,384 by default; another is closed with a refusal.
    pub connections: usize,
    /// How long the head of a request may take to arrive, and how long a connection may be idle. 10 seconds by default.
    pub header_time: Duration,
    /// How many bytes the head of a request may have. 32 KiB by default. It has at most 100 headers.
    pub headers: usize,
    /// How long a request waits for the thread's request before it to let the thread go, whose client may have left without
    /// having been noticed. 1 second by default.
    pub patience: Duration,
    /// How long a request waits for the run before it to end that its client left. 10 seconds by default.
    pub settle: Duration,
    /// How long responses may go on when the server is stopped; then their runs are stopped too. 10 seconds by default.
    pub drain: Duration,
    /// How long those stopped runs may take to end. 5 seconds by default.
    pub stop: Duration,
    /// How long a client may read nothing of its response while something is to be read; then it is taken to have left. 2 minutes
    /// by default.
    pub unread: Duration,
    /// After what silence a comment is sent, by which a client that vanished is noticed. 15 seconds by default.
    pub keep_alive: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 1024 * 1024,
            body_time: Duration::from_secs(10),
            threads: 64,
            log: 16 * 1024 * 1024,
            sessions_of_tenant: 64,
            sessions: 256,
            open_of_tenant: 64,
            open: 256,
            prompts: 16,
            readers: 4_096,
            rate: 100,
            burst: 200,
            connections: 16_384,
            header_time: Duration::from_secs(10),
            headers: 32 * 1024,
            patience: Duration::from_secs(1),
            settle: Duration::from_secs(10),
            drain: Duration::from_secs(10),
            stop: Duration::from_secs(5),
            unread: Duration::from_secs(120),
            keep_alive: Duration::from_secs(15),
        }
    }
}

impl Limits {
    /// How many bytes the body of a request may have.
    #[must_use]
    pub fn body(mut self, bytes: usize) -> Self {
        self.body = bytes;
        self
    }

    /// How long a body may take to arrive.
    #[must_use]
    pub fn body_time(mut self, time: Duration) -> Self {
        self.body_time = time;
        self
    }

    /// How many threads are kept; at least one.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// How many sessions a tenant has at most, and all tenants together.
    #[must_use]
    pub fn sessions(mut self, of_tenant: usize, of_all: usize) -> Self {
        (self.sessions_of_tenant, self.sessions) = (of_tenant, of_all);
        self
    }

    /// How many sessions of a tenant are open at most, and of all tenants together, where sessions outlive the server; at least
    /// one.
    #[must_use]
    pub fn open(mut self, of_tenant: usize, of_all: usize) -> Self {
        (self.open_of_tenant, self.open) = (of_tenant.max(1), of_all.max(1));
        self
    }

    /// How many prompts of a session may be open; 1 to 32.
    #[must_use]
    pub fn prompts(mut self, prompts: usize) -> Self {
        // A session itself has room for so many.
        self.prompts = prompts.clamp(1, 32);
        self
    }

    /// How many streams of events a tenant reads at once at most.
    #[must_use]
    pub fn readers(mut self, readers: usize) -> Self {
        self.readers = readers;
        self
    }

    /// How many requests of a tenant may come in a second, and how many at once beyond that. No bound where the rate is 0.
    #[must_use]
    pub fn rate(mut self, per_second: u32, burst: u32) -> Self {
        (self.rate, self.burst) = (per_second, burst);
        self
    }

    /// How many connections there are at most.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// How long the head of a request may take to arrive, and how long a connection may be idle.
    #[must_use]
    pub fn header_time(mut self, time: Duration) -> Self {
        self.header_time = time;
        self
    }

    /// How many bytes the head of a request may have.
    #[must_use]
    pub fn headers(mut self, bytes: usize) -> Self {
        self.headers = bytes;
        self
    }

    /// How many bytes of events a thread or a session keeps in memory.
    #[must_use]
    pub fn log(mut self, bytes: usize) -> Self {
        self.log = bytes;
        self
    }

    /// How long a request waits for the thread's request before it to let the thread go.
    #[must_use]
    pub fn patience(mut self, time: Duration) -> Self {
        self.patience = time;
        self
    }

    /// How long responses may go on when the server is stopped.
    #[must_use]
    pub fn drain(mut self, time: Duration) -> Self {
        self.drain = time;
        self
    }

    /// How long a client may read nothing of its response while something is to be read.
    #[must_use]
    pub fn unread(mut self, time: Duration) -> Self {
        self.unread = time;
        self
    }

    /// After what silence a comment is sent.
    #[must_use]
    pub fn keep_alive(mut self, time: Duration) -> Self {
        self.keep_alive = time;
        self
    }
}
