//! Ctrl-C.

use std::{io, process, thread};

use anabranch_runtime::Session;

/// Somebody stopped the run by Ctrl-C: 128 and the number of the signal.
pub(crate) const STOPPED: u8 = 130;

/// From now on the first Ctrl-C stops the session's run in order and the second ends the process at once.
///
/// On a thread with a runtime of its own, so that no tool that waits for a disk and no output that nobody reads is in
/// the way.
///
/// # Errors
/// Where the system gives no signals or no thread.
pub(crate) fn on_ctrl_c(session: Session) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut interrupts = {
        let _inside = runtime.enter();
        // Listening begins here.
        interrupts()?
    };
    let listen = async move {
        interrupts.recv().await;
        session.cancel();
        interrupts.recv().await;
        process::exit(STOPPED.into());
    };
    thread::Builder::new().name("ctrl-c".to_owned()).spawn(move || runtime.block_on(listen))?;
    Ok(())
}

#[cfg(unix)]
fn interrupts() -> io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
}

#[cfg(windows)]
fn interrupts() -> io::Result<tokio::signal::windows::CtrlC> {
    tokio::signal::windows::ctrl_c()
}
