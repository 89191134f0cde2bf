//! What is refused, and that the server lives on.

use crate::{
    agents::Seen,
    client::{Request, Running, limits, prompt, reader},
};

#[tokio::test]
async fn whatever_is_wrong_has_its_status_and_says_so_in_json() {
    let server = Seen::new().0.server().limits(limits().body(2_000));
    let server = Running::new(server).await;
    let good = || prompt("thread", "run", "snow").to_string();
    let large = || prompt("thread", "run", &"x".repeat(2_000)).to_string();
    let id = "x".repeat(257);
    let deep = format!("{{\"state\":{}", "[".repeat(1_000));
    let chunked = |body: &str| {
        let body = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        Request::post(body).header("transfer-encoding", "chunked").without("content-length")
    };
    let table = [
        (Request::post(""), 400, "malformed"),
        (Request::post("{"), 400, "malformed"),
        (Request::post("[]"), 400, "malformed"),
        (Request::post("null"), 400, "malformed"),
        (Request::post("{}"), 400, "malformed"),
        (Request::post(good() + "x"), 400, "malformed"),
        (Request::post(deep), 400, "malformed"),
        (Request::post(vec![0xff, 0xfe]), 400, "malformed"),
        (Request::post(prompt("", "run", "x").to_string()), 400, "malformed"),
        (Request::post(prompt("thread", &id, "x").to_string()), 400, "malformed"),
        (Request::post(r#"{"threadId":"t","runId":"r","messages":{}}"#), 400, "malformed"),
        (Request::post(r#"{"threadId":7,"runId":"r","messages":[]}"#), 400, "malformed"),
        (
            Request::post(r#"{"threadId":"t","runId":"r","messages":[],"resume":[{"status":"maybe"}]}"#),
            400,
            "malformed",
        ),
        (Request::post(r#"{"threadId":"t","runId":"r","messages":[]}"#), 422, "unusable"),
        (Request::post(prompt("thread", "run", " ").to_string()), 422, "unusable"),
        (Request::post(good()).header("content-type", "text/plain"), 415, "not_json"),
        (Request::post(good()).header("content-type", "application/jsonx"), 415, "not_json"),
        (Request::post(good()).without("content-type"), 415, "not_json"),
        (Request::post(large()), 413, "too_large"),
        (chunked(&large()), 413, "too_large"),
        (Request::post(good()).to("GET", "/ag-ui"), 405, "no_such_method"),
        (Request::post(good()).to("POST", "/health"), 405, "no_such_method"),
        (Request::post(good()).to("POST", "/"), 404, "no_such_path"),
        (Request::post(good()).to("POST", "/ag-ui/"), 404, "no_such_path"),
        (Request::post(good()).header("host", "example.org"), 403, "foreign_host"),
    ];
    for (at, (request, status, code)) in table.into_iter().enumerate() {
        let response = request.send(server.address).await;
        assert_eq!(response.refusal().await, (status, code.to_owned()), "request {at}");
    }
    // None of them began a thread or kept anything.
    let last = chunked(&good()).send(server.address).await.run(&mut reader()).await;
    assert_eq!(last["outcome"]["type"], "success");
    server.stopped().await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let server = Running::new(Seen::new().0.server()).await;
    let request = Request::post("{").header("content-length", "100");
    assert_eq!(request.send(server.address).await.refusal().await, (408, "too_slow".to_owned()));
    server.stopped().await;
}
