//! The building blocks that were surveyed before there was anything of ours, done again as they were done then.

use std::{collections::BTreeMap, hint::black_box, sync::Arc, time::SystemTime};

use futures::{StreamExt as _, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use ulid::Ulid;

use crate::{
    measure::{Scale, in_turn, per_item, runtime},
    report::Floor,
};

/// The survey's event.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Surveyed {
    id: String,
    seq: u64,
    ts: u64,
    metadata: Map<String, Value>,
    #[serde(flatten)]
    kind: Kind,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE")]
enum Kind {
    TextBlockDelta { reply_id: String, block_id: String, delta: String },
}

fn surveyed(seq: u64) -> Surveyed {
    let text = |text: &str| Value::from(text);
    Surveyed {
        id: Ulid::generate().to_string(),
        seq,
        ts: 1_767_225_600_000,
        metadata: [("tenant".to_owned(), text("acme")), ("node".to_owned(), text("n1"))]
            .into_iter()
            .collect(),
        kind: Kind::TextBlockDelta {
            reply_id: "r1".into(),
            block_id: "b1".into(),
            delta: "hello world".into(),
        },
    }
}

/// An event as it was merged: shared, with shared metadata.
#[expect(dead_code, reason = "it is made and freed, which is what costs")]
struct Light {
    id: Ulid,
    seq: u64,
    ts: SystemTime,
    metadata: Arc<BTreeMap<String, String>>,
    delta: String,
}

/// Measures them.
#[must_use]
pub fn measure(scale: Scale) -> Vec<Floor> {
    let events = scale.events;
    let per_sender = events / 64;
    let shared = Arc::new(surveyed(1));
    let line = serde_json::to_string(&*shared).expect("an event has a spelling");
    let mut buffer = Vec::with_capacity(1024);
    let metadata: Arc<BTreeMap<_, _>> = Arc::new([("tenant".to_owned(), "acme".to_owned())].into());

    let mut ulids = || per_item(events, || (0..events).for_each(|_| _ = black_box(Ulid::generate())));
    let mut times = || per_item(events, || (0..events).for_each(|_| _ = black_box(SystemTime::now())));
    let mut one = || per_item(events, || runtime().block_on(through(1, events, || 7_u64)));
    let mut many = || per_item(per_sender * 64, || runtime().block_on(through(64, per_sender, || 7_u64)));
    let mut arcs = || {
        let shared = Arc::clone(&shared);
        per_item(events, || runtime().block_on(through(1, events, move || Arc::clone(&shared))))
    };
    let mut merged = || {
        per_item(per_sender * 64, || {
            let streams = (0..64).map(|_| {
                let metadata = Arc::clone(&metadata);
                stream::iter(0..per_sender as u64).map(move |seq| Light {
                    id: Ulid::generate(),
                    seq,
                    ts: SystemTime::UNIX_EPOCH,
                    metadata: Arc::clone(&metadata),
                    delta: "hello world".to_owned(),
                })
            });
            let merged = stream::select_all(streams.map(futures::StreamExt::boxed));
            runtime().block_on(merged.for_each(|event| {
                drop(black_box(event));
                async {}
            }));
        })
    };
    let mut written = || {
        per_item(events, || {
            for _ in 0..events {
                buffer.clear();
                serde_json::to_writer(&mut buffer, &*shared).expect("an event has a spelling");
                black_box(&buffer);
            }
        })
    };
    let mut read = || {
        per_item(events, || {
            for _ in 0..events {
                black_box(serde_json::from_str::<Surveyed>(&line).expect("it was written by it"));
            }
        })
    };
    let mut tasks = || {
        per_item(events, || {
            runtime().block_on(async {
                for _ in 0..events / 64 {
                    let tasks: Vec<_> = (0..64).map(|_| tokio::spawn(async {})).collect();
                    for task in tasks {
                        task.await.expect("it does nothing");
                    }
                }
            });
        })
    };

    let names = [
        ("ulid, random", 36.0),
        ("SystemTime::now", 23.0),
        ("mpsc(256) of u64, 1 sender", 96.0),
        ("mpsc(256) of u64, 64 senders", 133.0),
        ("mpsc(256) of one shared Arc, 1 sender", 107.0),
        ("SelectAll of 64, events made", 204.0),
        ("serde_json of an event, reused buffer", 200.0),
        ("serde_json reading it, flatten and tag", 655.0),
        ("tokio::spawn and join", 625.0),
    ];
    let series = in_turn(
        scale.rounds.min(5),
        &mut [
            &mut ulids,
            &mut times,
            &mut one,
            &mut many,
            &mut arcs,
            &mut merged,
            &mut written,
            &mut read,
            &mut tasks,
        ],
    );
    let floor = |(index, (name, surveyed))| Floor { name, nanos: series.median(index), surveyed };
    names.into_iter().enumerate().map(floor).collect()
}

/// Sends so many items from each of so many tasks through one bounded channel, and receives them here.
pub async fn through<T: Send + 'static>(
    senders: usize,
    each: usize,
    make: impl Fn() -> T + Clone + Send + 'static,
) -> usize {
    let (sender, mut receiver) = mpsc::channel(256);
    for _ in 0..senders {
        let (sender, make) = (sender.clone(), make.clone());
        tokio::spawn(async move {
            for _ in 0..each {
                if sender.send(make()).await.is_err() {
                    break;
                }
            }
        });
    }
    drop(sender);
    let mut count = 0;
    while let Some(item) = receiver.recv().await {
        black_box(item);
        count += 1;
    }
    assert_eq!(count, senders * each, "nothing is lost");
    count
}
