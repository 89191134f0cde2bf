//! The reader: a process of its own that follows all sessions over HTTP, whatever becomes of the server, and has seen an event
//! when that is in its file and on the disk.

use std::{
    error::Error,
    fs::{File, OpenOptions},
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use clap::Args;
use futures::StreamExt as _;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, stdin},
    sync::{mpsc, watch},
    task::JoinSet,
};

use crate::seen::{Frame, Seen};

#[derive(Debug, Args)]
pub(crate) struct Read {
    /// What was seen; read on from there
    #[arg(long)]
    file: PathBuf,
    /// The sessions to follow
    #[arg(long, value_delimiter = ',')]
    sessions: Vec<String>,
}

/// How long until a server that is not there is looked for again.
const AGAIN: Duration = Duration::from_millis(2);

/// Where the server is, and which of those that there were it is.
type Place = Option<(String, u64)>;

/// Reads until it is told to stop, or until whoever started it is gone; then until the server ends the streams.
pub(crate) async fn read(Read { file, sessions }: Read) -> Result<(), Box<dyn Error>> {
    let (seen, file) = open(&file)?;
    let (place, at) = watch::channel::<Place>(None);
    let (sender, frames) = mpsc::channel(256);
    let writer = thread::spawn(move || write(file, frames));
    let mut readers = JoinSet::new();
    for session in sessions {
        let last = seen.last_id(&session);
        readers.spawn(follow(session, last, at.clone(), sender.clone()));
    }
    drop((sender, at));
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let Some((address, number)) = line.strip_prefix("at ").and_then(|rest| rest.split_once(' ')) else {
            break;
        };
        place.send_replace(Some((address.to_owned(), number.parse()?)));
    }
    drop(place);
    readers.join_all().await;
    writer.join().map_err(|_| "the writing thread panicked")??;
    Ok(())
}

/// Opens the file and reads what is in it; a line that was cut off is taken away.
fn open(path: &Path) -> Result<(Seen, File), Box<dyn Error>> {
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    file.set_len(u64::try_from(whole)?)?;
    file.seek(SeekFrom::End(0))?;
    let text = str::from_utf8(text.get(..whole).unwrap_or_default())?;
    Ok((Seen::parse(text)?, file))
}

/// Writes what comes, as much as there is at once, and waits for the disk.
fn write(mut file: File, mut frames: mpsc::Receiver<Frame>) -> std::io::Result<()> {
    let mut lines = String::new();
    while let Some(frame) = frames.blocking_recv() {
        lines.clear();
        frame.write(&mut lines);
        while let Ok(frame) = frames.try_recv() {
            frame.write(&mut lines);
        }
        file.write_all(lines.as_bytes())?;
        file.sync_data()?;
    }
    Ok(())
}

/// Follows a session from server to server.
async fn follow(
    session: String,
    mut last: Option<String>,
    mut place: watch::Receiver<Place>,
    frames: mpsc::Sender<Frame>,
) {
    loop {
        let at = place.borrow_and_update().clone();
        if let Some((address, server)) = at {
            // A server that is gone is looked for until it is said where the next one is.
            stream(&session, &mut last, (&address, server), &frames).await.ok();
        }
        if place.has_changed().is_err() {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn stream(
    session: &str,
    last: &mut Option<String>,
    (address, server): (&str, u64),
    frames: &mpsc::Sender<Frame>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut request = reqwest::Client::new().get(format!("http://{address}/sessions/{session}/events"));
    if let Some(last) = &last {
        request = request.header("Last-Event-ID", last);
    }
    let mut bytes = request.send().await?.error_for_status()?.bytes_stream();
    let mut text: Vec<u8> = Vec::new();
    while let Some(more) = bytes.next().await {
        text.extend_from_slice(&more?);
        let mut begin = 0;
        while let Some(length) =
            text.get(begin..).and_then(|rest| rest.windows(2).position(|two| two == b"\n\n"))
        {
            let whole = text.get(begin..begin + length).unwrap_or_default();
            begin += length + 2;
            if let Some(frame) = Frame::read(server, session, str::from_utf8(whole)?) {
                if frame.id.is_some() {
                    last.clone_from(&frame.id);
                }
                frames.send(frame).await?;
            }
        }
        text.drain(..begin);
    }
    Ok(())
}
