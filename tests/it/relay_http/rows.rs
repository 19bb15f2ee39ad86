//! Every row of the error table and of the routes, as raw requests.

use serde_json::{Value, json};

use super::{Relay, START, id};

const ROUTING: (u16, &str, &str) = (400, "ERR_INVALID_SESSION_CODE", "Invalid routing ID format");
const FIELDS: (u16, &str, &str) = (400, "ERR_MISSING_FIELDS", "Missing required fields");
const NO_BODY: (u16, &str, &str) = (400, "ERR_MISSING_FIELDS", "Missing body");
const BAD_JSON: (u16, &str, &str) = (400, "ERR_MISSING_FIELDS", "Invalid JSON body");
const FULL: (u16, &str, &str) = (403, "ERR_SESSION_FULL", "Session is full");
const STRANGER: (u16, &str, &str) = (403, "ERR_UNAUTHORIZED", "Unauthorized access");
const UNKNOWN: (u16, &str, &str) = (404, "ERR_SESSION_NOT_FOUND", "Session not found");
const NOWHERE: (u16, &str, &str) = (404, "ERR_NOT_FOUND", "Endpoint not found");
const LARGE: (u16, &str, &str) = (413, "ERR_PAYLOAD_TOO_LARGE", "Request payload too large");
const INTERNAL: (u16, &str, &str) = (500, "ERR_INTERNAL_ERROR", "An internal error occurred");

#[test]
fn bodies_that_are_no_requests() {
    let relay = Relay::start();
    let mut peer = relay.connect();
    for path in ["/create", "/join", "/send", "/disconnect"] {
        for (body, (status, code, error)) in [
            ("", NO_BODY),
            ("{", BAD_JSON),
            ("{} x", BAD_JSON),
            ("nul", BAD_JSON),
            ("null", INTERNAL),
            ("[]", ROUTING),
            ("7", ROUTING),
            ("\"x\"", ROUTING),
            ("true", ROUTING),
            ("{}", ROUTING),
            ("{\"routingId\":7}", ROUTING),
            ("{\"routingId\":\"abc\"}", ROUTING),
        ] {
            peer.text(path, body.as_bytes()).is(status, code, error);
        }
        let upper = json!({"routingId": "A".repeat(64)});
        let (status, code, error) = ROUTING;
        peer.post(path, &upper).is(status, code, error);
        let deep = format!("{{\"x\":{}{}}}", "[".repeat(200), "]".repeat(200));
        let (status, code, error) = BAD_JSON;
        peer.text(path, deep.as_bytes()).is(status, code, error);
        // A body that is no UTF-8 reads as if it had replacement characters.
        let (status, code, error) = ROUTING;
        peer.text(path, b"{\"x\":\"\xff\"}").is(status, code, error);
    }
}

#[test]
fn members_that_each_route_needs() {
    let relay = Relay::start();
    let mut peer = relay.paired();
    let (status, code, error) = FIELDS;
    for path in ["/create", "/join"] {
        for body in [
            json!({"routingId": id(5)}),
            json!({"routingId": id(5), "publicKey": id(1)}),
            json!({"routingId": id(5), "peerId": id(1)}),
            json!({"routingId": id(5), "peerId": id(1), "publicKey": "zz"}),
            json!({"routingId": id(5), "peerId": "F".repeat(64), "publicKey": id(1)}),
            json!({"routingId": id(5), "peerId": 7, "publicKey": id(1)}),
        ] {
            peer.post(path, &body).is(status, code, error);
        }
    }
    for payload in [json!(null), json!(false), json!(0), json!("")] {
        peer.send(9, 1, &payload).is(status, code, error);
    }
    for body in [
        json!({"routingId": id(9)}),
        json!({"routingId": id(9), "encryptedPayload": 1}),
        json!({"routingId": id(9), "fromPeerId": "x", "encryptedPayload": 1}),
        json!({"routingId": id(9), "fromPeerId": id(1)}),
    ] {
        peer.post("/send", &body).is(status, code, error);
    }
    for body in [
        json!({"routingId": id(9)}),
        json!({"routingId": id(9), "peerId": "x"}),
    ] {
        peer.post("/disconnect", &body).is(status, code, error);
    }
    peer.get(&format!("/poll?routingId={}", id(9)))
        .is(status, code, error);
    peer.get(&format!("/poll?routingId={}&peerId=x", id(9)))
        .is(status, code, error);
    let (status, code, error) = ROUTING;
    peer.get("/poll").is(status, code, error);
    peer.get(&format!("/poll?routingId=x&peerId={}", id(1)))
        .is(status, code, error);
}

#[test]
fn paths_and_methods() {
    let relay = Relay::start();
    let mut peer = relay.connect();
    let (status, code, error) = NOWHERE;
    for path in ["/", "/x", "/create/", "/createx", "/poll/1", "/CREATE"] {
        peer.get(path).is(status, code, error);
        peer.post(path, &json!({})).is(status, code, error);
    }
    for path in ["/create", "/join", "/send", "/disconnect"] {
        peer.get(path).is(status, code, error);
    }
    peer.post("/poll", &json!({})).is(status, code, error);
    for method in ["PUT", "DELETE", "OPTIONS", "PATCH"] {
        let said = super::Said(peer.0.request(method, "/create", &[], Some(b"{}")));
        said.is(status, code, error);
    }
    for (method, path) in [("GET", "/health"), ("POST", "/health"), ("PUT", "//health")] {
        let said = super::Said(peer.0.request(method, path, &[], Some(b"")));
        assert_eq!(said.is_ok(), json!({"status": "ok", "timestamp": START}));
    }
    // A trailing slash of the relay's URL becomes a leading one.
    let body = json!({"routingId": id(9), "publicKey": id(1), "peerId": id(1)});
    peer.post("//create", &body).is_ok();
    peer.get(&format!("///poll?routingId={}&peerId={}", id(9), id(1)))
        .is_ok();
}

#[test]
fn sizes_count_before_json() {
    let relay = Relay::start();
    let mut peer = relay.connect();
    for (path, max) in [
        ("/create", 10_240),
        ("/join", 10_240),
        ("/send", 5_242_880),
        ("/disconnect", 1_024),
    ] {
        let (status, code, error) = LARGE;
        let said = peer
            .text(path, &vec![b'x'; max + 1])
            .is(status, code, error);
        assert_eq!(said["maxSize"], max);
        let (status, code, error) = BAD_JSON;
        peer.text(path, &vec![b'x'; max]).is(status, code, error);
        // Also where the length is not declared.
        let mut chunked = format!("{:x}\r\n", max + 1).into_bytes();
        chunked.extend_from_slice(&vec![b'x'; max + 1]);
        chunked.extend_from_slice(b"\r\n0\r\n\r\n");
        peer.0
            .start("POST", path, &[("transfer-encoding", "chunked")], None);
        peer.0.write(&chunked);
        let (status, code, error) = LARGE;
        super::Said(peer.0.finish("POST")).is(status, code, error);
    }
}

#[test]
fn nothing_of_the_inside_shows() {
    let relay = Relay::start();
    let mut peer = relay.connect();
    for path in ["/create", "/join", "/send", "/disconnect", "/x"] {
        for body in ["", "{", "null", "[]", "{}"] {
            let said = peer.text(path, body.as_bytes()).checked();
            let error = said["error"].as_str().unwrap();
            assert!(error.len() <= 100 && !error.contains('/'), "{error}");
            assert!(said["code"].as_str().unwrap().starts_with("ERR_"));
        }
    }
}

#[test]
fn create_and_join() {
    let relay = Relay::start();
    let mut peer = relay.connect();
    let (status, code, error) = UNKNOWN;
    peer.join(9, 2).is(status, code, error);
    let made = peer.create(9, 1).is_ok();
    assert_eq!(
        made,
        json!({"ok": true, "routingId": id(9), "expiresAt": START + 1_800_000})
    );
    let (status, code, error) = FULL;
    peer.create(9, 1).is(status, code, error);
    peer.create(9, 3).is(status, code, error);
    // The host itself is in already.
    let host = json!({"ok": true, "hostPublicKey": id(101), "peerCount": 1});
    assert_eq!(peer.join(9, 1).is_ok(), host);
    let joined = json!({"ok": true, "hostPublicKey": id(101), "peerCount": 2});
    assert_eq!(peer.join(9, 2).is_ok(), joined);
    assert_eq!(peer.join(9, 2).is_ok(), joined);
    peer.join(9, 3).is(status, code, error);
    let polled = peer.poll(9, 1, 0).is_ok();
    let payload = json!({"type": "peer_joined", "peerId": id(2), "publicKey": id(102)});
    assert_eq!(
        polled,
        json!({
            "messages": [{"from": "system", "seq": 1, "payload": payload, "timestamp": START}],
            "disconnected": false, "oldestSeq": 1,
        })
    );
    // Everybody sees what the system says, also whom it is about.
    assert_eq!(peer.poll(9, 2, 0).seqs(), [1]);
}

#[test]
fn strangers_and_absent_sessions() {
    let relay = Relay::start();
    let mut peer = relay.paired();
    let (status, code, error) = STRANGER;
    peer.send(9, 3, &json!(1)).is(status, code, error);
    peer.poll(9, 3, 0).is(status, code, error);
    let (status, code, error) = UNKNOWN;
    peer.send(8, 1, &json!(1)).is(status, code, error);
    peer.poll(8, 1, 0).is_gone();
    for _ in 0..5 {
        peer.disconnect(9, 3).is_ok();
    }
    peer.disconnect(8, 1).is_ok();
    assert_eq!(peer.poll(9, 1, 0).seqs(), [1]);
    // Membership is judged before the pace, the session before both.
    for n in 0..10 {
        peer.send(9, 1, &json!(n + 1)).is_ok();
    }
    peer.send(9, 1, &json!(1))
        .is(429, "ERR_RATE_LIMIT_EXCEEDED", "Rate limit exceeded");
    let (status, code, error) = STRANGER;
    peer.send(9, 3, &json!(1)).is(status, code, error);
}

#[test]
fn payloads_come_back_as_they_were_sent() {
    let relay = Relay::start();
    let mut peer = relay.paired();
    let texts = [
        r#"{ "b": 1.50, "a": [1e3, "\u00e9"], "a": 2 }"#.to_owned(),
        "true".to_owned(),
        "\"x\"".to_owned(),
        format!("\"{}\"", "0123456789".repeat(21_000)),
        format!("\"{}\"", "\\u0001".repeat(384 * 1024)),
    ];
    for text in &texts {
        let body = format!(
            "{{\"routingId\":\"{}\",\"fromPeerId\":\"{}\",\"encryptedPayload\":{text}}}",
            id(9),
            id(1)
        );
        assert!(body.len() <= 5_242_880);
        peer.text("/send", body.as_bytes()).is_ok();
    }
    for (n, text) in texts.iter().enumerate() {
        let said = peer.poll(9, 2, n as u64 + 1);
        assert!(
            said.0.text().contains(&format!("\"payload\":{text},")),
            "{n}"
        );
        assert!(said.0.text().starts_with(&format!(
            "{{\"messages\":[{{\"from\":\"{}\",\"seq\":{}",
            id(1),
            n + 2
        )));
    }
}

#[test]
fn since_is_the_number_at_its_beginning() {
    let relay = Relay::start();
    let mut peer = relay.paired();
    for n in 1..=3 {
        peer.send(9, 1, &json!(n)).is_ok();
    }
    for (since, seqs) in [
        ("", vec![1, 2, 3, 4]),
        ("&since=", vec![1, 2, 3, 4]),
        ("&since=0", vec![1, 2, 3, 4]),
        ("&since=-7", vec![1, 2, 3, 4]),
        ("&since=1.9", vec![2, 3, 4]),
        ("&since=2abc", vec![3, 4]),
        ("&since=%203", vec![4]),
        ("&since=4", vec![]),
        ("&since=99999999999999999999999", vec![]),
        ("&since=abc", vec![]),
        ("&since=NaN", vec![]),
    ] {
        let target = format!("/poll?routingId={}&peerId={}{since}", id(9), id(2));
        // Delivery takes nothing away.
        for _ in 0..2 {
            assert_eq!(peer.get(&target).seqs(), seqs, "{since}");
        }
        let said: Value = peer.get(&target).is_ok();
        assert_eq!(said["oldestSeq"], 1);
    }
    // Nobody gets its own words.
    assert_eq!(peer.poll(9, 1, 0).seqs(), [1]);
}

#[test]
fn web_pages_and_foreign_names_are_kept_away_and_plain_clients_are_not() {
    let relay = Relay::start();
    let mut peer = relay.connect();
    let get = |peer: &mut super::Peer, headers: &[(&str, &str)]| {
        super::Said(peer.0.request("GET", "/health", headers, None))
    };
    let page = [("origin", "https://evil.example")];
    get(&mut peer, &page).is(403, "ERR_FORBIDDEN", "Web pages may not use this relay");
    let client = [
        ("accept", "*/*"),
        ("accept-language", "*"),
        ("sec-fetch-mode", "cors"),
        ("user-agent", "node"),
        ("accept-encoding", "gzip, deflate"),
    ];
    get(&mut peer, &client).is_ok();
    peer.0
        .write(b"GET /health HTTP/1.1\r\nhost: evil.example\r\n\r\n");
    let said = super::Said(peer.0.finish("GET"));
    assert_eq!(said.0.status, 421);
    said.checked();
}
