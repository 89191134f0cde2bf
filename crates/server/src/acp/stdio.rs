//! Stdin and stdout, line by line.

use std::{fmt, io};

use agent_client_protocol::{Agent as AgentRole, ConnectTo, Error, Lines, Role};
use blocking::Unblock;
use futures::{
    AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, Stream, StreamExt as _, future::BoxFuture,
    io::BufReader, sink, stream,
};

use super::flow::Flow;

/// The process's own stdin and stdout. The SDK's end at the first byte that is no UTF-8, with all sessions; here such a line is
/// one of bad JSON, which is answered.
pub(super) struct Stdio {
    /// Is told of each line that is written.
    pub(super) flow: Flow,
    /// From when on no more is read.
    pub(super) stop: BoxFuture<'static, ()>,
}

impl fmt::Debug for Stdio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdio").field("flow", &self.flow).finish_non_exhaustive()
    }
}

impl ConnectTo<AgentRole> for Stdio {
    async fn connect_to(self, client: impl ConnectTo<<AgentRole as Role>::Counterpart>) -> Result<(), Error> {
        let stdout = (Unblock::new(io::stdout()), self.flow);
        let outgoing = Box::pin(sink::unfold(stdout, async move |(mut stdout, flow), mut line: String| {
            flow.line(&line);
            line.push('\n');
            stdout.write_all(line.as_bytes()).await?;
            stdout.flush().await?;
            Ok::<_, io::Error>((stdout, flow))
        }));
        let incoming = Box::pin(lines(Unblock::new(io::stdin())).take_until(self.stop));
        ConnectTo::<AgentRole>::connect_to(Lines::new(outgoing, incoming), client).await
    }
}

/// The lines of what is read, without their ends.
fn lines(read: impl AsyncRead + Unpin) -> impl Stream<Item = io::Result<String>> {
    stream::try_unfold(BufReader::new(read), async |mut read| {
        let mut line = Vec::new();
        if read.read_until(b'\n', &mut line).await? == 0 {
            return Ok(None);
        }
        let end =
            line.strip_suffix(b"\r\n").or_else(|| line.strip_suffix(b"\n")).map_or(line.len(), <[u8]>::len);
        line.truncate(end);
        Ok(Some((text(line), read)))
    })
}

/// The line as text. One that is no UTF-8 is never JSON either, whatever else it says.
fn text(line: Vec<u8>) -> String {
    String::from_utf8(line)
        .unwrap_or_else(|error| format!("\u{fffd}{}", String::from_utf8_lossy(error.as_bytes())))
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, TryStreamExt as _, io::Cursor};

    use super::*;

    fn read(bytes: &[u8]) -> Vec<String> {
        lines(Cursor::new(bytes)).try_collect().now_or_never().expect("it is all there").unwrap()
    }

    #[test]
    fn lines_end_where_they_do_and_the_last_needs_no_end() {
        assert_eq!(read(b""), [""; 0]);
        assert_eq!(read(b"\n"), [""]);
        assert_eq!(read(b"a\r\n\nb\rc\n\xc3\xa9"), ["a", "", "b\rc", "\u{e9}"]);
    }

    #[test]
    fn a_line_that_is_no_utf_8_is_no_json_and_the_next_is_as_it_was() {
        let lines = read(b"{\"a\":\"\xff\"}\n{}\n");
        assert_eq!(lines, ["\u{fffd}{\"a\":\"\u{fffd}\"}", "{}"]);
        assert!(serde_json::from_str::<serde_json::Value>(&lines[0]).is_err());
    }
}
