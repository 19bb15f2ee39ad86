//! A bus that is sent noise: it answers everything, keeps what is whole, and goes on.

use interlink::testkit::Rng;
use serde_json::json;

use super::{damage, originals};
use crate::http::Bus;
use crate::support::seed;

/// Damaged requests.
const ROUNDS: usize = 600;

#[test]
fn damaged_requests_are_answered_and_the_bus_goes_on() {
    let mut rng = Rng::new(seed());
    for verifies in [false, true] {
        let bus = Bus::with(|config| config.verify_presence = verifies);
        let mut conn = bus.connect();
        let posts = originals("bus_requests", &mut rng)
            .into_iter()
            .chain(originals("announcement", &mut rng));
        let posts: Vec<Vec<u8>> = posts.collect();
        for round in 0..ROUNDS {
            let route = ["/send", "/ack", "/announce", "/unregister"][rng.index(4)];
            let original = rng.index(posts.len());
            let body = damage(&mut rng, &posts[original]);
            let head = format!(
                "POST {route} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\n\r\n",
                body.len()
            );
            conn.write(head.as_bytes());
            conn.write(&body);
            let status = conn.finish("POST").status;
            assert!(
                matches!(status, 200 | 202 | 400 | 403 | 409 | 413 | 422),
                "{route}, round {round}: {status} for {:?}",
                String::from_utf8_lossy(&body)
            );
        }
        // Whatever came in can be read, and everything still works.
        let roster = conn.get("/roster").json();
        assert!(roster["roster"].is_array());
        conn.send("after", json!("whole"));
        assert_eq!(conn.peek("after")["envelope"]["payload"], "whole");
    }
}

#[test]
fn a_key_that_was_not_given_acknowledges_nothing() {
    let mut rng = Rng::new(seed());
    let bus = Bus::start();
    let mut conn = bus.connect();
    for n in 0..3 {
        conn.send("q", json!(n));
    }
    let key = conn.peek("q")["ack"].as_str().unwrap().to_owned();
    let given: Vec<String> = {
        let reply = conn.get("/recv?me=q&timeout_ms=0&max=9").json();
        let messages = reply["messages"].as_array().unwrap().clone();
        let key = |m: &serde_json::Value| m["ack"].as_str().unwrap().to_owned();
        messages.iter().map(key).collect()
    };
    for _ in 0..400 {
        let bytes = damage(&mut rng, key.as_bytes());
        let said = String::from_utf8_lossy(&bytes).into_owned();
        if given.contains(&said) || said == "q" {
            continue;
        }
        for body in [
            json!({ "me": "q", "ack": said }),
            json!({ "me": "q", "acks": [said] }),
            json!({ "me": said, "ack": key }),
        ] {
            let status = conn.post("/ack", &body.to_string()).status;
            assert!(matches!(status, 200 | 400 | 403), "{status}: {body}");
        }
        let waiting = conn.get("/recv?me=q&timeout_ms=0&max=9").json();
        assert_eq!(waiting["messages"].as_array().unwrap().len(), 3, "{said:?}");
    }
}

#[test]
fn damaged_heads_are_answered_or_hung_up_on_and_the_bus_goes_on() {
    let mut rng = Rng::new(seed());
    let bus = Bus::start();
    bus.connect().send("q", json!("kept"));
    let heads = [
        "GET /recv?me=q&timeout_ms=0&max=1 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET /roster HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        "POST /ack HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}",
        "GET /admin/v1/status HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer x\r\n\r\n",
    ];
    for _ in 0..200 {
        let head = heads[rng.index(heads.len())];
        let head = damage(&mut rng, head.as_bytes());
        let mut stream = std::net::TcpStream::connect(bus.addr).unwrap();
        // A request that is cut waits for its rest: nothing more comes, which ends it.
        std::io::Write::write_all(&mut stream, &head).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = vec![];
        let read = std::io::Read::read_to_end(&mut stream, &mut answer);
        assert!(read.is_err() || answer.is_empty() || answer.starts_with(b"HTTP/1.1 "));
    }
    assert_eq!(bus.connect().peek("q")["envelope"]["payload"], "kept");
}
