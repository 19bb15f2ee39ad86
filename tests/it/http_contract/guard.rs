//! Web pages stay out.

use crate::http::{Bus, Conn};

fn with_host(bus: &Bus, version: &str, host: &str) -> u16 {
    let mut conn = bus.connect();
    conn.write(format!("GET /roster HTTP/{version}\r\n{host}\r\n").as_bytes());
    status(&mut conn)
}

fn status(conn: &mut Conn) -> u16 {
    conn.finish("GET").status
}

#[test]
fn requests_of_web_pages_are_refused_unless_their_origin_is_allowed() {
    let bus = Bus::with(|config| config.allow_origins = vec!["http://good.example".into()]);
    let mut conn = bus.connect();
    for origin in [
        "http://evil.example",
        "null",
        "http://good.example.evil",
        "",
    ] {
        let headers = [("origin", origin), ("content-type", "application/json")];
        conn.request("GET", "/roster", &headers, None)
            .is_problem(403);
        let body: &[u8] = br#"{"to":"a","payload":1}"#;
        conn.request("POST", "/send", &headers, Some(body))
            .is_problem(403);
    }
    let headers = [("origin", "http://good.example")];
    assert_eq!(conn.request("GET", "/roster", &headers, None).status, 200);
    let headers = [headers[0], ("origin", "http://evil.example")];
    conn.request("GET", "/roster", &headers, None)
        .is_problem(403);
    assert_eq!(conn.peek("a")["status"], "timeout");
}

#[test]
fn a_loopback_listener_answers_to_local_names_only() {
    let bus = Bus::start();
    for host in [
        "localhost",
        "LocalHost:9440",
        "127.0.0.1",
        "127.1.2.3:80",
        "[::1]",
        "[::1]:1",
    ] {
        assert_eq!(
            with_host(&bus, "1.1", &format!("host: {host}\r\n")),
            200,
            "{host}"
        );
    }
    for host in [
        "evil.example",
        "evil.example:9440",
        "localhost.evil.example",
        "10.0.0.1",
        "",
    ] {
        assert_eq!(
            with_host(&bus, "1.1", &format!("host: {host}\r\n")),
            421,
            "{host}"
        );
    }
    assert_eq!(with_host(&bus, "1.1", ""), 400);
    assert_eq!(
        with_host(&bus, "1.1", "host: localhost\r\nhost: localhost\r\n"),
        400
    );
}

#[test]
fn a_target_in_absolute_form_is_judged_by_its_host() {
    let bus = Bus::start();
    let mut conn = bus.connect();
    conn.write(b"GET http://evil.example/roster HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(status(&mut conn), 421);
    let mut conn = bus.connect();
    conn.write(b"GET http://localhost/roster HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(status(&mut conn), 200);
}
