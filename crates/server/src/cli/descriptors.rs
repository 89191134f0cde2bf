//! File descriptors: each connection takes one, and systems give a process few until it asks.

/// What a process has open beside connections: its log, files that tools write, the runtime's own.
#[cfg(unix)]
const BESIDE: u64 = 64;

/// Asks for as many file descriptors as the process may have, and says where these are fewer than connections may be.
#[cfg(unix)]
pub(super) fn provide(connections: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%error, "the process keeps the file descriptors that it has");
    }
    let wanted = u64::try_from(connections).unwrap_or(u64::MAX).saturating_add(BESIDE);
    match getrlimit(Resource::Nofile).current {
        Some(given) if given < wanted => tracing::warn!(
            given,
            connections,
            "there are fewer file descriptors than connections may be; raise the limit (ulimit -n), or give a smaller \
             --max-connections"
        ),
        Some(_) | None => {}
    }
}

/// Elsewhere connections need no file descriptors.
#[cfg(not(unix))]
pub(super) fn provide(_connections: usize) {}
