//! What is refused, and that the connection goes on afterwards.

use serde_json::json;

use crate::http::{Bus, Conn};

const JSON: (&str, &str) = ("content-type", "application/json");
const LIMIT: usize = 2 * 1024 * 1024;

/// A request body of exactly that many bytes.
fn body_of(bytes: usize) -> Vec<u8> {
    let frame = r#"{"to":"a","payload":""}"#.len();
    format!(r#"{{"to":"a","payload":"{}"}}"#, "x".repeat(bytes - frame)).into_bytes()
}

fn chunked(conn: &mut Conn, body: &[u8]) {
    conn.start(
        "POST",
        "/send",
        &[JSON, ("transfer-encoding", "chunked")],
        None,
    );
    for part in body.chunks(100_000) {
        conn.write(format!("{:x}\r\n", part.len()).as_bytes());
        conn.write(part);
        conn.write(b"\r\n");
    }
    conn.write(b"0\r\n\r\n");
}

#[test]
fn bodies_up_to_two_mebibytes_pass_and_one_more_does_not() {
    let bus = Bus::start();
    let mut conn = bus.connect();
    let post = |conn: &mut Conn, body: &[u8]| conn.request("POST", "/send", &[JSON], Some(body));
    post(&mut conn, &body_of(LIMIT)).is_empty(202);
    post(&mut conn, &body_of(LIMIT + 1)).is_problem(413);
    chunked(&mut conn, &body_of(LIMIT - 1));
    conn.finish("POST").is_empty(202);
    chunked(&mut conn, &body_of(LIMIT + 1));
    conn.finish("POST").is_problem(413);
    let got = conn.get("/recv?me=a&timeout_ms=0&max=9").json();
    assert_eq!(got["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn a_body_that_is_far_too_large_is_refused_before_it_is_read() {
    let bus = Bus::start();
    let mut conn = bus.connect();
    conn.write(b"POST /send HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n");
    conn.write(b"content-length: 99999999999\r\n\r\n");
    conn.finish("POST").is_problem(413);
    assert!(conn.closed());
}

#[test]
fn malformed_json_is_400_and_another_shape_is_422() {
    let bus = Bus::start();
    let mut conn = bus.connect();
    for path in ["/send", "/ack", "/announce", "/unregister"] {
        for body in ["", "{", "{\"to\":\"a\",}", "nul", "\"\u{1}\""] {
            conn.post(path, body).is_problem(400);
        }
        // The payload of a send; an unknown member elsewhere.
        let deep = format!(r#"{{"payload":{}"#, "[".repeat(10_000));
        conn.post(path, &deep).is_problem(400);
        conn.request("POST", path, &[JSON], Some(b"\"\xff\""))
            .is_problem(400);
    }
    for body in [
        "[]",
        "{}",
        r#"{"to":"a"}"#,
        r#"{"payload":1}"#,
        r#"{"to":7,"payload":1}"#,
        r#"{"to":null,"payload":1}"#,
    ] {
        conn.post("/send", body).is_problem(422);
    }
    for body in [
        "{}",
        r#"{"me":"a"}"#,
        r#"{"ack":"a"}"#,
        r#"{"me":"a","ack":7}"#,
        r#"{"me":"a","acks":"a"}"#,
    ] {
        conn.post("/ack", body).is_problem(422);
    }
    // Presence has its own rule: no string `pubkey` is 400.
    for path in ["/announce", "/unregister"] {
        for body in [
            "{}",
            "[]",
            "7",
            "null",
            r#"{"pubkey":["a"]}"#,
            r#"{"pubkey":7}"#,
        ] {
            conn.post(path, body).is_problem(400);
        }
    }
    assert_eq!(bus.connect().get("/status").json()["head"], 0);
}

#[test]
fn only_json_media_types_are_read() {
    let bus = Bus::start();
    let mut conn = bus.connect();
    let body: &[u8] = br#"{"to":"a","payload":1}"#;
    for path in ["/send", "/ack", "/announce", "/unregister"] {
        conn.request("POST", path, &[], Some(body)).is_problem(415);
        for kind in [
            "text/plain",
            "application/jsonx",
            "application/x-www-form-urlencoded",
        ] {
            let headers = [("content-type", kind)];
            conn.request("POST", path, &headers, Some(body))
                .is_problem(415);
        }
    }
    let large = body_of(LIMIT);
    conn.request("POST", "/send", &[], Some(&large))
        .is_problem(415);
    for kind in ["application/json; charset=utf-8", "application/vnd.x+json"] {
        let headers = [("content-type", kind)];
        conn.request("POST", "/send", &headers, Some(body))
            .is_empty(202);
    }
}

#[test]
fn unknown_paths_are_404() {
    let bus = Bus::start();
    let mut conn = bus.connect();
    for path in [
        "/",
        "//send",
        "/send/",
        "/recv/?me=a",
        "/health",
        "/roster/",
        "/SEND",
        "/admin",
    ] {
        conn.get(path).is_problem(404);
        conn.post(path, "{}").is_problem(404);
    }
    assert_eq!(conn.get("/roster").status, 200);
}

#[test]
fn wrong_methods_name_the_right_ones() {
    let bus = Bus::start();
    let mut conn = bus.connect();
    for path in ["/send", "/ack", "/announce", "/unregister"] {
        for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            let reply = conn.request(method, path, &[], None);
            reply.is_problem(405);
            assert_eq!(reply.header("allow"), Some("POST"));
        }
    }
    for path in ["/recv?me=a", "/roster", "/healthz", "/readyz", "/status"] {
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
            let reply = conn.request(method, path, &[], Some(b""));
            reply.is_problem(405);
            assert_eq!(reply.header("allow"), Some("GET,HEAD"));
        }
    }
}

#[test]
fn head_is_get_without_the_body() {
    let bus = Bus::start();
    let mut conn = bus.connect();
    conn.send("a", json!(1));
    for path in ["/recv?me=a&timeout_ms=0", "/roster", "/healthz", "/readyz"] {
        let got = conn.get(path);
        let head = conn.request("HEAD", path, &[], None);
        assert_eq!((head.status, head.body.len()), (200, 0));
        for name in ["content-type", "content-length"] {
            assert_eq!(head.header(name), got.header(name), "{path}");
        }
    }
    let head = conn.request("HEAD", "/recv?timeout_ms=0", &[], None);
    assert_eq!(head.status, 400);
    assert_eq!(conn.get("/healthz").text(), r#"{"status":"ok"}"#);
}

#[test]
fn queries_are_read_strictly() {
    let bus = Bus::start();
    let mut conn = bus.connect();
    conn.send("a", json!(1));
    for query in [
        "",
        "timeout_ms=0",
        "me=a&me=a",
        "me=a&timeout_ms=0&timeout_ms=0",
        "me=a&timeout_ms=x",
        "me=a&timeout_ms=-1",
        "me=a&timeout_ms=1.5",
        "me=a&timeout_ms=",
        "me=a&timeout_ms=18446744073709551616",
        "me=a&max=x",
        "me=a&max=1&max=1",
    ] {
        conn.get(&format!("/recv?{query}")).is_problem(400);
    }
    conn.get("/recv").is_problem(400);
    for query in [
        "me=a",
        "me=a&timeout_ms=18446744073709551615",
        "me=a&max=18446744073709551615",
    ] {
        assert_eq!(
            conn.get(&format!("/recv?{query}")).json()["status"],
            "message"
        );
    }
}
