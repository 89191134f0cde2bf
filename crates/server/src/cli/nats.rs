//! Where the broker is, on the command line.

use std::{error::Error, fs, path::PathBuf, time::Duration};

use anabranch_remote::nats::Queue;
use async_nats::ConnectOptions;

/// Where the broker is, and which queue of it.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Workers")]
pub(super) struct Broker {
    /// Where the NATS broker is on whose queue sub-agents run: `nats://HOST:PORT`, or `tls://HOST:PORT`
    #[arg(long = "nats", value_name = "URL")]
    url: Option<String>,
    /// A file with the token that the broker wants to be shown
    #[arg(long, value_name = "FILE", conflicts_with = "nats_creds")]
    nats_token_file: Option<PathBuf>,
    /// A file with the credentials that the broker wants to be shown: a JWT and a key, as `nsc` writes them
    #[arg(long, value_name = "FILE")]
    nats_creds: Option<PathBuf>,
    /// The queue
    #[arg(long, value_name = "NAME", default_value = "default")]
    queue: String,
    /// What the names of the streams and subjects begin with
    #[arg(long, value_name = "NAME", default_value = "anabranch")]
    prefix: String,
    /// After how many seconds a worker that is not heard is taken for lost; the same for all who use the queue
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    lost_after: u64,
}

impl Broker {
    /// The queue, at a broker that was reached; none where none was named.
    pub(super) async fn queue(&self) -> Result<Option<Queue>, Box<dyn Error>> {
        let Some(url) = &self.url else { return Ok(None) };
        let options = ConnectOptions::new().name("anabranch");
        let options = match (&self.nats_token_file, &self.nats_creds) {
            (Some(file), _) => {
                let token = fs::read_to_string(file)
                    .map_err(|error| format!("cannot read the token in {}: {error}", file.display()))?;
                options.token(token.trim_end().to_owned())
            }
            (None, Some(file)) => options
                .credentials_file(file)
                .await
                .map_err(|error| format!("cannot read the credentials in {}: {error}", file.display()))?,
            (None, None) => options,
        };
        let client = options
            .connect(url)
            .await
            .map_err(|error| format!("cannot reach the broker at {url}: {error}"))?;
        let queue = Queue::new(client).prefix(&*self.prefix)?.named(&*self.queue)?;
        Ok(Some(queue.lost_after(Duration::from_secs(self.lost_after))))
    }
}

/// Any id as the name of a file.
pub(super) fn file_name(id: &str) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "-_".contains(letter) { letter } else { '_' };
    id.chars().take(100).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_names_a_file_elsewhere() {
        assert_eq!(file_name("ses_01J-x"), "ses_01J-x");
        assert_eq!(file_name("../../etc/passwd"), "______etc_passwd");
        assert_eq!(file_name(&"x".repeat(300)).len(), 100);
    }
}
