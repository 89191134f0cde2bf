//! The people: each prompts a session again and again, answers its questions and sometimes stops it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    agents::{PLEASE, WORDS},
    random::Random,
};

/// Where the server is, and which of those that there were; none while there is none.
pub(crate) type Place = Option<(String, u64)>;

/// How long between two looks at a session.
const LOOK: Duration = Duration::from_millis(15);

/// One person and their session.
pub(crate) struct Person {
    pub(crate) session: String,
    pub(crate) random: Random,
    pub(crate) place: watch::Receiver<Place>,
    /// The last server that took a prompt.
    pub(crate) taken_by: Arc<AtomicU64>,
    /// How many prompts were answered.
    pub(crate) answered: Arc<AtomicU64>,
    /// Whether no more is asked.
    pub(crate) stops: Arc<AtomicBool>,
}

impl Person {
    /// Talks until it is told to stop, and then until the last answer.
    pub(crate) async fn talk(mut self) {
        let client = reqwest::Client::new();
        while !self.stops.load(Ordering::SeqCst) {
            let place = self.place.borrow_and_update().clone();
            let Some((address, server)) = place else {
                if self.place.changed().await.is_err() {
                    return;
                }
                continue;
            };
            // A server that is killed breaks it off.
            if self.once(&client, &address, server).await.is_none() {
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    async fn once(&mut self, client: &reqwest::Client, address: &str, server: u64) -> Option<()> {
        let path = format!("http://{address}/sessions/{}", self.session);
        let words = (0..=self.random.between(1, 4)).map(|_| {
            let which = usize::try_from(self.random.below(WORDS.len() as u64)).unwrap_or_default();
            WORDS.get(which).copied().unwrap_or_default()
        });
        let prompt = words.fold(PLEASE.to_owned(), |prompt, word| format!("{prompt} {word}"));
        post(client, &format!("{path}/prompt"), &json!({ "content": prompt })).await?;
        self.taken_by.store(server, Ordering::SeqCst);
        let mut stop_in = (self.random.below(8) == 0).then(|| self.random.below(20));
        loop {
            let look: Value =
                client.get(&path).send().await.ok()?.error_for_status().ok()?.json().await.ok()?;
            let open = look["prompts"].as_u64()?;
            let answers: Vec<_> =
                look["questions"].as_array()?.iter().filter_map(|asked| self.answer(asked)).collect();
            if !answers.is_empty() {
                // One whose run was stopped meanwhile is refused.
                post(client, &format!("{path}/answer"), &json!({ "answers": answers })).await;
            }
            if open == 0 {
                self.answered.fetch_add(1, Ordering::SeqCst);
                return Some(());
            }
            stop_in = match stop_in {
                Some(0) => {
                    post(client, &format!("{path}/cancel"), &json!({})).await;
                    None
                }
                other => other.map(|left| left - 1),
            };
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Not always at once.
    fn answer(&mut self, asked: &Value) -> Option<Value> {
        let how = match self.random.below(5) {
            0 => return None,
            1 => "deny",
            _ => "allow",
        };
        Some(json!({ "session": asked["session"], "call": asked["call"], how: {} }))
    }
}

async fn post(client: &reqwest::Client, url: &str, body: &Value) -> Option<Value> {
    client.post(url).json(body).send().await.ok()?.error_for_status().ok()?.json().await.ok()
}
