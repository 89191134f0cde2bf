//! The signals that stop a server.

use std::{future::Future, io, process};

/// Ends the process: 128 and the number of the signal for Ctrl-C.
const STOPPED: i32 = 130;

/// Ready when somebody asks the process to end, by Ctrl-C or SIGTERM. Who asks twice does not want to wait: the process
/// then ends at once.
///
/// # Errors
/// Where the system gives no signals.
#[cfg(unix)]
pub(super) fn stop() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};

    // Listening begins here.
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut ends = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupts.recv() => {}
            _ = ends.recv() => {}
        }
        tokio::spawn(async move {
            tokio::select! {
                _ = interrupts.recv() => {}
                _ = ends.recv() => {}
            }
            process::exit(STOPPED);
        });
    })
}

/// Ready when somebody asks the process to end, by Ctrl-C. Who asks twice does not want to wait: the process then ends at
/// once.
///
/// # Errors
/// Where the system gives no signals.
#[cfg(not(unix))]
pub(super) fn stop() -> io::Result<impl Future<Output = ()>> {
    let mut interrupts = tokio::signal::windows::ctrl_c()?;
    Ok(async move {
        interrupts.recv().await;
        tokio::spawn(async move {
            interrupts.recv().await;
            process::exit(STOPPED);
        });
    })
}
