//! The description: served, committed, and of one mind with the routes.

use std::{env, fs, path::Path};

use anabranch_server::Token;
use serde_json::Value;

use crate::{agents::Seen, client::Running};

const METHODS: [&str; 7] = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"];

fn document() -> (impl Future<Output = (Running, Value)>, &'static str) {
    let token = "0123456789abcdef";
    let serve = async move {
        let server = Running::new(Seen::new().server().token(Token::new(token).unwrap())).await;
        // Anybody may read it.
        let (status, document) = server.get("/openapi.json").await;
        assert_eq!(status, 200);
        (server, document)
    };
    (serve, token)
}

#[tokio::test]
async fn the_committed_description_is_the_one_that_is_served() {
    let (server, document) = document().0.await;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let generated = format!("{document:#}\n");
    if env::var_os("UPDATE_OPENAPI").is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    // Not `assert_eq!`, which would print both.
    assert!(
        committed == generated,
        "docs/openapi.json is not what the server says; if the change is meant, run `UPDATE_OPENAPI=1 cargo test -p \
         anabranch-server --test sessions openapi` and read the difference"
    );
    server.stopped().await;
}

#[tokio::test]
async fn what_is_described_is_there_and_nothing_else_is() {
    let (serve, token) = document();
    let (server, document) = serve.await;
    let server = server.showing(token);
    let paths = document["paths"].as_object().unwrap();
    assert_eq!(paths.len(), 9);
    for (path, operations) in paths {
        let mut described: Vec<_> =
            operations.as_object().unwrap().keys().map(|method| method.to_ascii_uppercase()).collect();
        for method in METHODS {
            let response = server.request(method, &path.replace("{id}", "nobody")).send().await;
            let allow = response.header("allow").map(ToOwned::to_owned);
            let status = response.status;
            if described.iter().any(|known| known == method) {
                assert_ne!(status, 405, "{method} {path}");
                let body = response.body().await;
                assert!(!body.contains("no_such_path"), "{method} {path}");
                let responses = &operations[method.to_ascii_lowercase()]["responses"];
                assert!(responses.get(status.to_string()).is_some(), "{method} {path}: {status} {body}");
            } else {
                assert_eq!(status, 405, "{method} {path}");
                let mut allowed: Vec<_> =
                    allow.unwrap().split(',').map(|one| one.trim().to_owned()).collect();
                allowed.retain(|one| one != "HEAD");
                allowed.sort();
                described.sort();
                assert_eq!(allowed, described, "{path}");
            }
        }
    }
    assert_eq!(server.get("/sessions/").await.0, 404);
    assert_eq!(server.get("/sessions/nobody/prompt/more").await.0, 404);
    server.stopped().await;
}
