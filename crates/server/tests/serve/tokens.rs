//! Tokens.

use anabranch_server::{ServeError, Token};
use tokio::net::TcpListener;

use crate::{
    agents::Seen,
    client::{Request, Running, prompt, reader},
};

const TOKEN: &str = "0123456789abcdef";

#[tokio::test]
async fn who_shows_the_token_is_served_and_nobody_else() {
    let server = Seen::new().0.server().token(Token::new(TOKEN).unwrap());
    let server = Running::new(server).await;
    let request = || Request::post(prompt("thread", "run", "snow").to_string());
    for shown in [
        "",
        "Bearer",
        "Bearer ",
        "Bearer 0123456789abcde",
        "Bearer 0123456789abcdef0",
        "Bearer 0123456789abcdeF",
        "Basic 0123456789abcdef",
        "0123456789abcdef",
        "Bearer größe",
    ] {
        let response = request().header("authorization", shown).send(server.address).await;
        assert_eq!(response.header("www-authenticate"), Some("bearer"), "{shown:?}");
        assert_eq!(response.refusal().await, (401, "unauthorized".to_owned()), "{shown:?}");
    }
    assert_eq!(request().send(server.address).await.refusal().await.0, 401);
    // The token is asked for before anything else is looked at.
    assert_eq!(Request::post("{").send(server.address).await.refusal().await.0, 401);
    for shown in [format!("Bearer {TOKEN}"), format!("bearer {TOKEN}")] {
        // By any name: who has the token was let in by somebody.
        let response = request().header("authorization", shown).header("host", "example.org");
        let last = response.send(server.address).await.run(&mut reader()).await;
        assert_eq!(last["outcome"]["type"], "success");
    }
    let health = Request::post("").to("GET", "/health").send(server.address).await;
    assert_eq!(health.status, 200);
    server.stopped().await;
}

#[tokio::test]
async fn without_a_token_nobody_outside_is_served() {
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let refused = Seen::new().0.server().serve(listener, std::future::pending()).await;
    assert!(matches!(refused, Err(ServeError::Exposed { .. })), "{refused:?}");
}
